"""Main: all verbs as one program, its exit codes, and the signals that end it."""

import locale
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from faultlab import __version__
from faultlab.cli import (
    admin,
    agents,
    author,
    data,
    harness,
    learn,
    observe,
    report,
    score,
    verify,
    workshop,
)
from faultlab.cli.verb import SETTINGS, Verb, ending
from faultlab.core.errors import BadInput, CannotRun, Problem
from faultlab.core.terminal import Terminal, close_output

_GROUPS = learn, observe, workshop, verify, score, data, agents, harness, report, admin, author
VERBS = {
    verb.name: verb for group in _GROUPS for verb in vars(group).values() if isinstance(verb, Verb)
}


class _Program(click.Group):
    """The group of all verbs, in the order in which their files define them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs."""
        return list(self.commands)


@click.group(
    cls=_Program,
    commands=VERBS,
    no_args_is_help=False,
    context_settings=SETTINGS,
    epilog=ending(f"faultlab {words}" for words in ("list", "start mtu", "check mtu", "down mtu")),
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def program() -> None:
    """One documented failure in a real stack, proven by measurement."""


def main(argv: list[str]) -> int:
    """Run one command line and return its exit code. User errors print no traceback."""
    _reach_us_when_told_to_stop()
    verb = VERBS.get(argv[0]) if argv else None
    term = Terminal(
        "--json" in argv and not (verb and verb.has_own_json),
        "--events" in argv and bool(verb and verb.has_events),
    )
    try:
        _run(argv, term, f"faultlab {verb.name} --help" if verb else "faultlab --help")
    except BrokenPipeError:
        close_output()
        return CannotRun.exit_code
    except (Exception, KeyboardInterrupt) as error:
        problem = _problem(error)
        try:
            term.problem(problem)
        except OSError:  # the pipe is closed
            close_output()
        return problem.exit_code
    return 0


def _run(argv: list[str], term: Terminal, hint: str) -> None:
    """Run one command line with click, but without click's `main` and its exit codes."""
    try:
        with program.make_context("faultlab", list(argv), obj=term) as ctx:
            program.invoke(ctx)
    except click.exceptions.Exit:
        return  # after --help and --version
    except click.UsageError as error:
        text = " ".join(error.format_message().split())
        if isinstance(error, click.NoSuchCommand):
            text = f"There is no command {error.command_name!r}."
        raise BadInput(text if text.endswith((".", "?", "?)")) else f"{text}.", hint) from error


def _problem(error: BaseException) -> Problem:
    """Return the error to print; with FAULTLAB_DEBUG, raise an error of our own again."""
    match error:
        case Problem():
            return error
        case KeyboardInterrupt():
            return CannotRun("Interrupted.", "faultlab status")
        case OSError():
            hint = f"ls -l {error.filename}" if isinstance(error, PermissionError) else "df -h"
            return CannotRun(f"{error.filename or 'A file'}: {error.strerror}.", hint)
    if os.environ.get("FAULTLAB_DEBUG"):
        raise error
    text = f"faultlab itself failed: {type(error).__name__}: {error}"
    return CannotRun(text, "type it again with FAULTLAB_DEBUG=1 before it")


def _reach_us_when_told_to_stop() -> None:
    """Let SIGTERM, and a SIGHUP that is not ignored, end us as Ctrl-C does, with the clean-up."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup
        signal.signal(signal.SIGHUP, stop)


def _in_utf8() -> None:
    """Start again in UTF-8 mode if the locale has another encoding; our files are UTF-8."""
    if locale.getpreferredencoding(False).lower() not in ("utf-8", "utf8"):
        sys.stdout.flush()
        utf8 = {**os.environ, "PYTHONUTF8": "1"}  # the Python programs that we start inherit this
        os.execve(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]], utf8)


def entry() -> NoReturn:
    """Run the console script."""
    _in_utf8()
    sys.exit(main(sys.argv[1:]))
