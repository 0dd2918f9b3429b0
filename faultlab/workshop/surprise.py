"""Surprise: what a trainer lets happen at seats: a second fault, a false lead, or a message."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from faultlab.core.document import Strict
from faultlab.lab import numbers

Kind = Literal["fault", "decoy", "message"]
BOSS, TRAINER = "the boss", "your trainer"
LONGEST = 500  # characters of a message


class Surprise(Strict):
    """One of `fault` (the lab that it is of), `decoy` (its id) and `message` (one line).

    `sender`: of the message. `seats`: their names; without one, all of the class.
    """

    fault: str = ""
    decoy: str = ""
    message: Annotated[str, Field(max_length=LONGEST)] = ""
    sender: Annotated[str, Field(min_length=1, max_length=40)] = BOSS
    seats: list[str] = Field(default=[])

    @field_validator("fault")
    @classmethod
    def _named(cls, fault: str) -> str:
        return numbers.real(fault)

    @model_validator(mode="after")
    def _one_of_three(self) -> Surprise:
        if [bool(self.fault), bool(self.decoy), bool(self.message.strip())].count(True) != 1:
            raise ValueError("expected one of fault, decoy and message")
        if not (self.message + self.sender).isprintable():
            raise ValueError("message, sender: expected one line of printable text")
        return self

    @property
    def kind(self) -> Kind:
        """Return which of the three it is."""
        return "fault" if self.fault else "decoy" if self.decoy else "message"

    @property
    def text(self) -> str:
        """Return it in words, for the trainer."""
        if self.message:
            return f"message from {self.sender}: {self.message}"
        return f"second fault: {self.fault}" if self.fault else f"false lead: {self.decoy}"


class Timed(Surprise):
    """A surprise of class.toml.

    `at`: hours and minutes since its block has opened (`block`, from 1), or since the class began.
    """

    at: Annotated[str, Field(pattern=r"^\d{1,2}:[0-5]\d$")]
    block: Annotated[int | None, Field(ge=1)] = None

    @property
    def seconds(self) -> float:
        """Return after how many seconds it comes."""
        hours, minutes = map(int, self.at.split(":"))
        return 3600.0 * hours + 60 * minutes
