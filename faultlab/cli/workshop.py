"""Workshop: the verb for a trainer."""

from collections.abc import Callable
from typing import Any

from click import Choice, IntRange, argument, option

from faultlab.cli.verb import verb
from faultlab.core import defaults, extra
from faultlab.core.terminal import Terminal


@verb("", "--port 8421")
@option("--port", default=defaults.CLASS_PORT, metavar="N", help=f"({defaults.CLASS_PORT})")
def page(term: Terminal, port: int) -> object:
    """Work on labs in a browser: catalogue, terminals, hints and lessons on one page."""
    with extra.needed("page"):
        from faultlab.workshop import solo

    return solo.serve(term, port)


@verb(
    "lint class.toml --seats 24",
    "guide class.toml --to papers",
    "start class.toml",
    "start class.toml --listen 0.0.0.0",
    "status class.toml",
    "export class.toml --to results.csv",
    "review class.toml --to review.md",
    "end class.toml",
)
@argument("action", type=Choice(("lint", "guide", "start", "status", "end", "export", "review")))
@argument("file", default=defaults.CLASS_FILE, help=f"the class file ({defaults.CLASS_FILE})")
@option(
    "--listen", metavar="ADDR", default=defaults.LOOPBACK, help="listen here, with TLS (loopback)"
)
@option("--port", default=defaults.CLASS_PORT, metavar="N", help=f"({defaults.CLASS_PORT})")
@option("--name", "names", multiple=True, metavar="NAME", help="this machine's name in links")
@option("--cert", metavar="FILE", help="the certificate (self-signed)")
@option("--key", metavar="FILE", help="the key of the certificate")
@option(
    "--to",
    metavar="FILE",
    help="export: .csv, .json, .html; review: .md, .html (all); guide: a folder",
)
@option("--seats", type=IntRange(1, 64), metavar="N", help="lint: also for this many seats")
def class_(
    term: Terminal, action: str, file: str, to: str | None, seats: int | None, **server: Any
) -> object:
    """Run a workshop: each seat has its own labs, and each person a page."""
    from faultlab.workshop import guide, review, verbs

    acts: dict[str, Callable[[], object]] = {
        "lint": lambda: guide.lint(term, file, seats),
        "guide": lambda: guide.write(term, file, to),
        "start": lambda: verbs.start(term, file, **server),
        "status": lambda: verbs.status(term, file),
        "end": lambda: verbs.end(term, file),
        "export": lambda: verbs.write(term, file, to),
        "review": lambda: review.write(term, file, to),
    }
    return acts[action]()
