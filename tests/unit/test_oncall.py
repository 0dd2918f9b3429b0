"""On call: what comes in a shift, who is paged, and what its report takes from the journal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import combinations
from pathlib import Path

import pytest

from faultlab.agents.oncall import Paged
from faultlab.core.defaults import MYSTERY, ONCALL
from faultlab.core.errors import BadInput
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.lab import collection
from faultlab.lab import loader as labs
from faultlab.lab.collection import bare
from faultlab.oncall import report
from faultlab.oncall.journal import FILE, Event, Journal
from faultlab.oncall.plan import Coming, Plan, drawn
from faultlab.oncall.shift import Shift, There
from faultlab.run import together
from faultlab.run.record import READY
from faultlab.run.run import Run
from tests.unit.conftest import REPO
from tests.unit.conftest import Run as Verbs
from tests.unit.fake import FakeEngine, only_fake

PAIRS = {frozenset(("mtu", "nagle")), frozenset(("gzip", "mtu"))}
POOL = [labs.load(lab_id) for lab_id in ("mtu", "nagle", "gzip", "certificate")]


def test_the_same_seed_makes_the_same_shift() -> None:
    one, same, other = (drawn(POOL, 7200, seed, PAIRS) for seed in (3, 3, 4))
    assert one == same != other


@pytest.mark.parametrize("seed", range(12))
def test_only_proven_pairs_overlap_and_one_fault_returns(seed: int) -> None:
    plan = drawn(POOL, 7200, seed, PAIRS)
    assert len(plan.comings) > len(plan.kinds) >= 2
    assert all(coming.at > 0 and coming.ends <= 7200 for coming in plan.comings)
    for one, other in combinations(plan.comings, 2):
        if other.at < one.ends:
            assert frozenset((bare(one.fault), bare(other.fault))) in PAIRS
    for coming in plan.comings:  # never three at once
        assert sum(each.at <= coming.at < each.ends for each in plan.comings) <= 2


def test_weaker_severities_come_too() -> None:
    pool = [labs.load("iptables-drop"), labs.load("mtu")]
    faults = {c.fault for seed in range(20) for c in drawn(pool, 7200, seed, ()).comings}
    assert {"iptables-drop", "mtu"} < faults and any("@" in fault for fault in faults)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeEngine:
    monkeypatch.setenv("FAULTLAB_STATE", str(tmp_path))
    return only_fake(monkeypatch)


class Played:
    """A shift on a fake stack with the lab mtu, in the time that its pauses take."""

    def __init__(self, engine: FakeEngine, tmp_path: Path, *comings: Coming) -> None:
        lab = labs.load("mtu").called(ONCALL)
        self.engine = engine
        self.run = Run.begin(engine, lab, stack_name(ONCALL), collects=False)
        self.run.healthy()
        self.journal = Journal(tmp_path)
        plan = Plan(7, 600.0, list(comings))
        self.journal.add(Event.BEGAN, **asdict(plan))
        self.shift = Shift(Terminal(), self.run, self.journal, plan, self.clock)

    def clock(self) -> float:
        """Return the seconds of all pauses so far."""
        return sum(self.engine.paused)

    def at(self, seconds: float, what: Callable[[], object]) -> None:
        """Let something happen in the pause that begins then."""
        until = int(seconds // 15)
        self.engine.meanwhile += [lambda: None] * (until - len(self.engine.meanwhile))
        self.engine.meanwhile.append(what)

    def told(self) -> report.Report:
        """Play it to its end, and return its report."""
        self.shift.goes_on()
        self.shift.close()
        return report.made("r", self.journal.events(), collection.ours())

    def type(self, command: str) -> Callable[[], object]:
        """Return what types a command on web."""
        return lambda: self.run.stack["web"].run(command)


def test_a_fault_comes_is_paged_named_and_repaired(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    its = Played(engine, tmp_path, Coming(60, "mtu", 300))
    right = labs.load("mtu").truth.model_dump()
    wrong = {**right, "cause": "gzip"}
    its.at(30, lambda: its.journal.add(Event.ANSWERED, **wrong))
    its.at(90, lambda: its.journal.add(Event.LOOKED, machine="client"))
    its.at(105, lambda: its.journal.add(Event.LOOKED, machine="web"))
    its.at(120, lambda: its.journal.add(Event.ANSWERED, **right))
    its.at(150, its.type("ip link set dev eth0 mtu 1500"))
    told = its.told()
    (one,) = told.incidents
    assert (one.fault, one.itself) == ("mtu", False)
    assert None not in (one.paged, one.looked, one.named, one.repaired)
    assert (told.answers, told.false) == (2, 1)
    assert 0 < one.lost == told.lost < told.visits
    events = [event["event"] for event in its.journal.events()]
    assert events.index("came") < events.index("felt") < events.index("clear")
    said = capsys.readouterr().out
    assert "PAGE 1" in said and "Page 1: its users are served again" in said
    assert "mtu" not in said.lower()


def test_the_page_shows_what_was_paged(engine: FakeEngine, tmp_path: Path) -> None:
    its = Played(engine, tmp_path, Coming(0, "mtu", 120), Coming(300, "mtu", 600))
    its.told()
    shown = report.pages(its.journal.events(), collection.ours())
    assert [(page.number, page.over) for page in shown] == [(2, False), (1, True)]
    assert shown[0].ticket == labs.load("mtu").ticket and shown[0].t > shown[1].t


def test_a_fault_that_is_left_goes_by_itself_and_can_return(
    engine: FakeEngine, tmp_path: Path
) -> None:
    told = Played(engine, tmp_path, Coming(0, "mtu", 120), Coming(300, "mtu", 120)).told()
    assert [one.itself for one in told.incidents] == [True, True]
    assert [one.repaired for one in told.incidents] == [None, None]
    assert told.visits > told.lost > 0 and told.amiss == []


def test_a_repair_just_before_a_fault_would_have_gone_is_a_repair(
    engine: FakeEngine, tmp_path: Path
) -> None:
    its = Played(engine, tmp_path, Coming(0, "mtu", 120))
    its.at(105, its.type("ip link set dev eth0 mtu 1500"))
    told = its.told()
    assert [(one.itself, one.repaired is not None) for one in told.incidents] == [(False, True)]
    assert told.amiss == []


def test_harm_that_no_fault_of_the_shift_does_is_told_once(
    engine: FakeEngine, tmp_path: Path
) -> None:
    its = Played(engine, tmp_path, Coming(500, "mtu", 60))
    its.at(30, its.type("ip link set dev eth0 mtu 100"))
    its.at(300, its.type("ip link set dev eth0 mtu 1500"))
    told = its.told()
    assert told.amiss == ["users are harmed, but not by a fault of this shift"]
    assert [one.fault for one in told.incidents] == ["mtu"] and told.lost > 0


def test_what_cannot_come_is_told_and_the_shift_goes_on(engine: FakeEngine, tmp_path: Path) -> None:
    its = Played(engine, tmp_path, Coming(30, "missing-index", 60), Coming(120, "mtu", 60))
    told = its.told()
    assert [one.fault for one in told.incidents] == ["mtu"]
    assert any("missing-index could not be started" in text for text in told.amiss)


def test_the_report_in_the_manual_is_that_of_a_recorded_shift(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Made again from its journal, as `--report` does."""
    monkeypatch.setenv("COLUMNS", "80")
    folder = next((REPO / "tests/recorded/shifts").iterdir())
    told = report.made(folder.name, Journal(folder).events(), collection.ours())
    report.show(Terminal(), told)
    said = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert f"```\n{said}\n```" in (REPO / "docs/blind.md").read_text()


