"""Contract: the tests that every lab has to pass. They judge the readings of one walk.

checks/conftest.py adds them to each check file. A file with its own tests defines their class
itself, as `class TestConntrack(Contract)`. A failed assertion is `fail`; any other error is
`unknown`.
"""

import inspect
from collections.abc import Iterable
from types import ModuleType

from faultlab.lab.finding import Finding
from faultlab.lab.model import Remedy
from faultlab.run import rotation
from faultlab.run.looks import QUICK_PATIENCE
from faultlab.run.phase import FAULTY, FIXED, HEALTHY, STILL, Phase, alternative, cheat, only
from faultlab.run.readings import Measured
from faultlab.run.run import Run


def walk(run: Run) -> None:
    """Take the readings of all phases. Stop if the symptom does not show; the tests report it.

    A quick walk tries one cheat before the fix and skips the parts whose turn it is not. It soon
    gives up on a busy machine. The last fresh stack is measured before its fault too: it must be as
    healthy as when the walk began.

    Raises CannotRun if the stack or the machine breaks.
    """
    lab, chosen = run.lab, rotation.remedies(run.lab)
    run.record.facts["remedies"] = [
        *map(alternative, chosen.alternatives),
        *map(cheat, chosen.all_cheats),
    ]
    run.record.facts["left"] = chosen.left
    run.inspects = True
    if rotation.quick():
        run.patience = QUICK_PATIENCE
    run.healthy()
    run.inject()
    run.measure(FAULTY)
    if not _all(run.expected(FAULTY)):
        return
    if chosen.before_fix:
        _try(run, cheat(chosen.before_fix), lab.cheat[chosen.before_fix - 1])
    run.apply("fix", lab.fix)
    run.measure(FIXED)
    for fault in chosen.left:
        run.again()
        run.inject()
        run.apply("fix", [step for each in lab.faults if each.id != fault for step in each.fix])
        run.measure(only(fault))
    run.inspects = False
    trials = [(alternative(i), lab.alternative[i - 1]) for i in chosen.alternatives]
    trials += [(cheat(i), lab.cheat[i - 1]) for i in chosen.cheats]
    _on_fresh_stacks(run, trials, chosen.late)


def _on_fresh_stacks(run: Run, trials: list[tuple[Phase, Remedy]], late: bool) -> None:
    """Try remedies, each after the fault on a stack of its own; the last one is healthy before."""
    for left, (phase, remedy) in zip(reversed(range(len(trials))), trials, strict=True):
        run.again()
        if late and not left:
            run.healthy_still()
        run.inject()
        if not phase.cheat:
            run.measure(phase.before)
        _try(run, phase, remedy)
    if late and not trials and run.check.relative:
        run.again()
        run.healthy_still()


def _try(run: Run, phase: Phase, remedy: Remedy) -> None:
    """Carry out an alternative or a cheat, and measure the result."""
    inspects, run.inspects = run.inspects, False
    run.apply(phase, remedy.steps)
    run.measure(phase)
    run.inspects = inspects


def _walked(run: Measured, phases: Iterable[Phase]) -> list[Phase]:
    """Return the phases that the walk had planned; all of them for an older record."""
    planned = run.record.facts.get("remedies")
    return [phase for phase in phases if planned is None or phase in planned]


def _all(found: Iterable[Finding]) -> bool:
    return all(finding.holds for finding in found)


def _hold(found: Iterable[Finding], claim: str) -> None:
    """Assert that every finding holds, and name those that do not."""
    amiss = [finding.words for finding in found if not finding.holds]
    assert not amiss, f"{claim}: " + "; ".join(amiss)


class Contract:
    """The tests that each lab must pass. The fixture `run` has walked through all phases before."""

    def test_healthy(self, run: Measured) -> None:
        """Before the fault the stack is healthy, and no evidence of the fault shows.

        If its speed has changed since, no verdict may depend on that.
        """
        _hold(run.good(HEALTHY), "not healthy before the fault")
        if STILL in run.phases:
            run.must_not_move()
        self._silent(run, HEALTHY)

    def test_symptom(self, run: Measured) -> None:
        """The fault shows as its users would experience it; a control stays healthy."""
        _hold(run.expected(FAULTY), "the symptom does not show")

    def test_evidence(self, run: Measured) -> None:
        """All evidence shows while the fault is present and at no other time."""
        if run.lab.control:
            self._silent(run, FAULTY)
        elif not run.lab.several:  # of several, one can hide another
            _hold(run.check.evident(run.reading(FAULTY)), "the evidence is missing")
        self._silent(run, FIXED)

    def test_fix(self, run: Measured) -> None:
        """The documented fix makes the stack healthy again."""
        _hold(run.good(FIXED), "the fix does not help")

    def test_each_fault(self, run: Measured) -> None:
        """Each of several faults still harms users when it is the only one that is left."""
        for fault in run.record.facts.get("left", ()):
            phase = only(fault)
            _hold(run.ill(phase), f"{phase}: not there")
            evidence = run.check.evident(run.reading(phase))
            _hold([item for item in evidence if item.fault == fault], f"{phase}: no evidence")

    def test_alternatives(self, run: Measured) -> None:
        """Each alternative works too, after the fault was proven again."""
        for phase in _walked(run, map(alternative, range(1, len(run.lab.alternative) + 1))):
            _hold(run.expected(phase.before), f"{phase}: the symptom was not there")
            _hold(run.good(phase), f"{phase} does not help")

    def test_cheats(self, run: Measured) -> None:
        """No cheat passes as a fix."""
        for phase in _walked(run, map(cheat, range(1, len(run.lab.cheat) + 1))):
            found = run.good(phase)
            assert not _all(found), f"{phase} passes: " + "; ".join(f.words for f in found)

    def test_opposite(self, run: Measured) -> None:
        """Every limit fails in the opposite phase, so no limit is always true."""
        if run.lab.control or run.lab.silent:
            return  # users feel nothing in the faulty phase; of a control a cheat is the opposite
        names = {measure.name for measure in run.check.symptom if not measure.steady}
        assert names, "no measure tells the phases apart"
        ill = [only(fault) for fault in run.record.facts.get("left", ())] or [FAULTY]
        while_ill = [f for p in ill for f in run.good(p) if f.fault == p.left]
        without = [phase for phase in (HEALTHY, STILL, FIXED) if phase in run.phases]
        for found, phase in (
            (while_ill, "healthy with the fault"),
            *((run.bad(phase), f"ill, {phase}") for phase in without),
        ):
            always = [f.words for f in found if f.name in names and f.holds]
            assert not always, f"{phase}: " + "; ".join(always)

    def test_nothing_left(self, run: Run) -> None:
        """After down nothing of the stack is left."""
        left = run.engine.leftovers(run.stack.name)
        assert run.record.happened("down") and not left, f"left: {', '.join(left)}"

    def _silent(self, run: Measured, phase: str) -> None:
        loud = [item.words for item in run.check.evident(run.reading(phase)) if item.holds]
        assert not loud, f"evidence without a fault, {phase}: " + "; ".join(loud)


def of_file(module: ModuleType) -> type[Contract] | None:
    """Return the class with a check file's own tests; None if it has none."""
    kinds = [kind for kind in vars(module).values() if inspect.isclass(kind)]
    own = [kind for kind in kinds if issubclass(kind, Contract) and kind is not Contract]
    return own[0] if own else None
