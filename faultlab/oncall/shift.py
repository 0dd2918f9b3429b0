"""Shift: the loop that lets faults come and go, looks what users meet, and pages who is on call."""

from __future__ import annotations

import json
import random
import time
import urllib.request
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from faultlab.core import lock
from faultlab.core.command import uninterrupted
from faultlab.core.defaults import MYSTERY, ONCALL
from faultlab.core.errors import BadInput, CannotRun, Problem
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Engine
from faultlab.lab import collection
from faultlab.lab import loader as labs
from faultlab.lab.asks import limits
from faultlab.lab.collection import bare
from faultlab.lab.finding import Finding
from faultlab.lab.model import Lab
from faultlab.learn import mystery
from faultlab.oncall import report
from faultlab.oncall.journal import Event, Journal
from faultlab.oncall.plan import Coming, Plan, drawn
from faultlab.run import placement, together
from faultlab.run.phase import CHECK
from faultlab.run.record import READY, Record
from faultlab.run.run import Run

_EACH = 15.0  # seconds from the begin of one look to the next, at least
_CLEAR = 2  # looks without it after which a fault counts as repaired
_VISITS = 5  # to each page, after each look
_HOURS = 12.0  # a shift takes at most so long
_COLLECTED = 7200.0  # seconds of the longest shift whose counters are recorded
_HELP = "faultlab oncall --help"


@dataclass
class There:
    """A fault that is there: its number in the shift, and what users have met of it so far."""

    number: int
    coming: Coming
    lab: Lab
    felt: bool = False
    clear: int = 0
    over: bool = False


class Taker(Protocol):
    """A program that takes the pages of a shift."""

    def take(self, there: There) -> None:
        """Take a page."""

    def close(self) -> None:
        """End what it does: the shift is over."""


