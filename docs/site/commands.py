"""Commands: the page about the command line, from the help that the command line prints."""

import re
import sys
from collections.abc import Iterator
from itertools import groupby

from faultlab.cli.main import VERBS, program
from faultlab.cli.verb import Verb
from faultlab.core import text
from faultlab.core.errors import BadInput, CannotRun, SaidNo


def page(documented: set[str]) -> str:
    """Return the page. `documented`: the verbs whose JSON has a page of its own."""
    parts = ["# Command line", f"{program.help} `make` alone lists the shorter `make` targets."]
    parts += ["## Exit codes", *_exit_codes()]
    for module, verbs in groupby(VERBS.values(), lambda verb: verb.callback.__module__):
        title, _, about = (sys.modules[module].__doc__ or "").partition(": ")
        parts += [f"## {title}", about[0].upper() + about[1:]]
        for verb in verbs:
            parts += _verb(verb, documented)
    return "\n\n".join(parts)


def _exit_codes() -> Iterator[str]:
    rows = [["0", "A pass."]]
    for problem in (SaidNo, BadInput, CannotRun):
        meaning = re.sub(r": exit \d", "", problem.__doc__ or "")
        rows.append([str(problem.exit_code), meaning])
    yield "\n".join(text.markdown(("code", "meaning"), rows))


def _verb(verb: Verb, documented: set[str]) -> Iterator[str]:
    """Yield the section of a verb: its purpose, usage, words, and examples."""
    context = verb.make_context(f"faultlab {verb.name}", [], resilient_parsing=True)
    yield f"### faultlab {verb.name}"
    yield verb.help or ""
    yield f"```\n{verb.get_usage(context).removeprefix('Usage: ')}\n```"
    records = [param.get_help_record(context) for param in verb.get_params(context)]
    rows = [[f"`{_cell(words)}`", _cell(meaning)] for words, meaning in filter(None, records)]
    yield "\n".join(text.markdown(("argument or option", "meaning"), rows))
    yield "Examples:"
    yield "```sh\n" + "\n".join(verb.examples) + "\n```"
    if verb.name in documented:
        yield f"[The JSON of `faultlab {verb.name}`](json/{verb.name}.md)"


def _cell(words: str) -> str:
    return words.replace("|", r"\|")