def test_a_journal_whose_last_line_was_cut_off_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add(Event.BEGAN, seed=1)
    with (tmp_path / FILE).open("a") as file:
        file.write('{"t": 1')
    assert [event["event"] for event in journal.events()] == ["began"]
    (tmp_path / FILE).write_text('{"t": 1\n{"t": 2}\n')
    with pytest.raises(BadInput, match="is damaged"):
        journal.events()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--hours", "0"], "--hours takes a number"),
        (["--hours", "99"], "--hours takes a number"),
        (["--hours", "0.1"], "A shift takes"),
        (["--webhook", "file:///etc/passwd"], "--webhook takes an address"),
        (["healthy"], "it does not have exactly one fault"),
        (["conntrack", "mtu"], "it does not have exactly one fault"),
        (["no-such"], "There is no lab"),
        (["--report", "no-such"], "There is no run"),
    ],
)
def test_what_is_wrong_is_said(faultlab: Verbs, words: list[str], says: str) -> None:
    got = faultlab("oncall", *words)
    assert got.code == 2 and says in got.err and "Traceback" not in got.err, got.err


def test_without_a_shift_its_verbs_say_so(faultlab: Verbs, engine: FakeEngine) -> None:
    got = faultlab("shell", "oncall")
    assert got.code == 3 and "No oncall is up." in got.err and "faultlab oncall" in got.err
    got = faultlab("diagnose", "--component", "web", "--resource", "network", "--cause", "mtu")
    assert got.code == 3 and "No mystery is up." in got.err


