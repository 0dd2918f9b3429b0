"""Phase: one state of a lab that a run measures, by the name that it has in records."""

from __future__ import annotations

_BEFORE, _LATE = ", before", ", late"


class Phase(str):
    """The name of a phase, such as `faulty` or `cheat 2`, and what it says about the stack."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """Return the first word of its name, such as `cheat`."""
        return self.partition(" ")[0].partition(",")[0]

    @property
    def before(self) -> Phase:
        """Return the phase before this one: injected and proven again."""
        return Phase(self + _BEFORE)

    @property
    def later(self) -> Phase:
        """Return the phase a few minutes after this one."""
        return Phase(f"{self}, {LATER}")

    @property
    def wanted_well(self) -> bool:
        """Return whether every user should be served: no fault yet, or after a repair."""
        repaired = self.kind in ("fixed", "alternative") or self.of_examinee
        return self.kind == "healthy" or (repaired and not self.faulty)

    @property
    def faulty(self) -> bool:
        """Return whether the whole fault is present."""
        return self == FAULTY or self.again

    @property
    def again(self) -> bool:
        """Return whether the fault was injected and proven again, before an alternative."""
        return self.endswith(_BEFORE)

    @property
    def of_examinee(self) -> bool:
        """Return whether it shows what an examinee did, so that an outage is their result."""
        return self in (CHECK, VERDICT, LATER) or self.kind == "repair"

    @property
    def tried(self) -> bool:
        """Return whether it shows one attempt of many, after which users may still be harmed."""
        return self == CHECK or self.kind == "repair"

    @property
    def last(self) -> bool:
        """Return whether it is the look whose verdict counts for good."""
        return self == LATER or self.kind == "repair"

    @property
    def cheat(self) -> bool:
        """Return whether it follows a cheat."""
        return self.kind == "cheat"

    @property
    def left(self) -> str:
        """Return the only fault of several that is left in it; empty in any other phase."""
        return self.removeprefix(_ONLY) if self.startswith(_ONLY) else ""


_ONLY = "only "

HEALTHY = Phase("healthy")
FAULTY = Phase("faulty")
FIXED = Phase("fixed")
STILL = Phase(HEALTHY + _LATE)  # a fresh stack before its fault, late in the walk
CHECK = Phase("check")  # what a learner has done so far
VERDICT = Phase("verdict")  # what an agent has done in the end
LATER = Phase("later")  # the same a few minutes later: this is the verdict that counts
PHASES = (HEALTHY, FAULTY, FIXED)  # of the main walk


def alternative(number: int) -> Phase:
    """Return the phase after an alternative fix, counted from 1."""
    return Phase(f"alternative {number}")


def cheat(number: int) -> Phase:
    """Return the phase after a cheat, counted from 1."""
    return Phase(f"cheat {number}")


def repair(number: int) -> Phase:
    """Return the phase after a repair of repairs.toml, counted from 1."""
    return Phase(f"repair {number}")


def only(fault: str) -> Phase:
    """Return the phase in which all faults but this one are fixed."""
    return Phase(_ONLY + fault)