@dataclass
class Shift:
    """A shift that runs. `now`: the seconds since it began."""

    term: Terminal
    run: Run
    journal: Journal
    plan: Plan
    now: Callable[[], float]
    webhook: str | None = None
    there: list[There] = field(default_factory=list)
    came: int = 0
    looks: int = 0
    found: list[Finding] = field(default_factory=list)  # by the last look
    ended: bool = False
    taker: Taker | None = None
    _amiss: str = ""

    def goes_on(self) -> None:
        """Let it run to its end."""
        while (now := self.now()) < self.plan.seconds:
            self._let_go(now)
            self._let_come(now)
            self._look()
            self._visit()
            left = min(now + _EACH, self.plan.seconds) - self.now()
            self.run.engine.pause(max(0.0, left))

    def close(self) -> None:
        """End what its taker does, and note the end."""
        self.ended = True
        if self.taker:
            self.taker.close()
        self.journal.add(Event.ENDED)

    def _let_come(self, now: float) -> None:
        for coming in self.plan.comings[self.came :]:
            if coming.at > now:
                return
            self.came += 1
            if any(bare(one.coming.fault) == bare(coming.fault) for one in self.there):
                continue  # it is there still, so it cannot return
            lab = labs.load_in(self.run.lab.collection, coming.fault)
            try:
                self.run.apply("came", lab.inject)
            except CannotRun as problem:
                self.amiss(f"{coming.fault} could not be started: {problem.message}")
                continue
            self.there.append(There(self.came, coming, lab))
            self.journal.add(Event.CAME, number=self.came, fault=coming.fault)

    def _let_go(self, now: float) -> None:
        """Let those go whose time is up, unless looks say that they were repaired meanwhile."""
        due = [one for one in self.there if one.coming.ends <= now]
        for _ in range(_CLEAR):
            if any(one.felt and not one.over for one in due):
                self._look()
        for one in [one for one in due if not one.over]:
            try:
                self.run.apply("went", one.lab.fix)
            except CannotRun as problem:
                self.amiss(f"{one.coming.fault} could not be removed: {problem.message}")
            self.there.remove(one)
            one.over = True
            self.journal.add(Event.WENT, number=one.number, fault=one.coming.fault)

    def _look(self) -> None:
        """Look what users meet; page for what is new, and note what is over."""
        try:
            self.run.measure(CHECK)
            self.found = self.run.good(CHECK)
        except CannotRun as problem:
            self.amiss(f"no look: {problem.message}")
            return
        finally:
            self.looks += 1
        amiss = {each.fault for each in self.found if not each.holds}
        if amiss and not self.there:
            self.amiss("users are harmed, but not by a fault of this shift")
        for one in [*self.there]:
            if self._met(one, amiss):
                one.clear = 0
                if not one.felt:
                    one.felt = True
                    self._page(one)
            else:
                one.clear += one.felt
            if one.clear == _CLEAR:
                self.there.remove(one)
                one.over = True
                self.journal.add(Event.CLEAR, number=one.number, fault=one.coming.fault)
                self.term.say(f"{_clock()} Page {one.number}: its users are served again.")

    def _met(self, one: There, amiss: Collection[str]) -> bool:
        """Return whether users meet a fault, by the faults whose measures do not hold.

        What no measure of one fault tells, such as a wrong answer, counts if it is there alone.
        """
        return bare(one.coming.fault) in amiss or ("" in amiss and self.there == [one])

    def _page(self, one: There) -> None:
        self.journal.add(Event.FELT, number=one.number, fault=one.coming.fault)
        self.term.say()
        self.term.say(f"\a{_clock()} PAGE {one.number}")
        self.term.markdown(one.lab.ticket)
        if self.taker:
            self.taker.take(one)
        if self.webhook:
            self._post({"page": one.number, "at": time.time(), "ticket": one.lab.ticket})

    def _post(self, facts: dict[str, object]) -> None:
        body = json.dumps(facts).encode()
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.webhook or "", data=body, headers=head)
        try:
            with urllib.request.urlopen(request, timeout=5):
                pass
        except (OSError, ValueError) as error:
            self.amiss(f"the webhook did not take page {facts['page']}: {error}")

    def _visit(self) -> None:
        """Let some users come to each page, and count those who get nothing in time."""
        pages = limits(self.run.check.asks)
        script = "\n".join(
            f"for n in {' '.join(map(str, range(_VISITS)))}; do"
            f" curl -sfm {seconds:g} -o /dev/null '{url}' && echo good || echo lost; done"
            for url, seconds in pages.items()
        )
        if not script:
            return
        patience = sum(_VISITS * seconds for seconds in pages.values()) + 10
        try:
            told = self.run.stack.user().run(script, patience).out.split()
        except CannotRun as problem:
            self.amiss(f"no visits: {problem.message}")
            return
        self.journal.add(Event.VISITED, visits=len(told), lost=told.count("lost"))

    def amiss(self, text: str) -> None:
        """Note what could not be done or measured, once as long as it does not change."""
        if text != self._amiss:
            self.journal.add(Event.AMISS, text=text)
        self._amiss = text


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def oncall(
    term: Terminal,
    names: Sequence[str],
    *,
    hours: float,
    seed: int | None,
    webhook: str | None,
    wanted: str,
    taker: Callable[[Shift], Taker] | None = None,
) -> report.Report:
    """Run a shift here until it is over or interrupted, and print its report.

    `names`: the labs whose faults may come; by default those that were proven together. `hours`: of
    the shift; `webhook`: gets each page as JSON; `taker`: a program takes the pages instead of a
    person. Raises BadInput, CannotRun.
    """
    if not 0 < hours <= _HOURS:
        raise BadInput(f"--hours takes a number up to {_HOURS:g}.", _HELP)
    if webhook and urlsplit(webhook).scheme not in ("http", "https"):
        raise BadInput("--webhook takes an address that begins with http.", _HELP)
    seed = random.SystemRandom().randrange(10_000) if seed is None else seed
    pairs = {frozenset(bare(name) for name in lab.of) for lab in together.proven()}
    pool = _pool(names, pairs)
    plan = drawn(pool, 3600 * hours, seed, pairs)
    lab = labs.load(labs.AND.join(plan.kinds)).called(ONCALL)
    with lock.hold(stack_name(ONCALL), ONCALL):
        if placement.up(ONCALL):
            raise CannotRun("A shift is up already.", f"faultlab down {ONCALL}")
        engine = placement.choose(term, lab, wanted)
        return _run(term, engine, lab, plan, lambda shift: _equipped(shift, webhook, taker))