def test_an_answer_goes_to_what_is_up(faultlab: Verbs, engine: FakeEngine, tmp_path: Path) -> None:
    words = ["diagnose", "--component", "web", "--resource", "network", "--cause", "mtu"]
    assert faultlab(*words, "--lab", "oncall").code == 3
    its = Played(engine, tmp_path, Coming(0, "mtu", 60))
    its.run.record.event(READY)
    assert "Noted." in faultlab(*words).out
    assert Journal(its.run.record.folder).events()[-1]["cause"] == "mtu"
    other = Run.begin(engine, labs.load("mtu").called(MYSTERY), stack_name(MYSTERY), collects=False)
    other.record.event(READY)
    got = faultlab(*words)
    assert got.code == 2 and "A mystery and a shift are up." in got.err
    assert "Answer 1 is recorded" in faultlab(*words, "--lab", "mystery").out
    assert "Noted." in faultlab(*words, "--lab", "oncall").out


def test_the_labs_that_come_by_default_were_proven_together() -> None:
    pairs = {frozenset(map(bare, lab.of)) for lab in together.proven()}
    pool = [labs.load(name) for name in sorted({name for pair in pairs for name in pair})]
    plan = drawn(pool, 2400, 1, pairs)
    assert labs.load(labs.AND.join(plan.kinds)).several


def test_an_agent_with_a_page_is_noted_and_answered(engine: FakeEngine, tmp_path: Path) -> None:
    its = Played(engine, tmp_path, Coming(0, "mtu", 600))
    there = There(1, its.shift.plan.comings[0], labs.load("mtu"))
    paged = Paged(its.shift, there)
    with pytest.raises(BadInput, match="Say what is wrong first"):
        paged.check()
    for command in ("echo one", "echo two"):
        assert paged.run("web", command).code == 0
    paged.diagnose(**labs.load("mtu").truth.model_dump())
    there.over = True
    assert paged.check().fixed
    with pytest.raises(BadInput, match="final"):
        paged.diagnose("web", "network", "gzip")
    noted = [event["event"] for event in its.journal.events()]
    assert (noted.count("looked"), noted.count("answered")) == (1, 1)


def test_a_page_goes_to_the_webhook(engine: FakeEngine, tmp_path: Path) -> None:
    its = Played(engine, tmp_path, Coming(0, "mtu", 600))
    its.shift.webhook = "http://127.0.0.1:1/closed"
    told = its.told()
    assert any("the webhook did not take page 1" in text for text in told.amiss)
