"""Programs on the host: what they print is read, so they print it in English."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faultlab.core import command
from faultlab.core.errors import CannotRun
from tests.waiting import until

SAY = ["sh", "-c", 'echo "$LC_ALL/$LANGUAGE/$MORE"']


@pytest.fixture(autouse=True)
def in_germany(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de", "MORE": "mehr"}.items():
        monkeypatch.setenv(name, value)


def test_a_program_speaks_english() -> None:
    assert command.run(SAY, timeout=10).stdout == "C.UTF-8//mehr\n"
    assert command.run(SAY, timeout=10, env={"MORE": "more"}).stdout == "C.UTF-8//more\n"


def test_so_does_one_that_takes_long() -> None:
    said: list[str] = []
    command.stream(SAY, said.append)
    assert said == ["C.UTF-8//mehr"]


def test_letters_beyond_ascii_come_through() -> None:
    assert command.run(["printf", "%s", "Grüße"], timeout=10).stdout == "Grüße"


def test_a_program_that_says_nothing_is_ended() -> None:
    """It could wait without end, for example for an answer to a question that is not shown."""
    began = time.monotonic()
    with pytest.raises(CannotRun, match="it had said nothing for 0 s; hello"):
        command.stream(["sh", "-c", "echo hello; exec sleep 60"], lambda _: None, patience=0.3)
    assert time.monotonic() - began < 30
    said: list[str] = []
    command.stream(
        ["sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done"], said.append, patience=0.5
    )
    assert said == ["1", "2", "3"]


def test_a_program_that_is_interrupted_cleans_up(tmp_path: Path) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    script = 'trap "touch cleaned; exit" TERM; cd "$0"; echo on; while :; do sleep 0.1; done'
    with pytest.raises(KeyboardInterrupt):
        command.stream(["sh", "-c", script, str(tmp_path)], interrupt)
    assert (tmp_path / "cleaned").exists()


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (["one", "two"], "sh failed: two", None),
        ([], "sh failed: it printed nothing", None),
        (["one", "setup: two", "  next: do x"], "sh failed: setup: two", "do x"),
        (["setup: one", "  next: do x", "        do y"], "sh failed: setup: one", "do x; do y"),
        (["a", "  next: b", "setup: one", "  next: do x"], "sh failed: setup: one", "do x"),
    ],
)
def test_the_reason_of_a_script_is_told(said: list[str], message: str, hint: str | None) -> None:
    words = ["sh", "-c", 'printf "%s" "$0"; exit 3', "\n".join(said)]
    with pytest.raises(CannotRun) as caught:
        command.stream(words, lambda _: None)
    assert caught.value.message == message
    assert caught.value.hint == (hint or shlex.join(words))


# Each prints a line where it is to be told to stop. `finish` is a piece of work: a program of its
# own, which runs until the test lets it end.
BEGINNING = """
import signal, sys, time
from faultlab.core import command
signal.signal(signal.SIGINT, signal.default_int_handler)
PROGRAM = 'touch "$0 runs"; until [ -e "$0 may end" ]; do sleep 0.05; done'

def finish(name):
    with command.uninterrupted():
        print(name, flush=True)
        command.run(["sh", "-c", PROGRAM, name], timeout=60).check_returncode()
        print("finished", name, flush=True)
"""
POSTPONED = """
try:
    finish("one")
    time.sleep(10)
    print("went on")
except KeyboardInterrupt:
    print("interrupted")
"""
AGAIN = """
try:
    try:
        print("work", flush=True)
        time.sleep(10)
    finally:
        finish("one")
        finish("two")
except KeyboardInterrupt:
    print("interrupted")
"""
NESTED = """
try:
    with command.uninterrupted():
        finish("one")
        print("outer")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    ("body", "told_at", "rest"),
    [
        (POSTPONED, ["one"], ["one", "finished one", "interrupted"]),
        (AGAIN, ["work"], ["work", "one", "finished one", "two", "finished two", "interrupted"]),
        (
            AGAIN,
            ["work", "one", "two"],
            ["work", "one", "finished one", "two", "finished two", "interrupted"],
        ),
        (NESTED, ["one"], ["one", "finished one", "outer", "interrupted"]),
    ],
)
def test_ctrl_c_in_a_clean_up_counts_when_it_has_finished(
    body: str, told_at: list[str], rest: list[str], tmp_path: Path
) -> None:
    """Ctrl-C reaches the whole process group, so also a program that the clean-up has started."""
    words = [sys.executable, "-c", BEGINNING + body]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line.strip())
            told = said[-1] in told_at
            if told:
                os.killpg(process.pid, signal.SIGINT)
            if said[-1] in ("one", "two"):
                until((tmp_path / f"{said[-1]} runs").exists, 30, "the program did not start")
                for _ in range(2 * told):
                    os.killpg(process.pid, signal.SIGINT)
                (tmp_path / f"{said[-1]} may end").touch()
    assert said == rest
    assert process.returncode == 0


def test_an_ignored_signal_hides_no_other() -> None:
    """Under nohup a SIGHUP is ignored, also in a clean-up."""
    old = [
        signal.signal(signal.SIGHUP, signal.SIG_IGN),
        signal.signal(signal.SIGTERM, signal.default_int_handler),
    ]
    try:
        with pytest.raises(KeyboardInterrupt), command.uninterrupted():
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in zip((signal.SIGHUP, signal.SIGTERM), old, strict=True):
            signal.signal(number, handler)
