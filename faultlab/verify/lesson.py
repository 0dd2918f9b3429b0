"""Lesson: the parts of a lesson that repeat lab.toml and the recorded walks, made from these."""

import re
import textwrap
from collections.abc import Iterator, Sequence

from faultlab.lab.model import Lab, Step
from faultlab.run.phase import cheat
from faultlab.verify import proof
from faultlab.verify.curve import Curve, said
from faultlab.verify.walks import Walks

_WRAP = textwrap.TextWrapper(80, subsequent_indent="   ", break_on_hyphens=False)
_END = "<!-- end -->"
_PART = r"<!-- {0} -->\n(?:(?:(?!<!-- )[\s\S])*<!-- end -->\n)?"


def rendered(lab: Lab, kept: Walks, curves: Sequence[Curve] = ()) -> str:
    """Return the lesson of a lab with the commands of its fix and its wrong turns made again.

    And, where its curve is known, with the sentence that says how much of the fault is too much.
    """
    text = lab.lesson
    parts = [("fix", _fix(lab)), ("wrong turns", _wrong_turns(lab, kept))]
    parts += [("dose", _dose(curve)) for curve in curves if curve.lab == lab.id]
    for name, lines in parts:
        whole = "\n".join([f"<!-- {name} -->", *lines, f"{_END}\n"])
        text = re.sub(_PART.format(name), whole.replace("\\", r"\\"), text)
    return text


def _fix(lab: Lab) -> Iterator[str]:
    """Yield the commands of a fix. A control can have one as well, and has no fault."""
    if not lab.fix:
        return
    yield "```"
    for number, fix in enumerate([fault.fix for fault in lab.faults] or [lab.fix], 1):
        if lab.several:
            yield f"# fault {number}"
        yield from map(typed, fix)
    yield "```"


def _dose(curve: Curve) -> Iterator[str]:
    """Yield what users feel of the doses of a fault, with a link to its curve."""
    link = f"[The curve](../../docs/curves.md#{curve.lab})."
    says = f"How much is too much? {said(curve)} {link}"
    yield from textwrap.wrap(says, 80, break_on_hyphens=False)


def _wrong_turns(lab: Lab, kept: Walks) -> Iterator[str]:
    """Yield each cheat: why it is none, what is typed, and what the check then read."""
    walks = kept.of(lab.id)
    for number, remedy in enumerate(lab.cheat, 1):
        told = proof.told_by(walks, cheat(number), kept.limits.get(lab.id, []))
        says = remedy.why + (f" The check then reads `{told[-1]}`." if told else "")
        yield from _WRAP.wrap(f"{number}. {says}")
        commands = "\n".join(["```", *map(typed, remedy.steps), "```"])
        yield "\n" + textwrap.indent(commands, "   ") + "\n"


def typed(step: Step) -> str:
    """Return a step as an engineer types it, with `…` for the name of the stack."""
    if step.run is not None:
        return f"{step.at}# {step.run.strip()}"
    verb = f"update {step.limit.flags}" if step.limit is not None else "restart"
    return f"$ docker {verb} …-{step.at}"
