"""Trials: repairs, each tried on a fresh fault and judged by the check that a learner gets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from faultlab.core import lock
from faultlab.core.errors import CannotRun, Problem, SaidNo
from faultlab.core.naming import judge_namespace, stack_name
from faultlab.engine.contract import Engine
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab, Remedy
from faultlab.lab.repair import ENDS_SOON
from faultlab.run import digest, late
from faultlab.run.judge_error import ALTERNATIVE, CHEAT, Seen, Tried
from faultlab.run.phase import FAULTY, Phase, alternative, cheat, repair
from faultlab.run.run import Run
from faultlab.run.stack_in_phase import stack_in_phase
from faultlab.verify.case import PLACE
from faultlab.verify.proof import told_by
from faultlab.verify.walks import Walks


@dataclass(frozen=True)
class Trial:
    """A repair to try. `row`: what is known before; `phase`: of a walk that tries it, too."""

    row: Tried
    repair: Remedy
    phase: str = ""

    def judged(self, **found: Any) -> Tried:
        """Return the row with what was found."""
        return replace(self.row, **found)


def of(lab: Lab) -> list[Trial]:
    """Return the repairs of repairs.toml, then the alternatives and cheats of the lab's walk."""
    code = digest.repairs(lab)
    made = []
    for each in labs.repairs(lab):
        facts = {"title": each.title, "kind": each.kind, "expected": each.expected}
        made.append(Trial(_row(lab, each, code(each), **facts, source=each.source), each))
    for i, each_ in enumerate(lab.alternative, 1):
        facts = {"title": alternative(i), "kind": ALTERNATIVE, "expected": "accept"}
        made.append(Trial(_row(lab, each_, code(each_), **facts), each_, alternative(i)))
    for i, each_ in enumerate(lab.cheat, 1):
        facts = {"title": cheat(i), "kind": CHEAT, "expected": "refuse"}
        made.append(Trial(_row(lab, each_, code(each_), **facts), each_, cheat(i)))
    return made


def _row(lab: Lab, repair: Remedy, code: str, **facts: Any) -> Tried:
    return Tried(lab=lab.id, got="unknown", why=repair.why, digest=code, **facts)


def walked(trial: Trial, kept: Walks) -> Tried | None:
    """Return the verdict that recorded walks gave an alternative or a cheat; None if none did.

    If they differ, the wrong one counts.
    """
    lab_id, phase = trial.row.lab, trial.phase
    walks = [each for each in kept.of(lab_id) if phase and phase in each.phases]
    if not walks:
        return None
    limits = kept.limits.get(lab_id, [])
    refused = told_by(walks, phase, limits)
    wrong = len(refused) < len(walks) if trial.row.kind == CHEAT else bool(refused)
    accepted = (trial.row.expected == "accept") is not wrong
    # A cheat that is refused is told by the first measure that said no.
    words = [] if accepted else [Seen(*_parted(refused[-1]), wanted="", holds=False)]
    last = walks[-1]
    return trial.judged(
        got="accept" if accepted else "refuse",
        findings=words,
        walks=len(walks),
        run=last.run,
        phase=phase,
        engine=last.engine,
        began=last.began,
        **{key: getattr(last, key) for key in PLACE},
    )


def _parted(text: str) -> tuple[str, str]:
    name, _, value = text.rpartition(": ")
    return (name, value) if name else (text, "")


def minutes(row: Tried, asked: float | None) -> float:
    """Return after how many minutes to look again at a repair that the check accepts.

    One that aims at the time after the check is judged as classes and exams do it.
    """
    if asked is None:
        return late.MINUTES if row.kind == ENDS_SOON else 0.0
    return asked


def tried(
    engine: Engine, lab: Lab, wanted: Sequence[Trial], later: float | None = None
) -> Iterator[Tried]:
    """Prove the fault once, then try each repair on a fresh stack with the fault in it.

    `later`: minutes after which it looks again at what it has accepted, as `minutes` says. Yields
    each when it is judged. If the lab itself cannot be proven, all of them are unknown.
    """
    name, left = stack_name(lab.id, judge_namespace()), [*wanted]
    try:
        with (
            lock.hold(name, f"judge-error {lab.id}"),
            stack_in_phase(engine, lab, name, FAULTY, collects=False) as run,
        ):
            patience = run.patience
            while left:
                run.patience = patience
                after = minutes(left[0].row, later)
                yield _one(run, left[0], len(wanted) - len(left) + 1, after)
                del left[0]
    except lock.Held:
        raise
    except (CannotRun, SaidNo) as problem:
        for trial in left:
            yield trial.judged(reason=problem.message, engine=engine.name)


def _one(run: Run, trial: Trial, number: int, after: float) -> Tried:
    """Try one repair."""
    began, started = datetime.now(UTC), time.monotonic()
    phase = repair(number)
    found = _verdict(run, trial, phase, after)
    return trial.judged(
        **found,
        seconds=round(time.monotonic() - started, 1),
        run=run.record.id,
        phase=phase,
        engine=run.engine.name,
        began=began.isoformat(timespec="seconds"),
        **{key: run.record.facts[key] for key in PLACE if key in run.record.facts},
    )


def _verdict(run: Run, trial: Trial, phase: Phase, after: float) -> dict[str, Any]:
    """Return the verdict on a fresh fault after the steps, with the findings behind it."""
    got = "unknown"
    try:
        run.again()
        run.inject()
        got = "broken"
        run.apply(phase, trial.repair.steps)
        got = "unknown"
        found = _judged(run, phase)
        if found["got"] == "accept" and after:
            late.wait(after, lambda _: None, run.engine.pause)
            found = _judged(run, phase.later) | {"later": after}
    except Problem as problem:
        return {"got": got, "reason": " ".join(problem.message.split())[:300]}
    return found


def _judged(run: Run, phase: Phase) -> dict[str, Any]:
    run.measure(phase)
    good = run.good(phase)
    looks = [each for each in run.record.events if each["event"] == "measured"]
    return {
        "got": "accept" if all(finding.holds for finding in good) else "refuse",
        "findings": [Seen.of(finding) for finding in good],
        "seed": looks[-1]["seed"],
    }
