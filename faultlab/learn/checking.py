"""Checking: the learner's question whether it is fixed, now and a few minutes later."""

from dataclasses import dataclass, field, replace
from typing import Any

from faultlab.core.defaults import MYSTERY
from faultlab.core.errors import CannotRun, SaidNo
from faultlab.core.events import MAY_LACK
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Engine
from faultlab.learn import popular
from faultlab.learn.learner import Found, as_found
from faultlab.run import late
from faultlab.run.attached import attached
from faultlab.run.phase import CHECK, LATER, Phase
from faultlab.run.readings import as_seen, sentences
from faultlab.run.record import GONE
from faultlab.run.run import Run

_DOING = {
    CHECK: "measuring what its users meet now",
    LATER: "looking again at what its users meet",
}


@dataclass(frozen=True)
class Checked:
    """The symptom as a check has just measured it. `later`: minutes after a check that passed.

    `popular`: a sentence for each public answer that is in place and is no repair by itself.
    `gone`: the numbers of its faults that have shown before and show no more, if it has several.
    """

    lab: str
    verdict: str
    run: str
    findings: list[Found]
    later: float | None = field(default=None, metadata=MAY_LACK)
    popular: list[str] = field(default_factory=list)
    gone: list[int] = field(default_factory=list, metadata=MAY_LACK)


def check(
    term: Terminal, lab_id: str, later: float | None = None, *, only_late: bool = False
) -> Checked:
    """Measure the symptom now and judge it. Raises SaidNo if it still shows.

    `later`: look again after so many minutes, if it is fixed; that verdict counts. Without a
    number a mystery is looked at again, and no other lab. `only_late`: the look now is that one.
    """
    after = (late.MINUTES if lab_id == MYSTERY else 0.0) if later is None else later
    if only_late:
        return _later(term, lab_id, "", after)
    checked, engine = _measured(term, lab_id, CHECK, after)
    if after:
        term.say(f"{lab_id}: {late.announced(after)}. That verdict counts.")
        with term.step(LATER, "waiting") as step:
            late.wait(after, step.note, engine.pause)
            step.done("looked at again")
        return _later(term, lab_id, checked.run, after)
    term.say(f"{lab_id}: yes, it works as before. Next: make debrief-{lab_id}")
    if later is None:
        term.say("That was measured just now. To see whether it lasts:")
        term.command(f"faultlab check {lab_id} --later")
    return checked


def _later(term: Terminal, lab_id: str, run: str, after: float) -> Checked:
    """Look again and judge it. Raises SaidNo, or CannotRun if it is another run by now."""
    checked, _ = _measured(term, lab_id, LATER, after, run)
    term.say(f"{lab_id}: yes, it still works as before. Next: make debrief-{lab_id}")
    return replace(checked, later=after)


def _measured(
    term: Terminal, lab_id: str, phase: Phase, after: float, run_id: str = ""
) -> tuple[Checked, Engine]:
    with attached(lab_id, "check") as run:
        if run_id not in ("", run.record.id):
            raise CannotRun(
                f"{lab_id} was started again, so it was not looked at.", f"make check-{lab_id}"
            )
        with term.step(phase, _DOING[phase]) as step:
            run.note = step.note
            run.measure(phase)
            gone = run.record.facts.get(GONE, [])
            step.done("measured")
        judged = run.good(phase)
        found = as_seen(run.lab, judged)
        fixed = all(finding.holds for finding in found)
        waits = {LATER: after} if fixed and after and phase == CHECK else {}
        known = [] if fixed else popular.sentences(run.lab, run.stack)
        # The next look replaces the reading of this one.
        values = {finding.name: finding.value for finding in judged}
        more: dict[str, Any] = {"popular": known} if known else {}
        run.record.event(phase, fixed=fixed, found=values, **waits, **more)
        ended = run.reading(phase).outages
        hint = run.to_mend(ended[0]) if ended else f"make hint-{lab_id}"
    term.say()
    term.findings([finding.cells for finding in found])
    term.say()
    if said := [*sentences(found), *known]:
        term.points(said)
        term.say()
    verdict = "pass" if fixed else "fail"
    checked = Checked(lab_id, verdict, run.record.id, as_found(found), popular=known, gone=gone)
    if not fixed:
        how = "yet" if phase == CHECK else "for good"
        checked = replace(checked, later=None if phase == CHECK else after)
        raise SaidNo(f"{lab_id} is not fixed {how}{_progress(run)}.", hint, checked)
    return checked, run.engine


def _progress(run: Run) -> str:
    """Return how many of several faults are gone, but not which ones.

    One that is hidden by another has not shown yet, and is not gone.
    """
    gone, several = run.record.facts.get(GONE, []), len(run.lab.fault)
    verb = "is" if len(gone) == 1 else "are"
    return f": {len(gone)} of its {several} faults {verb} gone" if several else ""
