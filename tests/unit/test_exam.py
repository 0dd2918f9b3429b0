"""Exam of twins: what is drawn and shown, what is kept, and what d' says; on a fake engine."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from math import comb
from pathlib import Path
from statistics import NormalDist

import pytest

from faultlab.core import lock, paths
from faultlab.core.errors import CannotRun
from faultlab.core.naming import stack_name
from faultlab.core.statistics import brier, sensitivity
from faultlab.lab import loader as labs
from faultlab.lab import twins
from faultlab.learn.exam_record import Exam, Said, order
from faultlab.run.record import Record
from tests.unit.conftest import Project, Run, said
from tests.unit.fake import FakeEngine

EVERY = {lab_id: labs.load(lab_id) for lab_id in labs.ids()}
PAIR = ["mtu", "small"]


@pytest.fixture
def pair(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The lab mtu with a twin that a fake engine can have: the same fault by another name."""
    shutil.copytree(project.root / "labs/mtu", project.root / "labs/small")
    shutil.copy(project.root / "checks/test_mtu.py", project.root / "checks/test_small.py")
    project.change("labs/small/lab.toml", '["iptables-drop", "netem-loss"]', '["mtu"]')
    project.change("labs/small/README.md", "[`iptables-drop`](../iptables-drop/", "[`mtu`](../mtu/")
    project.change("labs/mtu/lab.toml", '["iptables-drop", "netem-loss"]', '["small"]')
    project.change("labs/mtu/README.md", "[`netem-loss`](../netem-loss/", "[`small`](../small/")
    return project


class Learner:
    """A learner who knows each draw, and types what a test wants. `seen`: the draws so far."""

    def __init__(self, engine: FakeEngine, types: Callable[[int, str, str], str]) -> None:
        self.engine, self.types = engine, types
        self.seen: list[str] = []

    def isatty(self) -> bool:
        return False

    def readline(self) -> str:
        """Look which lab it is, as no learner can, and answer."""
        (up,) = [it for name, it in self.engine.stacks_up.items() if "helper" not in name]
        drawn = Record.read(up.machines["web"].run_id).lab
        self.seen.append(drawn)
        other = next(name for name in PAIR if name != drawn)
        return self.types(len(self.seen), drawn, other)


@pytest.fixture
def sits(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Learner]:
    """Let a learner sit at the exam, who knows better if no other answer is given."""

    def seated(types: Callable[[int, str, str], str] | None = None) -> Learner:
        it = Learner(engine, types or (lambda _n, drawn, _other: f"{drawn} 90\n"))
        monkeypatch.setattr(sys, "stdin", it)
        return it

    return seated


Sits = Callable[..., Learner]


def test_an_exam_to_its_end(pair: Project, engine: FakeEngine, sits: Sits, faultlab: Run) -> None:
    learner = sits(
        lambda n, drawn, other: f"{other if n == 2 else drawn} {70 if n == 2 else 90}%\n"
    )
    got = faultlab("exam", *PAIR, "--seed", "3", "--json")
    assert got.code == 0, got.err
    told = json.loads(got.out)
    assert learner.seen == order(PAIR, 3, 8) == [one["lab"] for one in told["answers"]]
    assert (told["labs"], told["seed"], told["draws"], told["right"]) == (PAIR, 3, 8, 7)
    assert told["d_prime"]["low"] < told["d_prime"]["d"] < told["d_prime"]["high"]
    how_sure = told["certainty"]
    assert (how_sure["answers"], how_sure["sure"], how_sure["right"]) == (8, 87.5, 87.5)
    assert how_sure["brier"] == pytest.approx((7 * 0.01 + 0.49) / 8)
    assert [[one["lab"], one["twin"]] for one in told["telling"]] == [PAIR, PAIR[::-1]]
    assert "counts it as `dropped`" in told["telling"][0]["text"]
    assert engine.stacks_up == {} and engine.launched == 8


def test_what_is_printed_fits_and_names_no_draw_before_the_end(
    pair: Project, sits: Sits, faultlab: Run
) -> None:
    sits()
    got = faultlab("exam", "mtu", "--seed", "3", "--draws", "4")
    assert got.code == 0, got.err
    assert max(map(len, got.out.splitlines())) <= 80
    before, _, after = got.out.partition("draw  it was")
    for words in ("exam: mtu or small?", "4 of 4: mtu or small", "faultlab shell exam web"):
        assert words in before
    assert "curl" not in before and "ip link" not in before and "Bank" not in before
    for words in ("Right in 4 of 4", "d' is", "4 draws cannot tell d'", "Brier score 0.01"):
        assert words in after
    assert "What tells them apart" in after


