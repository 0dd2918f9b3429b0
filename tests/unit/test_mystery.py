"""Mystery: what is drawn, what an answer is worth, and that nothing names the lab; no Docker."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.defaults import MYSTERY
from faultlab.lab import loader as labs
from faultlab.lab import vocabulary
from faultlab.lab.model import NO_FAULT
from faultlab.learn import hints, mystery
from faultlab.run import digest, together
from faultlab.run.record import GAVE_UP, Record
from tests.unit.conftest import Run

EVERY = [labs.load(lab_id) for lab_id in labs.ids()]
RIGHT = {"component": "web", "resource": "network", "cause": "mtu"}


def test_the_same_seed_draws_the_same() -> None:
    draws = [[lab.id for lab in mystery.order(EVERY, seed)] for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert sorted(draws[0]) == labs.ids()


def test_twins_are_preferred_and_nothing_wrong_is_among_them() -> None:
    """Over five thousand seeds: a fifth are controls, and a twin comes three times as often."""
    drawn = Counter(next(mystery.order(EVERY, seed)).alias for seed in range(5000))
    controls = sum(drawn[lab.id] for lab in EVERY if lab.control)
    assert 0.18 < controls / 5000 < 0.24
    alone = [lab for lab in EVERY if not lab.twins and not lab.control]
    twins = [lab for lab in EVERY if lab.twins and not lab.control]
    assert alone, "the test needs a lab without twins"
    often = [sum(drawn[lab.id] for lab in some) / len(some) for some in (twins, alone)]
    assert often[0] > 1.5 * often[1]


def test_tier_and_level_choose_faults_and_keep_the_controls() -> None:
    found = mystery.candidates("app", 2)
    faults = [lab for lab in found if not lab.control]
    assert {"cpu-quota", "heap-oom"} <= {lab.id for lab in faults}
    assert {(lab.tier, lab.difficulty <= 2) for lab in faults} == {("app", True)}
    assert [lab.id for lab in found if lab.control] == ["busy", "healthy", "latent"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--tier", "wep"],
            "No lab is of tier wep; tiers: app, data, web.",
        ),
        (["--level", "0"], "No lab is of level 0 or below; tiers: app, data, web."),
    ],
)
def test_nothing_to_draw_from(words: list[str], says: str, faultlab: Run) -> None:
    done = faultlab("mystery", *words)
    assert (done.code, done.err.splitlines()[0]) == (2, f"faultlab: {says}")


def test_no_command_that_is_proposed_needs_the_name_of_the_lab() -> None:
    drawn, known = labs.load("mtu").called(MYSTERY), labs.load("mtu")
    assert (drawn.to_start, drawn.to_examine) == ("make mystery", "faultlab doctor")
    assert (known.to_start, known.to_examine) == ("make lab-mtu", "faultlab doctor mtu")


def test_a_word_that_is_no_term(faultlab: Run) -> None:
    done = faultlab("diagnose", "--component", "web", "--resource", "net", "--cause", "mtu")
    assert done.code == 2
    assert done.err.splitlines() == [
        "faultlab: 'net' is no resource that can be named.",
        "  next: faultlab terms",
    ]


def record(*events: dict[str, Any], hints: int = 0) -> Record:
    said = [{"t": 60.0, "event": "ready"}, *events]
    given = [{"t": 61.0, "event": "hint", "number": n + 1} for n in range(hints)]
    return Record(Path("none"), {"events": [*said, *given]})


def answer(**parts: str | bool) -> dict[str, Any]:
    return {"t": 200.0, "event": "answer", **RIGHT, **parts}


def check(fixed: bool, **later: float) -> dict[str, Any]:
    return {"t": 360.0, "event": "check", "fixed": fixed, **later}


def late(fixed: bool) -> dict[str, Any]:
    return {"t": 540.0, "event": "later", "fixed": fixed}


SHOWN = {"t": 400.0, "event": GAVE_UP}


@pytest.mark.parametrize(
    ("events", "hints", "points"),
    [
        ([answer(), check(True)], 0, 40),
        ([answer(cause="gzip"), check(True)], 0, 30),
        ([answer(cause="gzip"), answer(), check(True)], 0, 35),
        ([answer(), check(False)], 0, 30),
        ([answer(), check(True), SHOWN], 0, 30),
        ([answer(), check(True, later=3)], 0, 30),
        ([answer(), check(True, later=3), late(True)], 0, 40),
        ([answer(), check(True), check(True, later=3), late(False)], 0, 30),
        ([answer(), check(True, later=3), late(False), check(True)], 0, 40),
        ([answer(), check(True)], 2, 40 - sum(rung.cost for rung in labs.load("mtu").hint[:2])),
        ([check(True)], 0, 10),
        ([SHOWN], 4, 0),
    ],
)
def test_what_an_answer_is_worth(events: list[dict[str, Any]], hints: int, points: int) -> None:
    """Ten for each right part and for the repair; hints cost what they say, a retry five."""
    assert mystery.scored(labs.load("mtu"), record(*events, hints=hints)).points == points


def test_of_several_faults_each_is_an_answer() -> None:
    """packet-loss has three; an answer must fit one of them as a whole."""
    found = mystery.scored(labs.load("packet-loss"), record(answer()))
    assert all(found.right.values())


ONE, OTHER = RIGHT, labs.load("gzip").truth.model_dump()


@pytest.mark.parametrize(
    ("events", "points", "named"),
    [
        ([answer(), answer(**OTHER, also=True), check(True)], 70, 2),
        ([answer(**OTHER), answer(also=True), check(True)], 70, 2),  # in any order
        ([answer(), check(True)], 40, 1),
        ([answer(), answer(also=True), check(True)], 50, 1),  # both are of the network
        ([answer(), answer(cause="nagle", also=True), answer(**OTHER, also=True)], 55, 2),
        ([answer(cause="nagle"), answer(), answer(**OTHER, also=True), check(True)], 65, 2),
        ([check(True)], 10, 0),
    ],
)
def test_of_labs_put_together_each_fault_is_named(
    events: list[dict[str, Any]], points: int, named: int
) -> None:
    """Ten for each part of each fault; an answer too many costs as a retry does."""
    found = mystery.scored(labs.load("mtu+gzip"), record(*events))
    assert (found.points, found.named, found.of) == (points, named, 70)


def test_one_more_answer_about_one_fault_is_a_retry() -> None:
    events = answer(cause="gzip"), answer(also=True), check(True)
    assert mystery.scored(labs.load("mtu"), record(*events)).points == 35


def test_only_what_was_proven_together_is_drawn(
    faultlab: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "together.json"
    monkeypatch.setattr(together, "FILE", str(file))
    got = faultlab("mystery", "--faults", "2")
    assert got.code == 2 and "No labs with 2 faults at once are proven" in got.err
    assert faultlab("mystery", "--faults", "0").code == 2
    walked = [("mtu+gzip", "pass"), ("mtu+gzip", "pass"), ("mtu+nagle", "fail")]
    walked += [("mtu+regex", "pass"), ("mtu+regex", "unknown")]
    cases = [
        {"lab": lab_id, "verdict": verdict, "lab_digest": digest.walk(lab_id)}
        for lab_id, verdict in walked
    ]
    changed = {"lab": "mtu+certificate", "verdict": "pass", "lab_digest": "another lab"}
    file.write_text(json.dumps({"schema": 1, "cases": [*cases, changed]}))
    assert [lab.id for lab in together.proven_of(EVERY, 2)] == ["mtu+gzip"]
    listed = faultlab("list", "--together", "--json")
    assert [lab["id"] for lab in json.loads(listed.out)] == ["mtu+gzip"]
    file.write_text("{")
    got = faultlab("mystery", "--faults", "2")
    assert got.code == 2 and "is no result of a verify" in got.err and "Traceback" not in got.err


def test_nothing_is_wrong_is_an_answer() -> None:
    nothing = dict.fromkeys(RIGHT, NO_FAULT)
    found = mystery.scored(labs.load("busy"), record(answer(**nothing), check(True)))
    assert found.points == 40


@pytest.mark.parametrize("lab_id", labs.ids())
def test_no_hint_tells_the_name_in_what_to_type(lab_id: str) -> None:
    hidden = labs.load(lab_id).called(MYSTERY)
    assert (hidden.alias, hidden.id) == (MYSTERY, lab_id)
    for rung in hidden.hint:
        assert not re.search(rf"make [a-z]+-{lab_id}\b", hints.as_typed(hidden, rung.text))
    assert lab_id not in hidden.title.split()


def test_every_truth_can_be_said() -> None:
    words = vocabulary.words()
    for lab in EVERY:
        if not lab.control:
            assert lab.truth.cause in words.causes
            assert lab.truth.component in words.components
            assert lab.truth.resource in words.resources
