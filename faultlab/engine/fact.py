"""Fact: one thing that was tried about an engine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """A thing that was tried, whether it is as it should be, and the command to type if not."""

    name: str
    ok: bool
    text: str
    hint: str = ""