def test_a_script_hears_when_a_draw_is_up(pair: Project, sits: Sits, faultlab: Run) -> None:
    sits()
    got = faultlab("exam", *PAIR, "--draws", "4", "--events")
    told = [json.loads(line) for line in got.out.splitlines()]
    up = [it["name"] for it in told if it["event"] == "step" and it["text"].startswith("is up")]
    assert up == [f"draw {number}" for number in range(1, 5)]
    assert told[-1]["event"] == "result" and told[-1]["data"]["right"] == 4
    assert "mtu" not in json.dumps(told[:-1]) and "small" not in json.dumps(told[:-1])


def test_it_stops_with_the_input_and_goes_on_where_it_was(
    pair: Project, engine: FakeEngine, sits: Sits, faultlab: Run
) -> None:
    learner = sits(lambda n, drawn, _other: f"{drawn} 80\n" if n <= 3 else "")
    got = faultlab("exam", *PAIR, "--seed", "5", "--json")
    assert got.code == 3 and len(json.loads(got.out)["answers"]) == 3
    assert "3 of 8 draws are answered, and kept." in got.err
    assert "next: faultlab exam mtu small" in got.err and engine.stacks_up == {}
    before = learner.seen[:3]
    learner = sits()
    got = faultlab("exam", *PAIR[::-1])
    assert got.code == 0 and "goes on with draw 4 of 8" in got.out
    assert before + learner.seen == order(PAIR, 5, 8)
    learner = sits()
    assert faultlab("exam", *PAIR).code == 0 and len(learner.seen) == 8, "that one was complete"


def test_ctrl_c_removes_the_stack_and_keeps_the_answers(
    pair: Project, engine: FakeEngine, sits: Sits, faultlab: Run
) -> None:
    def types(n: int, drawn: str, _other: str) -> str:
        if n == 2:
            raise KeyboardInterrupt
        return f"{drawn} 80\n"

    sits(types)
    got = faultlab("exam", *PAIR)
    assert got.code == 3 and "1 of 8 draws are answered" in got.err and engine.stacks_up == {}
    sits(lambda *_: "")
    got = faultlab("exam", *PAIR, "--new", "--json")
    assert got.code == 3 and "0 of 8" in got.err and json.loads(got.out)["exit_code"] == 3


def test_a_kill_costs_the_draw_under_way_alone(
    pair: Project, engine: FakeEngine, sits: Sits, faultlab: Run
) -> None:
    """Its stack is still up, and the last line of its file can be cut off."""
    begun = Exam.begin(PAIR, 7, 4)
    first, *left = order(PAIR, 7, 4)
    begun.add(Said(first, first, 80, True, 9.0, 9.0, "run"))
    with begun.file.open("a") as file:
        file.write('{"t": 1, "ev')
    engine.launch(labs.load(left[0]), stack_name("exam"), "killed", pair.root)
    learner = sits()
    got = faultlab("exam", *PAIR, "--json")
    assert got.code == 0 and learner.seen == left
    assert [one["lab"] for one in json.loads(got.out)["answers"]] == [first, *left]
    assert Exam.going_on(PAIR, None, None) is None and engine.stacks_up == {}
    lines = begun.file.read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["began", *["answered"] * 4]


def test_a_file_that_is_damaged_is_no_exam_to_go_on_with(pair: Project) -> None:
    kept = Exam.begin(PAIR, 7, 4)
    for text in ("", "{", "[1]\n", '{"schema": 2}\n', '{"schema": 1, "labs": ["mtu"]}\n'):
        (kept.file.parent / "20991231-000000-ffff.jsonl").write_text(text)
        found = Exam.going_on(PAIR[::-1], None, None)
        assert found is not None and found.file == kept.file
    assert Exam.going_on(PAIR, 7, None) is not None
    assert Exam.going_on(PAIR, 7, 8) is Exam.going_on(["mtu", "gzip"], None, None) is None


@pytest.mark.parametrize("line", ["mtu", "mtu 49", "mtu 101", "gzip 80", "80 mtu", "mtu -80", "\n"])
def test_another_line_ends_an_exam_that_a_script_takes(
    line: str, pair: Project, engine: FakeEngine, sits: Sits, faultlab: Run
) -> None:
    sits(lambda *_: f"{line}\n")
    got = faultlab("exam", *PAIR)
    assert got.code == 2 and engine.stacks_up == {}
    assert got.err.splitlines() == [
        "faultlab: Expected mtu or small, and from 50 to 100, such as: mtu 80",
        "  next: faultlab exam mtu small",
    ]


