"""Verb: one command of the command line, how it reads its words, and the end of its help.

The functions behind verbs import what they need when they are called, so `--help` is quick.
"""

import re
from collections.abc import Callable, Container, Iterable
from functools import wraps
from typing import Any

import click

from faultlab.core import defaults
from faultlab.core.terminal import Terminal

SETTINGS = {"help_option_names": ["-h", "--help"]}  # for click: of the program and of each verb
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_COUNT = re.compile(r"-?[\d.]+")


def _spelled(name: str) -> str:
    if any(map(str.isdigit, name)):
        from faultlab.lab import numbers

        return numbers.spelled(name)
    return name


def spelled(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    """Return the name of a lab as we write it: `p02` for `2`."""
    return name and _spelled(name)


def _all_spelled(
    _ctx: click.Context, _param: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(map(_spelled, names))


LAB = click.argument("lab", callback=spelled, help="a lab of `faultlab list`, by number or name")


def _engine(_ctx: click.Context, _param: click.Parameter, name: str) -> str:
    """Return the name of an engine, or `auto`. Raises BadInput for another."""
    if name != defaults.AUTO:
        from faultlab.run import placement

        placement.allowed(name)
    return name


ENGINE = click.option(
    "--engine",
    "wanted",
    metavar="ENGINE",
    default=defaults.AUTO,
    callback=_engine,
    help="where to run it: local, vm, kubernetes, or auto for local if possible (auto)",
)

MINUTES = click.FloatRange(0, 60)  # until a repair is looked at again; 0: it is not
LATER = click.option(
    "--later",
    type=MINUTES,
    default=3.0,
    metavar="MINUTES",
    help="after which a repair is looked at again, which counts; 0 for never (3)",
)

PHASE = click.option(
    "--phase",
    type=click.Choice(("healthy", "faulty", "fixed")),
    default="faulty",
    help="healthy, faulty or fixed (faulty)",
)

EVENTS = click.option(
    "--events", is_flag=True, expose_value=False, help="print a JSON object for each step"
)


BY_NAME = click.option(
    "--by-name", is_flag=True, help="show the name of each lab, too, which says what is wrong"
)


def many(name: str, text: str, required: bool = False) -> Callable[[Any], Any]:
    """Return an argument that takes any number of words. `name` is a plural."""
    one = name.removesuffix("s").upper()
    metavar = f"{one}..." if required else f"[{one}]..."
    how = _all_spelled if name == "labs" else None
    return click.argument(
        name, nargs=-1, required=required, metavar=metavar, callback=how, help=text
    )


def ending(examples: Iterable[str]) -> str:
    """Return the end of a help text, line by line: examples and exit codes."""
    return "\n  ".join(("\b\nexamples:", *examples)) + (
        "\n\n\b\nexit codes:\n"
        "  0  pass      1  the system under test said no\n"
        "  2  usage or bad input      3  unknown, or cannot run here"
    )


class Verb(click.Command):
    """A command with examples. It has a flag `--json`, unless its own `--json` takes a file."""

    def __init__(self, *, examples: tuple[str, ...], **facts: Any) -> None:
        super().__init__(epilog=ending(examples), context_settings=SETTINGS, **facts)
        self.examples = examples
        self.has_events = any("--events" in param.opts for param in self.params)
        self.has_own_json = any("--json" in param.opts for param in self.params)
        if not self.has_own_json:
            text = "print one JSON object"
            self.params += [click.Option(["--json"], is_flag=True, expose_value=False, help=text)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words after the name of the verb. Raises UsageError.

        Three things differ from click. `-1` is a number where no option takes it. An option is
        never the value of the option before it: in `--json --quick` the file is missing. An option
        that can do without a number takes no other word.
        """
        options = [param for param in self.params if isinstance(param, click.Option)]
        valued = {name for each in options if not each.is_flag for name in each.opts}
        able = {
            name for each in options if (each.metavar or "").startswith("[") for name in each.opts
        }
        first: list[str] = []
        last: list[str] = []
        words = iter(_joined(args, able))
        for word in words:
            if word == "--":
                last += words
            elif not _is_option(word):
                last.append(word)
            else:
                first.append(word)
                if word in valued - able:
                    first.append(next(words, "--"))
                    if _is_option(first[-1]):
                        raise click.BadOptionUsage(word, f"Option '{word}' requires an argument.")
        return super().parse_args(ctx, [*first, "--", *last])


def _joined(words: Iterable[str], able: Container[str]) -> list[str]:
    """Return the words, with each number that follows one of these options behind its `=`."""
    found: list[str] = []
    for word in words:
        if found and found[-1] in able and "--" not in found and _COUNT.fullmatch(word):
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and not _NUMBER.fullmatch(word)


def verb(*examples: str) -> Callable[[Callable[..., object]], Verb]:
    """Make a verb of a function, with its docstring as help and these words as examples.

    The function is called with the terminal, its arguments and its options. It prints text for
    people and returns the document for programs.
    """

    def made(act: Callable[..., object]) -> Verb:
        @wraps(act)
        def shown(term: Terminal, *words: Any, **options: Any) -> None:
            from faultlab.lab import release

            release.now()  # before anything is read for another one than was meant
            term.json(act(term, *words, **options))

        name = act.__name__.removesuffix("_").replace("_", "-")
        lines = tuple(f"faultlab {name} {words}".rstrip() for words in examples)
        command = click.command(name, Verb, examples=lines, short_help=act.__doc__)
        return command(click.pass_obj(shown))

    return made
