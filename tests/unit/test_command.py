"""Programs on the host: what they print is read, so they print it in English."""

from __future__ import annotations

import pytest

from faultlab.core import command

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
