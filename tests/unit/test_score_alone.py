"""Tools that look alone: the plan, the stack beneath them, floors, guesses, comparisons, agents."""

from __future__ import annotations

import io
import json
import math
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.statistics import Share, mcnemar
from faultlab.engine.contract import Process, Program, State
from faultlab.engine.shell import Done
from faultlab.lab import loader as labs
from faultlab.probes import cgroup
from faultlab.run import digest
from faultlab.run import run as run_of_labs
from faultlab.run.phase import FAULTY, FIXED, HEALTHY, PHASES
from faultlab.score import (
    agent_metrics,
    alone,
    baselines,
    compare,
    diagnosis,
    metrics,
    noise_baseline,
    recording,
    results,
    schedule,
    scorecard,
    setups,
    tables,
)
from faultlab.score.alone import Alone
from faultlab.score.diagnosis import Diagnosis, InstanceEnd, Said
from faultlab.score.results import ALONE, CROWD, Effect, Results, Trial
from faultlab.score.schedule import Schedule
from faultlab.score.setups import EMPTY, IDLE, Setup
from faultlab.score.tool import Alarm, Tool
from tests.unit.conftest import REPO, Project, Run
from tests.unit.fake import FakeEngine, FakeMachine, FakeProcess

LABS = ("mtu", "gzip", "healthy")


def tool(name: str, **facts: Any) -> Tool:
    """A tool that has no image of its own and alarms when its output has the word `drops`."""
    usual = {"title": name, "at": ["client"], "window": 5, "output": "lines", "command": name}
    return Tool(id=name, folder=REPO, alarm=[Alarm(match="drops")], **{**usual, **facts})


def trial(name: str, lab: str, phase: str, number: int = 1, *, alarm: bool, **more: Any) -> Trial:
    """A trial alone that ended with a diagnosis; `signals` are those of its alarm."""
    said = Diagnosis(alarm, more.pop("causes", []), signals=more.pop("signals", []))
    return Trial(name, lab, phase, number, "t", "l", "diagnosis", said, **{"way": ALONE, **more})


def scored(*trials: Trial, **facts: Any) -> Results:
    return Results(Path("x.json"), facts, {}, {each.key: each for each in trials})


def every(
    name: str, alarms: dict[bool, bool], number: int = 1, lab_ids: Sequence[str] = LABS
) -> list[Trial]:
    """Trials in each phase of some labs; `alarms`: by whether something is wrong."""
    blank = [trial(name, lab, phase, number, alarm=False) for lab in lab_ids for phase in PHASES]
    return [
        replace(each, diagnosis=Diagnosis(alarms[metrics.has_fault(each)], signals=["web: x"]))
        for each in blank
    ]


