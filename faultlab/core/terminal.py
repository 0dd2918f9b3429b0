"""Terminal: output for a person in 80 columns, readable without colour; or JSON for a program."""

from __future__ import annotations

import locale
import os
import re
import shlex
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from faultlab.core import events, paths
from faultlab.core.errors import Problem
from faultlab.core.events import Kind, Moment
from faultlab.core.make import plain

if TYPE_CHECKING:
    from rich.console import Console


_FOLDED = re.compile(r"<details><summary>([^<]*)</summary>")
_HTML = re.compile(r"^<!--.*?-->\n| *<!--.*?-->", re.MULTILINE | re.DOTALL)
_END = re.compile(r"^ *</details>\n*", re.MULTILINE)  # with its indent, which the next line has not
_PAGER = "FRX"  # options of less, as Git has them: end at once if it fits, show colours, stay
# What we and rich print beyond ASCII, for a terminal that has nothing else.
_ASCII = str.maketrans(
    {"\u2013": "-", "\u2014": "-", "…": "...", "•": "*", "─": "-", "━": "-", "│": "|"}
    | dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True))
)
_WIDTH = 80
_PATIENCE = 2.0  # seconds after which a wait must show a sign of life
_BEAT = 5.0  # seconds between signs of life without a spinner


class Step:
    """A wait in progress; `note` shows its present action."""

    def __init__(self, doing: str, hear: Callable[[Moment, str], None]) -> None:
        self.text = ""
        self.result = ""
        self._hear = hear
        self.note(doing)

    def note(self, text: str) -> None:
        """Show what is happening now."""
        if text != self.text:
            self._hear(Kind.DOING if self.text else Kind.BEGIN, text)
        self.text = text

    def done(self, text: str) -> None:
        """Set the text that stays on the line when the step ends."""
        self.result = text


class _Ascii:
    """A terminal that can show ASCII alone. Other letters become similar ones, else a `?`."""

    encoding = "ascii"

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    def write(self, text: str) -> int:
        """Write a text."""
        shown = text.translate(_ASCII).encode("ascii", "replace").decode()
        return self._terminal.write(shown)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)


def has_ascii_only() -> bool:
    """Return whether our output goes to a terminal whose locale is not UTF-8."""
    utf8 = locale.getencoding().lower() in ("utf-8", "utf8")
    return not utf8 and sys.stdout.isatty()


