"""Reading: what one phase of a run has shown, before any code judges it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from faultlab.lab.leftover import Leftover
from faultlab.lab.outage import Outage

L = TypeVar("L")
W = TypeVar("W")


@dataclass(frozen=True)
class Reading(Generic[L, W]):
    """The readings of one phase: the symptom, and an optional inspection before and after it.

    `reference`: the speed of this machine during the look, as `engine/measure/cpu_reference.py`
    measures it. `answers`: the responses to each ask of the check; empty if none was sent.
    `serving`: the program that answers at each port, such as `web:80`, and daemons outside of their
    containers. `outages`: what had ended; then there can be no look. `left`: what a late look has
    found to run beside the stack; None in other looks. `frozen`: that look again while it was
    frozen.
    """

    look: L
    before: W | None = None
    after: W | None = None
    reference: float | None = None
    answers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    serving: Mapping[str, str] = field(default_factory=dict)
    outages: Sequence[Outage] = ()
    left: Sequence[Leftover] | None = None
    frozen: Reading[L, W] | None = None

    def speed(self, healthy: Reading[L, W]) -> float:
        """Return how many times as fast the machine is as in the healthy phase; 1 if unknown."""
        if self.reference and healthy.reference:
            return self.reference / healthy.reference
        return 1.0


def loaded(
    stored: Mapping[str, Any], look: TypeAdapter[L], inspection: TypeAdapter[W | None]
) -> Reading[L, W]:
    """Return a reading from its JSON. Raises KeyError or ValueError for another shape."""
    outages = TypeAdapter(tuple[Outage, ...]).validate_python(stored.get("outages") or ())
    left = TypeAdapter(tuple[Leftover, ...] | None).validate_python(stored.get("left"))
    ended = outages and stored["look"] is None
    return Reading(
        stored["look"] if ended else look.validate_python(stored["look"]),
        inspection.validate_python(stored["before"]),
        inspection.validate_python(stored["after"]),
        stored.get("reference"),
        stored.get("answers") or {},
        stored.get("serving") or {},
        outages,
        left,
        loaded(stored["frozen"], look, inspection) if stored.get("frozen") else None,
    )
