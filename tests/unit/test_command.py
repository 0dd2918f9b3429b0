"""Programs on the host: what they print is read, so they print it in English."""

from __future__ import annotations

import time

import pytest

from faultlab.core import command
from faultlab.core.errors import CannotRun

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
    """It could wait for ever: for a question that nobody sees, say."""
    began = time.monotonic()
    with pytest.raises(CannotRun, match="it had said nothing for 0 s; hello"):
        command.stream(["sh", "-c", "echo hello; exec sleep 60"], lambda _: None, patience=0.3)
    assert time.monotonic() - began < 30
    said: list[str] = []
    command.stream(
        ["sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done"], said.append, patience=0.5
    )
    assert said == ["1", "2", "3"]