class TestPlan:
    """What is missing, and what comes next."""

    def plan(self, kept: Results, **facts: Any) -> Schedule:
        wanted = setups.order([labs.load(lab_id) for lab_id in LABS], 1, 7, floors=True)
        return Schedule(wanted, [tool("a"), tool("b")], kept, **facts)

    def test_each_repeat_has_its_floors(self) -> None:
        found = setups.order([labs.load("mtu")], 2, 7, floors=True)
        assert sorted(look.text for look in found if look.phase in setups.FLOORS) == [
            *("healthy empty 1", "healthy empty 2", "healthy idle 1", "healthy idle 2")
        ]
        whole = next(look.lab for look in found if look.phase == EMPTY)
        assert {"nginx", "php-fpm", "tomcat", "mysql", "memcached"} == {*whole.daemons}
        assert labs.load("healthy").daemons == ["nginx", "php-fpm"]

    def test_without_a_budget_the_first_missing_look_is_next(self) -> None:
        kept = scored()
        plan = self.plan(kept)
        assert plan.left() == 2 * len(plan.looks) and plan.complete() == 0
        assert plan.next(set()) == 0 and plan.next({0, 1}) == 2
        first = plan.looks[0]
        for each in plan.tools:
            one = trial(each.id, first.lab.id, first.phase, alarm=False)
            digests: dict[str, Any] = {
                "tool_digest": each.digest,
                "lab_digest": digest.fault(first.lab),
            }
            kept.trials[one.key] = replace(one, **digests)
        assert plan.next(set()) == 1 and plan.complete() == 1

    def test_a_crowd_is_another_trial(self) -> None:
        kept = scored(trial("a", "mtu", FAULTY, alarm=True, way=CROWD))
        assert self.plan(kept).left() == self.plan(scored()).left()

    def test_with_a_budget_the_widest_interval_is_next(self) -> None:
        """Much is known of healthy looks and nothing of floors; then the fault is next."""
        known = [t for n in range(2, 9) for t in every("a", {True: True, False: False}, n)]
        known += [replace(t, tool="b") for t in known]
        well = [t for t in known if not metrics.has_fault(t)]
        floor = [trial(n, "healthy", p, 9, alarm=False) for n in "ab" for p in setups.FLOORS]
        plan = self.plan(scored(*well, *floor), until=math.inf)
        limited = replace(plan, until=1e12)
        chosen = limited.next(set())
        assert chosen is not None and plan.looks[chosen].phase == FAULTY
        assert plan.looks[chosen].lab.id != "healthy"
        nothing_of_floors = replace(limited, kept=scored(*known))
        chosen = nothing_of_floors.next(set())
        assert chosen is not None and plan.looks[chosen].phase in setups.FLOORS

    def test_the_tool_with_the_widest_interval_is_first(self) -> None:
        known = [t for n in range(2, 9) for t in every("a", {True: True, False: False}, n)]
        plan = self.plan(scored(*known), until=1e12)
        for look in plan.looks:
            if look.phase not in setups.FLOORS:
                assert [each.id for each in plan.missing(look)] == ["b", "a"]

    def test_it_stops_in_time(self) -> None:
        plan = self.plan(scored(), until=schedule.deadline(0.001))
        assert plan.next(set()) is None and plan.left() == 2 * len(plan.looks)
        assert schedule.deadline(None) == math.inf

    @pytest.mark.parametrize("hours", [0.0, -1.0, math.nan, math.inf])
    def test_hours_that_are_none(self, hours: float) -> None:
        with pytest.raises(BadInput, match="--hours takes a number above 0"):
            schedule.deadline(hours)


def bare(run: Any) -> None:
    """Forget the daemons of a stack, as if they had ended."""
    run.stack = setups._Bare(run.engine, run.stack.name)


class Repairing(FakeEngine):
    """An engine on which the tool `repairs` does what its name says."""

    given = ""  # the processors of the newest program
    files = b""
    words: Sequence[str] = ()  # of its command

    @contextmanager
    def process(self, program: Program) -> Iterator[Process]:
        """Run an `echo`, and see which processors the program has."""
        self.given, self.files = program.cpus, program.files or b""
        self.words = program.command
        if program.command[-1] == "repairs":
            self.stacks_up[program.stack].network.mtu = 1500
        yield FakeProcess(f"{program.command[-1]}\n".encode())


