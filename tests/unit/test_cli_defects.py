"""Defects of the command line that were seen in a terminal: pipes, widths, indents, ASCII."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from rich.console import Console

from faultlab.core import terminal
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.lab import loader as labs
from faultlab.learn import learner
from faultlab.observe import watch
from faultlab.observe.watch import Number
from faultlab.run import placement
from faultlab.workshop import connections
from tests.unit.conftest import REPO


@contextmanager
def unread() -> Iterator[None]:
    """A standard output that nothing reads any more."""
    theirs, ours = os.pipe()
    os.close(theirs)
    out, err = os.fdopen(ours, "w"), os.fdopen(os.dup(2), "w")
    with out, err, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        try:
            yield
        finally:
            terminal.close_output()  # else what is in its buffer cannot be written


def test_a_start_goes_on_without_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """`start mtu | head -1` brought no lab up, and showed a traceback."""

    def choose(term: Terminal, *_: object) -> None:
        term.say("engine")  # not the first line: it is lost as well
        term.json({"a": 1})
        raise CannotRun("reached")

    monkeypatch.setattr(placement, "choose", choose)
    with unread(), pytest.raises(CannotRun, match="reached"):
        learner.begin(Terminal(), labs.load("mtu"), "auto")


def test_other_verbs_end_without_a_reader() -> None:
    """As `watch`, which has no other end."""
    with unread(), pytest.raises(BrokenPipeError):
        Terminal().say("a line")


def test_a_sign_of_life_without_a_reader_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_PATIENCE", 0.01)
    died: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    with unread(), suppress(BrokenPipeError), Terminal().step("stack", "starting"):
        threading.Event().wait(0.2)
    assert died == []


def test_an_answer_leaves_no_indent_behind(capsys: pytest.CaptureFixture[str]) -> None:
    """The second question was a part of the first one."""
    Terminal().markdown(labs.load("somaxconn").lesson)
    out = capsys.readouterr().out
    assert re.findall(r"^ *\d\. (?=A server|ListenOverflows)", out, re.MULTILINE) == ["1. ", "2. "]
    assert "details" not in out


@pytest.mark.parametrize("width", [80, 120])
def test_watch_cuts_no_unit(width: int) -> None:
    found = [
        Number("Packets lost or sent again", "php-fpm-2 sent again", "/s", 12345.0, [1.0] * 60),
        Number("Network", "web out", "Mbit/s", 0.123, [None]),
    ]
    out = io.StringIO()
    Console(file=out, width=width).print(watch._table(found, width))
    first, second = out.getvalue().splitlines()[1:]
    assert found[0].text in first and found[1].text in second
    assert max(map(len, out.getvalue().splitlines())) <= width
    assert "Packets lost or sent again" in first


SCREEN = """
import time
from faultlab.core import terminal
from faultlab.core.terminal import Terminal
term = Terminal()
with term.step("stack", "starting … it"):
    time.sleep(0.7)
term.say("from 1 \\u2013 2 … ▁█")
term.markdown("- a point\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n")
"""


def on_a_terminal(program: str, **env: str) -> bytes:
    """Return what a program prints on a terminal."""
    ours, theirs = pty.openpty()
    whole = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPO), "TERM": "xterm", **env}
    with subprocess.Popen(
        [sys.executable, "-X", "utf8", "-c", program], env=whole, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        said = b""
        with suppress(OSError):  # the end of a terminal
            while some := os.read(ours, 65536):
                said += some
        assert process.wait() == 0, said
    os.close(ours)
    return said


def test_a_terminal_of_ascii_gets_ascii() -> None:
    said = on_a_terminal(SCREEN, LC_ALL="C")
    assert said.isascii() and b"from 1 - 2 ... _#" in said, said
    assert b"?" not in re.sub(rb"\x1b\[\?", b"", said)
    said = on_a_terminal(SCREEN, LC_ALL="C.UTF-8")
    assert "from 1 \u2013 2 … ▁█".encode() in said


def test_a_lesson_is_paged_on_a_terminal() -> None:
    program = "from faultlab.core.terminal import Terminal\nTerminal().markdown('# A lesson', {})"
    pager = {"PAGER": "sed 's/lesson/page/'", "LC_ALL": "C.UTF-8"}
    ours, theirs = pty.openpty()
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPO), "TERM": "xterm", **pager}

    def shown(paged: bool) -> bytes:
        done = [sys.executable, "-c", program.format(paged)]
        subprocess.run(done, env=env, stdin=theirs, stdout=theirs, check=True)
        return os.read(ours, 65536)

    assert b"A page" in shown(True)
    assert b"A lesson" in shown(False)
    os.close(ours)
    os.close(theirs)


def test_the_log_of_the_server_counts_no_tasks() -> None:
    import logging

    def line(text: str) -> logging.LogRecord:
        return logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, text, (2,), None)

    assert not connections._matters(line("Cancel %s running task(s), timeout graceful shutdown"))
    assert connections._matters(line("Another trouble: %s"))
