"""Judge: a recorded run, judged again by today's check of its lab. It needs no engine."""

import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from faultlab.core.errors import CannotRun, Problem, SaidNo
from faultlab.core.terminal import Terminal
from faultlab.core.text import number
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.run.contract import Contract, of_file
from faultlab.run.readings import Measured
from faultlab.run.record import ROOM, Record, worst


@dataclass(frozen=True)
class TestOutcome:
    """One test of the contract: pass, fail or unknown, and why."""

    test: str
    verdict: str
    text: str = ""


@dataclass(frozen=True)
class Changed:
    """A finding that has changed since the run was recorded; empty or None if it did not exist."""

    phase: str
    name: str
    value: str
    wanted_then: str
    wanted_now: str
    held: bool | None
    holds: bool | None


@dataclass(frozen=True)
class Judged:
    """The old and the new verdict, with all tests, and the findings that changed."""

    run: str
    then: str
    verdict: str
    tests: list[TestOutcome]
    changed: list[Changed]


def judge(term: Terminal, run_id: str) -> Judged:
    """Judge a run and print the changes. Raises SaidNo for a fail, CannotRun for an unknown."""
    ran = measured(run_id)
    tests = list(verdicts(ran))
    then, now = ran.record.verdict, verdict(tests)
    changed = list(changes(ran))
    term.heading(f"{run_id}: {then or 'not judged'} when it was recorded, now {now}")
    term.say()
    term.table(("verdict", "test", ""), [(t.verdict, t.test, t.text) for t in tests])
    term.say()
    if changed:
        columns = ("phase", "finding", "value", "wanted then", "wanted now", "held", "holds")
        term.table(columns, [_row(change) for change in changed])
    elif ran.record.judged:
        term.say("No limit has changed since.")
    else:
        term.say("What its check said when it was recorded was not kept.")
    judged = Judged(run_id, then, now, tests, changed)
    amiss = next((t for t in tests if t.verdict == now), None)
    if amiss is not None and now != "pass":
        kind = SaidNo if now == "fail" else CannotRun
        raise kind(f"{amiss.test}: {amiss.text}", f"faultlab show {run_id}", judged)
    return judged


def measured(run_id: str) -> Measured:
    """Return a recorded run with the check of its lab as it is today. Raises BadInput."""
    record = Record.read(run_id)
    lab = labs.load(record.facts.get(ROOM, record.lab))
    return Measured(lab, checks.load(lab), record)


def verdict(tests: Iterable[TestOutcome]) -> str:
    """Return the worst verdict of these tests; `unknown` without a test."""
    return worst(asdict(test) for test in tests) or "unknown"


def verdicts(ran: Measured) -> Iterator[TestOutcome]:
    """Run every test that needs readings only; tests that look at the engine are skipped."""
    for name, test in _tests(ran):
        try:
            test(ran)
        except AssertionError as error:
            text = str(error).partition("\n")[0]
            if text or _inspected(ran):
                yield TestOutcome(name, "fail", text)
            else:  # a learner's run looks for no evidence
                yield TestOutcome(name, "unknown", "This run did not look for evidence.")
        except Problem as problem:
            yield TestOutcome(name, "unknown", problem.message)
        except Exception as error:  # a record that a test does not expect proves nothing
            yield TestOutcome(name, "unknown", repr(error))
        else:
            yield TestOutcome(name, "pass")


def _inspected(ran: Measured) -> bool:
    return any(ran.reading(phase).before is not None for phase in ran.phases)


def _tests(ran: Measured) -> Iterator[tuple[str, Callable[[Measured], None]]]:
    kind = of_file(sys.modules[ran.check.look.__module__]) or Contract
    names = [name for base in reversed(kind.__mro__) for name in vars(base)]
    for name in dict.fromkeys(names):  # in the order of the source file
        if name.startswith("test_") and _takes_readings(test := getattr(kind(), name)):
            yield name, test


def _takes_readings(test: Callable[..., None]) -> bool:
    return typing.get_type_hints(test)["run"] is Measured


def changes(ran: Measured) -> Iterator[Changed]:
    """Yield the findings whose limit or outcome differs from the record."""
    for phase, kept in ran.record.judged.items():
        if phase not in ran.phases:  # its look was spoiled, and taken again in vain
            continue
        found = ran.findings(phase)
        for kind in found:
            old = {finding["name"]: finding for finding in kept.get(kind, [])}
            new = {finding["name"]: finding for finding in found[kind]}
            for name in old | new:
                was, now = old.get(name, {}), new.get(name, {})
                if any(was.get(key) != now.get(key) for key in ("wanted", "holds")):
                    yield _changed(phase, name, was, now)


def _changed(phase: str, name: str, was: dict[str, Any], now: dict[str, Any]) -> Changed:
    shown = now or was
    wanted = was.get("wanted", ""), now.get("wanted", "")
    value = number(shown["value"], shown["unit"])
    return Changed(phase, name, value, *wanted, was.get("holds"), now.get("holds"))


def _row(change: Changed) -> list[str]:
    words = {True: "yes", False: "NO", None: "-"}
    *texts, held, holds = vars(change).values()
    return [*(text or "-" for text in texts), words[held], words[holds]]