def _equipped(shift: Shift, webhook: str | None, taker: Callable[[Shift], Taker] | None) -> None:
    """Say where the pages of a shift go besides the terminal."""
    shift.webhook = webhook
    shift.taker = taker(shift) if taker else None


def _pool(names: Sequence[str], pairs: set[frozenset[str]]) -> list[Lab]:
    """Return the labs whose faults may come. Raises BadInput for one that cannot."""
    known = names or sorted({name for pair in pairs for name in pair})
    found = [labs.load(name) for name in known]
    for lab in found:
        if lab.control or lab.several or lab.scope == "kernel":
            raise BadInput(
                f"{lab.id} cannot be part of a shift: it does not have exactly one fault.", _HELP
            )
    return found


def _run(
    term: Terminal, engine: Engine, lab: Lab, plan: Plan, equip: Callable[[Shift], None]
) -> report.Report:
    run: Run | None = None
    try:
        with term.step("stack", "starting its containers") as step:
            # Counters of two hours are 27 MB; more are not kept.
            run = Run.begin(engine, lab, stack_name(ONCALL), collects=plan.seconds <= _COLLECTED)
            step.done(f"up: {', '.join(run.stack)}")
        with term.step("healthy", "measuring the stack before anything is wrong") as step:
            run.note = step.note
            run.healthy()
            step.done("measured, healthy")
        run.record.event(READY)
        journal = Journal(run.record.folder)
        began = time.monotonic()
        shift = Shift(term, run, journal, plan, lambda: time.monotonic() - began)
        equip(shift)
        journal.add(Event.BEGAN, **asdict(plan))
        _welcome(term, shift)
        try:
            shift.goes_on()
        except KeyboardInterrupt:
            term.say("The shift is ended here.")
        with uninterrupted():
            shift.close()
        told = report.made(run.record.id, journal.events(), lab.collection)
        report.show(term, told)
        return told
    finally:
        with uninterrupted():
            if run is not None:
                run.down()


def _welcome(term: Terminal, shift: Shift) -> None:
    minutes = f"{shift.plan.seconds / 60:.0f} minutes"
    if shift.taker:
        term.say(f"An agent is on call for {minutes}. Its pages are shown here.")
    else:
        term.say(f"You are on call for {minutes}. Pages come here. In another terminal:")
        term.command(f"faultlab shell {ONCALL} web")
        term.command("faultlab diagnose --component … --resource … --cause …")
    term.say("Ctrl-C ends the shift, with its report.")


def again(term: Terminal, run_id: str) -> report.Report:
    """Print the report of a shift that is over, from its journal. Raises BadInput."""
    record = Record.read(run_id)
    told = report.made(record.id, Journal(record.folder).events(), collection.ours())
    report.show(term, told)
    return told


def is_answered(lab: str | None) -> bool:
    """Return whether an answer is for the shift. Raises BadInput if a mystery is up as well.

    `lab`: which of the two was named.
    """
    if lab is not None or _up() is None:
        return lab == ONCALL
    if placement.up(MYSTERY):
        raise BadInput("A mystery and a shift are up.", f"faultlab diagnose --lab {MYSTERY} …")
    return True


def answered(term: Terminal, component: str, resource: str, cause: str) -> dict[str, str]:
    """Note an answer in the shift that is up. Raises BadInput for a wrong word, CannotRun."""
    journal = _up()
    if journal is None:
        raise CannotRun("No shift is up.", f"faultlab {ONCALL}")
    answer = mystery.answered(component, resource, cause)
    journal.add(Event.ANSWERED, **answer)
    term.say("Noted. The report of the shift says whether it was right.")
    return answer


def looked(machine: str) -> None:
    """Note in the shift that is up that a shell was opened on a machine."""
    if journal := _up():
        journal.add(Event.LOOKED, machine=machine)


def _up() -> Journal | None:
    """Return the journal of the shift that is up."""
    try:
        stack = placement.up(ONCALL)
        record = Record.ready(stack.run_id) if stack else None
    except Problem:
        return None
    return Journal(record.folder) if record else None