def test_a_person_is_asked_again(
    pair: Project, sits: Sits, faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = sits(lambda n, drawn, _other: "what?\n" if n == 1 else f"{drawn}, 50\n")
    monkeypatch.setattr(learner, "isatty", lambda: True)
    got = faultlab("exam", *PAIR, "--draws", "4")
    assert got.code == 0 and got.out.count("Expected mtu or small") == 1
    assert "Brier score 0.25" in got.out


def test_a_draw_that_cannot_be_proven_is_not_named(
    pair: Project, engine: FakeEngine, sits: Sits, faultlab: Run
) -> None:
    pair.change("labs/small/lab.toml", "eth0 mtu 100", "eth0 mtu 1400")
    pair.change("labs/mtu/lab.toml", "eth0 mtu 100", "eth0 mtu 1400")
    sits()
    got = faultlab("exam", *PAIR)
    assert got.code == 3 and engine.stacks_up == {}
    first, second = got.err.splitlines()
    assert first == "faultlab: Draw 1 could not be proven; the answers before it are kept."
    assert second.startswith(
        "  next: faultlab exam mtu small; why (it names the lab): faultlab show"
    )


def test_nothing_that_others_type_tells_it(
    pair: Project, engine: FakeEngine, sits: Sits, faultlab: Run
) -> None:
    """The stack is held, and no verb shows its lesson; its machines can be entered."""
    capture: list[str] = []

    def typed(_n: int, _drawn: str, _other: str) -> str:
        for verb in ("debrief", "fix", "check", "down", "hint", "shell"):
            got = faultlab(verb, "exam")
            capture.append(f"{verb}: {got.code} {got.out}{got.err}")
        raise KeyboardInterrupt

    sits(typed)
    assert faultlab("exam", *PAIR).code == 3
    told = dict(line.split(": ", 1) for line in capture)
    assert told["debrief"].startswith("3 faultlab: The lesson would give it away.")
    for verb in ("fix", "check", "down"):
        assert "is in use by `faultlab exam`" in told[verb]
    assert told["hint"].startswith("2 faultlab: There is no lab called 'exam'")
    assert "can log in to a fake machine" in told["shell"]
    assert not any("mtu" in text or "small" in text for text in capture)


def test_what_is_proven_quickly_waits_for_the_other(pair: Project, engine: FakeEngine) -> None:
    its = Exam.begin(PAIR, 1, 8)
    assert its.pace == 0
    for lab, took in (("mtu", 5.0), ("mtu", 4.0), ("small", 60.0), ("small", 20.0)):
        its.add(Said(lab, lab, 90, True, 1.0, took, "run"))
    assert its.pace == 20.0, "an outlier makes no later draw wait"


@pytest.mark.parametrize(
    ("words", "code", "problem", "after"),
    [
        (("mtu", "gzip"), 2, "mtu and gzipare not twins.", "exam mtu iptables-drop"),
        (("mtu", "mtu"), 2, "mtu and mtuare not twins.", "exam mtu iptables-drop"),
        (("mtu", "netem-loss", "gzip"), 2, "An exam takes a lab, and perhaps its twin.", "--help"),
        (("mtu", "--draws", "3"), 2, "--draws takes a number from 4 to 40.", "exam --help"),
        (("busy", "cpu-quota"), 2, "busy has no fault.", "faultlab exam mtu"),
        (("packet-loss", "mtu"), 2, "packet-loss has several faults.", "faultlab exam mtu"),
        (("packet-loss",), 2, "packet-loss has no twin on the same machines.", "faultlab exam mtu"),
        (("certificate",), 2, "certificate has no twin on the same machines.", "faultlab exam mtu"),
        (
            ("iptables-drop@20%", "netem-loss~old-overflow"),
            2,
            "netem-loss~old-overflow has a false",
            "exam",
        ),
        (("gzip", "tls-resumption"), 2, "the machines of gzip and tls-resumption differ", "exam"),
        (("nothing",), 2, "There is no lab called 'nothing'", "faultlab list"),
        (("conntrack", "syn-flood"), 3, "conntrack cannot run here", "--engine vm"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    words: tuple[str, ...],
    code: int,
    problem: str,
    after: str,
    *,
    engine: FakeEngine,
    faultlab: Run,
) -> None:
    got = faultlab("exam", *words)
    assert (got.code, engine.launched, len(got.err.splitlines())) == (code, 0, 2)
    first, second = got.err.splitlines()
    assert first.startswith(f"faultlab: {problem}") and after in second


def test_while_another_exam_is_up(pair: Project, engine: FakeEngine, faultlab: Run) -> None:
    with lock.hold(stack_name("exam"), "exam"):
        got = faultlab("exam", *PAIR)
    assert got.code == 3 and "is in use by `faultlab exam`" in got.err and engine.launched == 0


def test_without_an_exam_its_verbs_say_so(engine: FakeEngine, faultlab: Run) -> None:
    assert faultlab("shell", "exam") == said("No exam is up.", "faultlab exam --help", 3)


def test_both_labs_of_a_pair_have_the_same_machines() -> None:
    for lab in EVERY.values():
        for twin in twins.known(lab):
            if not twins.apart(lab, twin):
                one, other = twins.on_one_stack(lab, twin)
                assert one.services is other.services is one.called("exam").services
                assert one.services.used(one.daemons) == other.services.used(other.daemons)
                assert {*lab.daemons, *twin.daemons} == {*one.daemons}
    assert not twins.apart(EVERY["mtu"], EVERY["netem-loss"])


def test_each_lesson_tells_a_lab_from_its_twins() -> None:
    for lab in EVERY.values():
        for name in lab.twins:
            text = twins.telling(lab, EVERY[name])
            assert len(text) > 40 and name in text and "](" not in text, (lab.id, name)


def test_the_order_goes_by_the_seed_and_not_by_the_names() -> None:
    assert order(PAIR, 1, 8) == order(PAIR[::-1], 1, 8) != order(PAIR, 2, 8)
    counts = {order(PAIR, seed, 8).count("mtu") for seed in range(200)}
    assert counts == {2, 3, 4, 5, 6}, "not always four of each, and each comes at least twice"
    first = [order(PAIR, seed, 8)[0] for seed in range(400)]
    assert 150 < first.count("mtu") < 250


def test_eight_of_eight_is_finite_and_d_prime_is_that_of_the_textbook() -> None:
    best = sensitivity(4, 4, 0, 4)
    assert best is not None and best.d == pytest.approx(2 * NormalDist().inv_cdf(0.9))
    assert best.low < 1.5 and best.high > 3, "eight draws cannot tell d' 1.5 from 3"
    guess = sensitivity(2, 4, 2, 4)
    assert guess is not None and guess.d == 0 and guess.low == -guess.high
    assert sensitivity(4, 4, 0, 0) is None
    one, other = sensitivity(3, 4, 1, 4), sensitivity(30, 40, 10, 40)
    assert one is not None and other is not None
    assert other.d == pytest.approx(2 * NormalDist().inv_cdf(30.5 / 41))
    assert other.high - other.low < one.high - one.low


@pytest.mark.parametrize("true", [0.0, 1.0, 2.0, 3.0])
def test_the_interval_holds_the_true_d_prime(true: float) -> None:
    """In 94% of all exams with four draws of each, for a learner without a preference."""
    right, held = NormalDist().cdf(true / 2), 0.0
    chance = [comb(4, k) * right**k * (1 - right) ** (4 - k) for k in range(5)]
    for hits in range(5):
        for alarms in range(5):
            found = sensitivity(hits, 4, alarms, 4)
            assert found is not None
            held += chance[hits] * chance[4 - alarms] * (found.low <= true <= found.high)
    assert held > 0.939


def test_the_brier_score() -> None:
    assert brier([(0.5, True), (0.5, False)]) == 0.25
    assert brier([(1.0, True), (0.0, False)]) == 0
    assert brier([(0.9, False)]) == pytest.approx(0.81)
    assert brier([]) is None


def test_an_answer_that_cannot_be_written_is_told(
    pair: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    its = Exam.begin(PAIR, 1, 4)

    def full(_file: Path, _line: str) -> None:
        raise CannotRun("runs/exams cannot be written: No space left on device.", "df -h")

    monkeypatch.setattr(paths, "add_line", full)
    with pytest.raises(CannotRun, match="No space left"):
        its.add(Said("mtu", "mtu", 80, True, 1.0, 1.0, "run"))
    assert its.answers == []