@pytest.mark.parametrize("lab_id", ["mtu", "php-workers"])
def test_each_phase_has_the_same_history(
    lab_id: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same visits and the same restarts, so that no counter and no age tells the phase.

    Web had sent 125 segments in the healthy phase of mtu, 130 in the faulty one, 231 in the fixed.
    """
    seen: dict[str, list[str]] = {}
    now: list[str] = []
    monkeypatch.setattr(run_of_labs.Run, "prove", lambda self, phase: self.visit(phase))
    monkeypatch.setattr(
        run_of_labs.Run, "_seen", lambda _self, phase, _fast: now.append(f"visit {phase}")
    )
    monkeypatch.setattr(
        FakeMachine, "run", lambda _self, words, _timeout=30: Done(words, 0, "", "", 0)
    )
    monkeypatch.setattr(FakeMachine, "restart", lambda self: now.append(f"restart {self.name}"))
    for phase in PHASES:
        now.clear()
        with setups.on_show(FakeEngine(), labs.load(lab_id), phase):
            seen[phase] = sorted(now)
    assert {f"visit {phase}" for phase in PHASES} <= {*seen[HEALTHY]}
    assert seen[HEALTHY] == seen[FAULTY] == seen[FIXED]


class TestStack:
    """One stack for tools that look one after the other."""

    def examined(self, wanted: Sequence[Tool], phase: str, **how: Any) -> list[Trial]:
        engine = Repairing()
        look = Setup(labs.load("mtu"), phase, 1)
        usual = {"allows": lambda _: True, "note": lambda _: None, "cpus": "3"}
        made = list(Alone(engine, **{**usual, **how}).trials(look, wanted))
        assert not engine.stacks_up
        self.given, self.ran, self.files = engine.given, engine.ran, engine.files
        self.words = engine.words
        return made

    @pytest.fixture(autouse=True)
    def apart(self, project: Project) -> None:
        """Keep its records out of this checkout."""

    def test_the_tools_share_a_proven_stack(self) -> None:
        made = self.examined([tool("quiet"), tool("drops"), tool("last")], FAULTY)
        assert [(t.tool, t.alarm, t.way) for t in made] == [
            *(("quiet", False, ALONE), ("drops", True, ALONE), ("last", False, ALONE))
        ]
        assert len({t.run for t in made}) == 1
        assert self.given == "3"
        assert all(t.took is not None and not t.replayed and t.effect is None for t in made)

    @pytest.mark.parametrize(("phase", "pages"), [(HEALTHY, "http://web/ 3\n"), (EMPTY, "")])
    def test_a_prober_has_the_pages_of_the_users(
        self, phase: str, pages: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(setups, "_end_daemons", bare)
        self.examined([tool("probes")], phase)
        with tarfile.open(fileobj=io.BytesIO(self.files)) as tar:
            content = tar.extractfile("etc/urls")
            assert content is not None and content.read().decode() == pages

    def test_a_prober_is_told_where_they_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The name of the file is in a variable; a tool that reads a recording has neither."""
        monkeypatch.setattr(recording, "span", lambda *_: {})
        self.examined([tool("probes", command='echo "$URLS"')], HEALTHY)
        assert subprocess.check_output(self.words, text=True, timeout=20) == "/etc/urls\n"
        self.examined([tool("reads", replay='echo "$URLS"')], HEALTHY)
        assert subprocess.check_output(self.words, text=True, timeout=20) == "\n"

    @pytest.mark.parametrize("phase", [*PHASES, *setups.FLOORS])
    @pytest.mark.parametrize("felt", [True, False])
    def test_the_check_looks_again_only_if_its_users_do_not_feel_the_phase(
        self, phase: str, felt: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        again: list[str] = []

        def shows(_: Any, phase: str) -> bool:
            again.append(phase)
            return True

        monkeypatch.setattr(alone, "_shows", shows)
        if not felt:
            monkeypatch.setattr(alone, "_felt", lambda *_: False)
        assert len({t.run for t in self.examined([tool("one"), tool("two")], phase)}) == 1
        assert again == [phase] * (0 if felt else 2)

    def test_a_stack_that_lost_its_phase_is_replaced(self) -> None:
        made = self.examined([tool("repairs"), tool("next"), tool("last")], FAULTY)
        assert [t.tool for t in made] == ["repairs", "next", "last"]
        assert made[0].run != made[1].run == made[2].run

    def test_each_tool_counts_once_if_a_later_one_ends_the_phase(self) -> None:
        """It looks again on a fresh stack, as the one before it could have ended the phase."""
        wanted = [tool("first"), tool("repairs", window=6), tool("next")]
        made = self.examined(wanted, FAULTY)
        assert [t.tool for t in made] == ["first", "repairs", "next"]
        assert made[1].run != made[2].run

    def test_a_fault_that_has_ended_a_daemon_is_looked_at(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No user can be served then, so the check takes no look; it has proven the phase before.

        So it is with heap-oom, for tools that look and for those that read a recording.
        """
        on_show, now = setups.on_show, FakeMachine.state

        def state(machine: FakeMachine) -> State:
            known: State = now.fget(machine)  # type: ignore[attr-defined]
            return replace(known, running=machine.name != "nginx")

        def fails(_: Any) -> None:
            raise CannotRun("nginx is not running.")

        @contextmanager
        def ended(*words: Any) -> Iterator[Any]:
            with on_show(*words) as run, monkeypatch.context() as until_then:
                its = wraps(run.check.look)(fails)
                run.check = replace(run.check, look=its, may_stop=("nginx",))
                until_then.setattr(FakeMachine, "state", property(state))
                yield run

        monkeypatch.setattr(setups, "on_show", ended)
        monkeypatch.setattr(alone, "_QUIET", 0.0)
        monkeypatch.setattr(recording, "span", lambda _, look: look() or {})
        wanted = [tool("drops"), tool("reads", replay="drops"), tool("quiet")]
        made = self.examined(wanted, FAULTY)
        assert [(t.tool, t.alarm) for t in made] == [
            *(("reads", True), ("drops", True), ("quiet", False))
        ]
        assert len({t.run for t in made}) == 1 and not any(t.effect for t in made)

    def test_it_stops_in_time(self) -> None:
        left = [True, True, False]
        made = self.examined(
            [tool("one"), tool("two")], FAULTY, allows=lambda _: left.pop(0) if left else False
        )
        assert [t.tool for t in made] == ["one"]

    def test_a_tool_without_a_place_is_absent(self) -> None:
        (made,) = self.examined([tool("nowhere", at=["db"])], HEALTHY)
        assert (made.kind, made.reason) == ("absent", "no machine called db is there")

    @pytest.mark.parametrize("floor", setups.FLOORS)
    def test_a_floor_is_not_proven(self, floor: str) -> None:
        made = self.examined([tool("drops"), tool("two")], floor)
        assert [(t.phase, t.alarm) for t in made] == [(floor, True), (floor, False)]
        assert any("kill -9" in command for command in self.ran) == (floor == EMPTY)


def test_processors_of_their_own() -> None:
    assert [alone.processors(n) for n in (1, 2, 8)] == [("", ""), ("0", "1"), ("0", "7")]


def test_the_labs_own_measure_with_and_without() -> None:
    """Of a time the second over the first, of a rate the first over the second."""
    assert Effect("delay", "ms", 10.0, 15.0).slowdown == 1.5
    assert Effect("rate", "/s", 300.0, 200.0).slowdown == 1.5
    assert Effect("rate", "/s", 300.0, 0.0).slowdown is None


@pytest.mark.parametrize(
    ("said", "cpu", "memory"),
    [
        ("cpuacct/cpuacct.usage:1500000000\nmemory/memory.max_usage_in_bytes:4096\n", 1.5, 4096),
        ("cpu.stat:usage_usec 250000\ncpu.stat:user_usec 9\nmemory.peak:8192\n", 0.25, 8192),
        ("cpu.stat:usage_usec 250000\n", 0.25, None),
        ("", None, None),
    ],
)
def test_what_a_container_used(said: str, cpu: float | None, memory: int | None) -> None:
    assert cgroup.spent(said) == cgroup.Spent(cpu, memory)


def test_an_alarm_is_known_by_its_lines_without_numbers() -> None:
    said = [Said(1.0, "web", line) for line in ("7 drops on 10.0.0.2:80", "9 drops on 10.0.0.3:80")]
    told = diagnosis.of(tool("a"), [InstanceEnd("web", 9.0, 0, said)])
    assert told.signals == ["web: # drops on #"]
    mute = diagnosis.of(tool("a", output="exit"), [InstanceEnd("web", 9.0, 2, [])])
    assert mute.alarm and mute.signals == ["web: alarm"]
    text = '{"alarm": true, "causes": ["gzip"], "evidence": ["12 kB"]}'
    json_ = diagnosis.of(
        tool("a", output="json"), [InstanceEnd("web", 9.0, 0, [Said(1, "web", text)])]
    )
    assert json_.signals == ["web: gzip", "web: # kB"]


class TestFloors:
    """What an alarm is about."""

    def test_machine_stack_load_and_lab(self) -> None:
        found = scored(
            trial("t", "healthy", EMPTY, alarm=True, signals=["m"]),
            trial("t", "healthy", IDLE, alarm=True, signals=["m", "s"]),
            trial("t", "mtu", HEALTHY, 1, alarm=True, signals=["m"]),
            trial("t", "mtu", FIXED, 1, alarm=True, signals=["m", "left"]),
            trial("t", "mtu", FAULTY, 1, alarm=True, signals=["m", "new"]),
            trial("t", "mtu", HEALTHY, 2, alarm=True, signals=["s", "l"]),
            trial("t", "mtu", FAULTY, 2, alarm=True, signals=["l"]),
            trial("t", "gzip", HEALTHY, 1, alarm=True, signals=["m", "s"]),
            trial("t", "gzip", FAULTY, 1, alarm=True, signals=["m"]),
            trial("t", "gzip", FIXED, 1, alarm=False),
        )
        (floor,) = noise_baseline.floors(found)
        assert (floor.empty, floor.idle, floor.load) == (Share(1, 1), Share(1, 1), Share(3, 3))
        assert floor.false == {"machine": 1, "stack": 1, "load": 1, "lab": 1}
        assert floor.caught == {"machine": 1, "stack": 0, "load": 1, "lab": 1}
        assert (floor.new, floor.new_false) == (Share(3, 1), Share(2, 1))

    def test_a_crowd_has_none(self) -> None:
        found = scored(trial("t", "mtu", FAULTY, alarm=True, way=CROWD))
        assert noise_baseline.floors(found) == [] and noise_baseline.costs(found) == []

    def test_floors_are_no_false_alarms(self) -> None:
        found = scored(*every("t", {True: True, False: False}))
        more = scored(*found.trials.values(), trial("t", "healthy", EMPTY, alarm=True))
        shown = metrics.of_way(more, ALONE)
        assert metrics.rows(shown) == metrics.rows(found) and metrics.headline(more) == ALONE

    def test_a_part_of_the_tools_alone_is_beside_the_crowd(self) -> None:
        both = [trial(t, "mtu", FAULTY, alarm=True, way=CROWD) for t in ("one", "two")]
        crowd = scored(*both)
        assert metrics.headline(crowd) == CROWD
        part = scored(*both, trial("one", "mtu", FAULTY, alarm=False))
        assert metrics.headline(part) == CROWD
        table = tables.tables(part)[0]
        at = table.headings.index("catches alone")
        assert {row[0]: row[at] for row in table.rows[:2]} == {"one": Share(1, 0), "two": "-"}
        card = scorecard.facts(part)
        assert ([row.tool for row in card.alone], card.crowd) == (["one"], [])
        whole = scored(*part.trials.values(), trial("two", "mtu", FAULTY, alarm=True))
        assert metrics.headline(whole) == ALONE
        assert "catches in a crowd" in tables.tables(whole)[0].headings

    def test_costs(self) -> None:
        own = Effect("d", "s", 1.0, 2.0)
        facts: dict[str, Any] = {"took": 20.0, "cpu": 1.5, "memory": 5, "effect": own}
        (cost,) = noise_baseline.costs(
            scored(
                trial("t", "mtu", HEALTHY, alarm=False, **facts),
                trial("t", "mtu", FAULTY, alarm=False, **{**facts, "cpu": 0.5, "memory": 9}),
            )
        )
        assert cost == noise_baseline.Cost("t", 1.0, 9, 20.0, 2.0, 1)


def test_mcnemars_exact_test() -> None:
    """R: binom.test(1, 13)$p.value, binom.test(2, 10)$p.value."""
    assert mcnemar(12, 1) == pytest.approx(0.003418, abs=1e-6)
    assert mcnemar(2, 8) == pytest.approx(0.109375)
    assert mcnemar(2000, 0) == 0  # below the smallest number above 0
    assert mcnemar(5, 5) == mcnemar(0, 0) == 1.0


class TestBetter:
    """Which tool is better than which."""

    def of(self, **tools: tuple[bool, bool]) -> list[compare.Better]:
        """Compare tools by whether they alarm on faults, and without; 15 labs have a fault."""
        trials = [
            each
            for name, (ill, well) in tools.items()
            for each in every(name, {True: ill, False: well}, lab_ids=labs.ids()[:17])
        ]
        return compare.better(scored(*trials), [*tools])

    def test_who_sees_faults_is_better_than_who_is_silent(self) -> None:
        (found,) = self.of(sees=(True, False), never=(False, False))
        assert (found.better, found.worse, found.on) == ("sees", "never", "faults")
        assert (found.of, found.won, found.lost) == (15, 15, 0) and found.p < 0.001

    def test_a_trade_is_no_rank(self) -> None:
        """Always an alarm and never one: each is better on one side and worse on the other."""
        assert self.of(always=(True, True), never=(False, False)) == []

    def test_groups(self) -> None:
        found = self.of(sees=(True, False), always=(True, True), never=(False, False))
        order = ["sees", "always", "never"]
        assert compare.groups(order, found) == {"sees": 1, "always": 2, "never": 2}
        assert compare.groups(order, []) == dict.fromkeys(order, 1)

    def test_few_labs_are_no_rank(self) -> None:
        """However often a tool looked at them, because it says the same each time."""
        found = [
            each
            for n in range(10)
            for name in ("sees", "no")
            for each in every(name, {True: name == "sees", False: False}, n)
        ]
        assert compare.better(scored(*found), ["sees", "no"]) == []

    def test_only_looks_of_both_count(self) -> None:
        one = [t for n in range(10) for t in every("one", {True: True, False: False}, n)]
        two = [t for n in range(10, 20) for t in every("two", {True: False, False: False}, n)]
        assert compare.better(scored(*one, *two), ["one", "two"]) == []


def test_guesses_know_the_labs_and_no_stack() -> None:
    """The constant names the most frequent, the other draws; the same seed draws the same."""
    shown = scored(
        *(t for n in range(9) for t in every("t", {True: True, False: False}, n)), seed=3
    )
    found = {row.tool: row for row in metrics.rows(baselines.guesses(shown))}
    constant, drawn = found[baselines.FREQUENT], found[baselines.CHANCE]
    assert constant.detects == Share(18, 18) and constant.false == Share(63, 63)
    assert constant.cause == Share(18, 18)  # of two causes it names both
    assert constant.component.happened == 18  # nginx is on web
    assert 0 < drawn.detects.happened + drawn.false.happened < 81
    assert baselines.guesses(shown).trials == baselines.guesses(shown).trials
    other = replace(shown, facts={"seed": 4})
    assert baselines.guesses(other).trials != baselines.guesses(shown).trials
    assert baselines.guesses(scored()).trials == {}


class TestAgents:
    """Trials of agents have figures of their own."""

    def trials(self) -> list[Trial]:
        told = {"commands": 4, "seconds": 9.5, "tokens": None, "cost": 0.25}
        yes, no = {"repaired": True, **told}, {"repaired": False, **told, "commands": 8}
        none = {"repaired": None, **told, "transcript": ["ls"]}
        return [
            trial("nop", "mtu", FAULTY, alarm=True, causes=["mtu"], agent=yes),
            trial("nop", "gzip", FAULTY, alarm=True, causes=["mtu"], agent=no),
            trial("nop", "mtu", HEALTHY, alarm=True, agent=none),
        ]

    def test_a_row(self) -> None:
        row, *guesses = agent_metrics.rows(scored(*self.trials()))
        assert (row.tool, row.repaired, row.cause) == ("nop", Share(2, 1), Share(2, 1))
        assert (row.false, row.commands, row.seconds) == (Share(1, 1), 4, 9.5)
        assert (row.tokens, row.cost, row.errors) == (None, 0.25, 0)
        assert [guess.tool for guess in guesses] == [baselines.FREQUENT, baselines.CHANCE]
        assert guesses[0].repaired == Share(0, 0)

    def test_more_tries(self) -> None:
        """Two of four repair mtu and all four gzip; R: 1 - choose(2, 2) / choose(4, 2) = 5/6."""
        yes, no, _ = (t.agent for t in self.trials())
        assert yes and no
        tries = [("mtu", yes), ("mtu", no), ("mtu", yes), ("mtu", no), *[("gzip", yes)] * 4]
        made = [
            trial("nop", lab, FAULTY, number, alarm=False, agent=its)
            for number, (lab, its) in enumerate(tries)
        ]
        row = agent_metrics.rows(scored(*made))[0]
        assert [(each.tries, each.one, each.all) for each in row.again] == [
            *((1, 75.0, 75.0), (2, 91.7, 58.3), (3, 100.0, 50.0), (4, 100.0, 50.0))
        ]
        part = agent_metrics.rows(scored(*made[:2], made[4]))[0]  # one lab had one try
        assert [each.tries for each in part.again] == [1]
        cheats = agent_metrics.rows(scored(*(replace(t, tool="cheater") for t in made)))[0]
        assert cheats.again == []  # its numbers are cheats

    def test_columns_that_only_some_files_have(self) -> None:
        usual = tables.tables(scored(*self.trials()))[0]
        assert usual.headings[-1] == "not made"
        seen: Any = {"visits": 8, "visits_lost": 2, "model": "larch-2"}
        more = [replace(t, agent=t.agent | seen) for t in self.trials() if t.agent]
        more += [replace(t, number=2) for t in more]
        table = tables.tables(scored(*more))[0]
        told = dict(zip(table.headings, table.rows[0], strict=True))
        assert (told["visits lost"], told["harmed"]) == (Share(32, 8), Share(16, 4))
        assert (told["with more tries"], told["model"]) == ("2: 50%, all 50%", "larch-2")
        assert len({len(row) for row in table.rows}) == 1

    def test_each_lab(self) -> None:
        """A lab that was repaired once of twice has a small letter. A false alarm has its sign."""
        twice = [replace(t, number=2) for t in self.trials() if t.lab == "mtu"]
        never = [replace(t, agent={**t.agent, "repaired": False}) for t in twice if t.agent]
        other = [trial("oracle", "gzip", HEALTHY, alarm=False, agent=self.trials()[0].agent)]
        once = agent_metrics.grid(scored(*self.trials(), *other))
        assert once == (["nop", "oracle"], {"gzip": ["c", ""], "mtu": ["RN!", ""]})
        both = agent_metrics.grid(scored(*self.trials(), *never))
        assert both == (["nop"], {"gzip": ["c"], "mtu": ["rN!"]})

    def test_the_looks_of_a_cheater_are_not_guessed(self) -> None:
        """It makes one for each cheat, so something would be wrong more often."""
        cheats = [replace(self.trials()[0], tool="cheater", number=n) for n in range(1, 50)]
        _, *guesses = agent_metrics.rows(scored(*self.trials()))
        cheater, _, *others = agent_metrics.rows(scored(*self.trials(), *cheats))
        assert cheater.tool == "cheater" and others == guesses

    def test_they_are_no_tools(self) -> None:
        assert metrics.of_way(scored(*self.trials()), ALONE).trials == {}
        assert noise_baseline.floors(scored(*self.trials())) == []

    def test_a_file_keeps_all_that_they_say(self, tmp_path: Path) -> None:
        kept = Results(tmp_path / "score.json")
        kept.add(self.trials())
        again = results.read(kept.file)
        assert again.trials == kept.trials
        (free,) = (t.agent for t in again.trials.values() if t.agent and "transcript" in t.agent)
        assert free["transcript"] == ["ls"]  # type: ignore[typeddict-item]

    def test_a_file_with_half_an_agent_is_damaged(self, tmp_path: Path, faultlab: Run) -> None:
        kept = Results(tmp_path / "score.json")
        kept.add([replace(self.trials()[0], agent={"repaired": True})])  # type: ignore[arg-type]
        done = faultlab("scorecard", str(kept.file))
        assert (done.code, "commands: Field required" in done.err) == (2, True)


class TestCard:
    """The card of trials alone and in a crowd."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        right, blind = {True: True, False: False}, {True: True, False: True}
        facts: dict[str, Any] = {"took": 20.0, "cpu": 1.5, "memory": 5_000_000}
        facts |= {"effect": Effect("d", "s", 1, 2)}
        many = labs.ids()[:12]
        both = [replace(t, **facts) for t in every("mine", right, lab_ids=many)]
        both += [replace(t, way=CROWD) for t in every("mine", blind)]
        both += [trial("mine", "healthy", EMPTY, alarm=True, signals=["web: x"])]
        kept = Results(tmp_path / "score.json", {"seed": 1, "machine": {"cpus": 2}})
        kept.add([*both, *TestAgents().trials()])
        return kept.file

    def test_both_ways_are_beside_each_other(self, file: Path, faultlab: Run) -> None:
        told = json.loads(faultlab("scorecard", str(file), "--json").out)
        (row,), (crowd,) = told["rows"], told["crowd"]
        assert told["way"] == ALONE
        assert (row["false"]["happened"], crowd["false"]["happened"]) == (0, 7)
        assert [each["tool"] for each in told["guesses"]] == ["most-frequent-cause", "random"]
        assert {each["worse"] for each in told["better"]} >= {"most-frequent-cause"}
        assert told["groups"]["mine"] == 1
        assert told["floors"][0]["empty"] == {"of": 1, "happened": 1}
        assert told["agents"][0]["tool"] == "nop"

    def test_in_markdown_and_as_a_page(self, file: Path, faultlab: Run, tmp_path: Path) -> None:
        text = faultlab("scorecard", str(file), "--markdown").out
        titles = [each.title for each in tables.tables(results.read(file))]
        assert len(titles) == 6 and all(f"## {title}\n" in text for title in titles)
        assert (
            "| mine | 1 | 10 of 10, 100% (72 to 100) | 0 of 26, 0% (0 to 13) | +100 | 2 of 2"
            in text
        )
        assert "| mine | 20.0 | 1.50 | 5 | 2.00 | 26 |" in text
        page = tmp_path / "card.html"
        assert faultlab("scorecard", str(file), "--page", str(page)).code == 0
        assert all(f"<h2>{title}</h2>" in page.read_text() for title in titles)

    def test_for_a_person(self, file: Path, faultlab: Run) -> None:
        said = faultlab("scorecard", str(file)).out
        assert all(len(line) <= 80 for line in said.splitlines())
        assert "Group 1, which cannot be ranked: mine." in said and "CPU seconds" in said

    def test_two_files_with_both_ways(self, file: Path) -> None:
        kept = results.read(file)
        crowd = kept.only(lambda t: t.way == CROWD)
        parts = []
        for i, some in enumerate((crowd, kept.only(lambda t: t.way == ALONE))):
            parts.append(str(file.parent / f"{i}.json"))
            replace(some, file=Path(parts[-1])).save()
        assert scorecard.together(parts).trials == kept.trials


def test_old_trials_were_made_in_a_crowd() -> None:
    """The file of the first card: all trials are of a crowd, with the figures of that day."""
    crowd = metrics.of_way(results.read(REPO / "docs/score.json"), CROWD)
    assert len(crowd.trials) == 3960
    assert all(not t.replayed and t.agent is None for t in crowd.trials.values())
    found = {row.tool: row for row in metrics.rows(crowd)}
    assert (found["use"].detects, found["use"].false) == (Share(57, 46), Share(141, 58))
    assert (found["tshark"].detects, found["tshark"].false) == (Share(57, 54), Share(141, 127))
    assert found["ss-rules"].cause == Share(24, 21) and found["mtr"].unknown == 3
