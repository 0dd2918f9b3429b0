"""Workshop: the verb of a trainer."""

from typing import Any

from click import Choice, argument, option

from faultlab.cli.verb import verb
from faultlab.core import defaults
from faultlab.core.terminal import Terminal


@verb(
    "start class.toml",
    "start class.toml --listen 0.0.0.0",
    "status class.toml",
    "export class.toml --to results.csv",
    "end class.toml",
)
@argument("action", type=Choice(("start", "status", "end", "export")))
@argument("file", default=defaults.CLASS_FILE, help=f"who and what ({defaults.CLASS_FILE})")
@option("--listen", metavar="ADDR", default=defaults.LOOPBACK, help="with TLS (loopback)")
@option("--port", default=defaults.CLASS_PORT, metavar="N", help=f"({defaults.CLASS_PORT})")
@option("--name", "names", multiple=True, metavar="NAME", help="of this machine in links")
@option("--cert", metavar="FILE", help="certificate (one of its own)")
@option("--key", metavar="FILE", help="and its key")
@option("--to", metavar="FILE", help="export: .csv, .json or .html (all three)")
def class_(term: Terminal, action: str, file: str, to: str | None, **server: Any) -> object:
    """Run a workshop: seats with labs of their own, and a page for everybody."""
    from faultlab.workshop import verbs

    match action:
        case "status":
            return verbs.status(term, file)
        case "end":
            return verbs.end(term, file)
        case "export":
            return verbs.write(term, file, to)
    verbs.start(term, file, **server)
    return None
