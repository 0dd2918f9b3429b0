"""Proof: what the recorded walks say of each cheat and of each repair, as a table."""

from collections.abc import Iterator

from faultlab.core import text
from faultlab.core.text import number
from faultlab.lab import load as labs
from faultlab.lab.model import Lab
from faultlab.run import digest
from faultlab.run.contract import alternative, cheat
from faultlab.run.readings import FIXED, HEALTHY
from faultlab.verify.walks import Limit, Walk, Walks

_COLUMNS = ("lab", "what was done", "walks", "green", "told by")


def as_markdown(kept: Walks) -> str:
    """Return a row for the fix, for each alternative and for each cheat of every lab.

    Walks by another check or with another fault than today's do not count.
    """
    now = {lab_id: digest.walk(lab_id) for lab_id in labs.ids()}
    walks = [walk for walk in kept.walks.values() if walk.lab_digest == now.get(walk.lab)]
    rows = [row for lab_id in labs.ids() for row in _rows(labs.load(lab_id), kept, walks)]
    return "\n".join(text.markdown(_COLUMNS, rows)) + "\n"


def _rows(lab: Lab, kept: Walks, every: list[Walk]) -> Iterator[list[str]]:
    done = [(FIXED, "the documented fix")] if lab.fix else []
    done += [(alternative(i), f"repair: {it.why}") for i, it in enumerate(lab.alternative, 1)]
    done += [(cheat(i), f"cheat: {it.why}") for i, it in enumerate(lab.cheat, 1)]
    walks = [walk for walk in every if walk.lab == lab.id]
    limits = kept.limits.get(lab.id, [])
    for phase, why in done:
        its = [walk for walk in walks if phase in walk.phases]
        amiss = [told for walk in its if (told := _amiss(walk, phase, limits))]
        green = f"{len(its) - len(amiss)} of {len(its)}" if its else "not walked yet"
        yield [lab.id, why.replace("|", "/"), str(len(its)), green, amiss[-1] if amiss else ""]


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
    return ""
