"""Proof: what the recorded walks say of each cheat and of each repair, as a table."""

from collections.abc import Iterable, Iterator

from faultlab.core import text
from faultlab.core.text import number
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run.phase import FIXED, HEALTHY, alternative, cheat
from faultlab.verify.walks import Limit, Walk, Walks

_COLUMNS = ("lab", "what was done", "walks", "green", "told by")


def as_markdown(kept: Walks) -> str:
    """Return a row for the fix, for each alternative and for each cheat of every lab."""
    rows = [row for lab_id in labs.ours() for row in _rows(labs.load(lab_id), kept)]
    return "\n".join(text.markdown(_COLUMNS, rows)) + "\n"


def told_by(walks: Iterable[Walk], phase: str, limits: list[Limit]) -> list[str]:
    """Return the first measure that said no in a phase, for each of these walks that had one."""
    told = [_amiss(walk, phase, limits) for walk in walks if phase in walk.phases]
    return [text for text in told if text]


def _rows(lab: Lab, kept: Walks) -> Iterator[list[str]]:
    done = [(FIXED, "the documented fix")] if lab.fix else []
    done += [(alternative(i), f"repair: {it.why}") for i, it in enumerate(lab.alternative, 1)]
    done += [(cheat(i), f"cheat: {it.why}") for i, it in enumerate(lab.cheat, 1)]
    walks = kept.of(lab.id)
    limits = kept.limits.get(lab.id, [])
    for phase, why in done:
        its = [walk for walk in walks if phase in walk.phases]
        told = told_by(its, phase, limits)
        green = f"{len(its) - len(told)} of {len(its)}" if its else "not walked yet"
        yield [lab.id, why.replace("|", "/"), str(len(its)), green, *(told[-1:] or [""])]


def _amiss(walk: Walk, phase: str, limits: list[Limit]) -> str:
    """Return the first measure that says no in a phase, with its value; empty: all say yes.

    In a walk that passed each repair was green, by limits that follow the speed of the machine.
    """
    if walk.verdict == "pass" and not phase.startswith("cheat"):
        return ""
    for limit in limits:
        if limit.phase != phase or limit.kind == "ill":
            continue
        value, healthy = walk.value(limit.measure, phase), walk.value(limit.measure, HEALTHY)
        if value is None or healthy is None or limit.bound.holds(value, healthy):
            continue
        return f"{limit.measure}: {number(value, limit.unit)}"
    # Limits follow the speed of the machine, and the walks do not keep that.
    return "a limit that follows the speed of the machine" if walk.verdict == "pass" else ""