def close_output() -> None:
    """Write nothing more, because `| head` has closed the pipe, or the terminal is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


class Terminal:
    """Lines, steps, tables and Markdown for a person; for a program one JSON object, or events."""

    def __init__(self, as_json: bool = False, as_events: bool = False) -> None:
        self.as_json = as_json
        self.as_events = as_events
        self.quiet = as_json or as_events  # no output for people
        self.goes_on = False  # also when nothing reads the output any more, as with `| head`
        self._said_json = False

    @cached_property
    def console(self) -> Console:
        """Return rich's console, created at its first use because its import takes 0.05 s."""
        from rich.console import Console

        unread = self._unread

        class Plain(Console):
            """A Console that leaves a closed pipe to us: rich would exit with 1, our "no"."""

            def on_broken_pipe(self) -> None:
                unread()

        made = Plain(quiet=self.quiet, highlight=False, emoji=False)
        if has_ascii_only():
            made.file = cast("TextIO", _Ascii(sys.stdout))
        if not made.is_terminal or made.width > _WIDTH:
            made.width = _WIDTH
        return made

    def _unread(self) -> None:
        """Go on without output if that is possible, or raise BrokenPipeError."""
        if not self.goes_on:
            raise BrokenPipeError
        close_output()

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            self._unread()

    def say(self, text: str = "") -> None:
        """Print a line."""
        if self.quiet:
            return
        self.console.print(plain(text), markup=False)

    def command(self, text: str) -> None:
        """Print a command on one line, however long, so that it can be copied."""
        self.console.print(f"  {plain(text)}", markup=False, soft_wrap=True)

    def heading(self, text: str) -> None:
        """Print a line that is emphasised where there is colour."""
        self.console.print(text, style="bold", markup=False)

    def markdown(self, text: str, paged: bool = False) -> None:
        """Print a document: rendered for a person, as Markdown without HTML for a pipe.

        `paged`: a person gets it page by page, by $PAGER or less.
        """
        if self.quiet:
            return
        # Text cannot fold, and the comments are for the programs that make and check a document.
        text = _FOLDED.sub(r"*\1:*", text)
        text = _HTML.sub("", _END.sub("", plain(text)))
        if self.console.is_terminal:
            from rich.markdown import Markdown

            os.environ.setdefault("LESS", _PAGER)
            with self.console.pager(styles=True) if paged else nullcontext():
                self.console.print(Markdown(text))
        else:
            self._write(text.rstrip() + "\n")

    def json(self, value: object) -> None:
        """Print the one JSON object of `--json`; later ones are dropped."""
        if value is None:
            return
        self.event(events.Result(value))
        if self.as_json and not self._said_json:
            self._said_json = True
            self._write(plain(events.text(value, indent=1)) + "\n")

    def event(self, event: events.Event) -> None:
        """Print a line of `--events`."""
        if self.as_events:
            self._write(plain(events.text(event)) + "\n")

    @contextmanager
    def step(self, label: str, doing: str) -> Iterator[Step]:
        """Print `label  result  seconds`, with signs of life if it takes more than two seconds."""
        started = time.monotonic()
        with self.alive(label, doing) as step:
            yield step
        seconds = time.monotonic() - started
        line = f"{label:<9} {step.result or doing}"
        self.say(f"{line:<70} {seconds:5.1f} s" if len(line) <= 70 else f"{line}")

    @contextmanager
    def alive(self, label: str, doing: str) -> Iterator[Step]:
        """Show a sign of life if the body takes longer than two seconds, but no line at its end."""
        started = time.monotonic()

        def hear(kind: Moment, text: str) -> None:
            self.event(events.Step(kind, label, text, round(time.monotonic() - started, 3)))

        step = Step(doing, hear)
        with self._beating(label, step):
            yield step
        hear(Kind.STEP, step.result or doing)

    @contextmanager
    def _beating(self, label: str, step: Step) -> Iterator[None]:
        if self.quiet:
            yield
            return
        ended = threading.Event()

        def beat_line() -> None:
            waited = 0.0
            pause = _PATIENCE
            while not ended.wait(pause):
                waited += pause
                pause = _BEAT
                with suppress(BrokenPipeError):  # the next line of the step finds it out
                    self.say(f"{label:<9} … {step.text[:50]}, {waited:.0f} s so far")

        def beat_spinner() -> None:
            from rich.markup import escape

            kind = "line" if has_ascii_only() else "dots"
            with self.console.status("", spinner=kind) as status:
                while not ended.wait(0.2):
                    status.update(escape(f"{label:<9} {step.text}"[: self.console.width - 4]))

        beat = beat_spinner if self.console.is_terminal else beat_line
        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def findings(self, found: Sequence[tuple[bool, str, str, str]]) -> None:
        """Print measured values and limits: whether each holds, its name, value and limit."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_edge=False, header_style="")
        for column in ("", "measured here", "value", "wanted"):
            table.add_column(column, justify="right" if column == "value" else "left")
        for holds, *words in found:
            style = None if holds else "bold red"
            table.add_row("yes" if holds else "NO", *map(Text, words), style=style)
        self.console.print(table)

    def points(self, texts: Iterable[str]) -> None:
        """Print each text as an item of a list, with an indent for its further lines."""
        for text in texts:
            lines = textwrap.wrap(plain(text), self.console.width - 2)
            self.say("\n".join(("  " if i else "- ") + line for i, line in enumerate(lines)))

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        strong: Collection[int] = (),
        whole: Collection[int] = (),
    ) -> None:
        """Print a plain table.

        The rows `strong` (from 0) are emphasised where there is colour. The columns `whole` (from
        0) hold what people copy: they are never wrapped, and cut only if the others have no room.
        """
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
        for i, column in enumerate(columns):
            table.add_column(Text(column), no_wrap=i in whole)
        for i, row in enumerate(rows):
            cells = (Text(plain(cell)) for cell in row)
            table.add_row(*cells, style="bold red" if i in strong else None)
        self.console.print(table)

    def problem(self, problem: Problem) -> None:
        """Print what happened and what to type next, a line each, on standard error."""
        self.json(problem.result)
        facts = problem.message, problem.hint, problem.exit_code
        if self.as_events:
            self.event(events.Error(*facts))
        else:
            self.json(events.Failure(*facts))
        sys.stderr.write(f"faultlab: {plain(' '.join(problem.message.split()))}\n")
        if problem.hint:
            sys.stderr.write(f"  next: {typable(problem.hint)}\n")
        sys.stderr.flush()


def typable(hint: str) -> str:
    """Return the hint as it can be typed in the present folder, without the venv in PATH."""
    root = paths.checkout()  # also if FAULTLAB_ROOT points to other labs
    hint = plain(hint)
    if root is None:
        beside = Path(sys.executable).parent
        lost = hint.startswith("faultlab ") and shutil.which("faultlab") is None
        return f"{beside}/{hint}" if lost else hint
    here = Path.cwd() == root
    if hint.startswith("faultlab ") and shutil.which("faultlab") is None:
        return f"{'' if here else f'{root}/'}.venv/bin/{hint}"
    return hint if here else re.sub(r"^make (?=\S)", f"make -C {shlex.quote(str(root))} ", hint)
