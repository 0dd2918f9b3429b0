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
from tests.unit.conftest import Project, Run
from tests.unit.fake import FakeEngine

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


def answer(**parts: str | bool | int) -> dict[str, Any]:
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
    assert got.code == 2 and "is not a result of verify" in got.err and "Traceback" not in got.err


@pytest.mark.parametrize(
    ("events", "sure", "knew"),
    [
        ([answer(sure=80), check(True)], 80, True),
        ([answer(sure=0, cause="gzip"), check(True)], 0, False),
        ([answer(cause="gzip", sure=60), answer(sure=90)], 90, True),
        ([answer(sure=90), answer()], None, True),  # the last one does not say it
        ([check(False), answer(sure=90), check(True)], 90, True),
        ([check(True), answer(sure=100)], None, True),  # now all are sure
        ([check(True, later=3), answer(sure=100)], None, True),
        ([check(True, later=3), late(False), answer(sure=70)], 70, True),  # it did not last
        ([answer(component="db", sure=70)], 70, True),  # the cause alone counts
        ([answer()], None, True),
        ([], None, False),
    ],
)
def test_how_sure_an_answer_is(events: list[dict[str, Any]], sure: int | None, knew: bool) -> None:
    """It costs nothing, and counts if it was said before a check passed."""
    found = mystery.scored(labs.load("mtu"), record(*events))
    assert (found.sure, found.knew) == (sure, knew)


@pytest.mark.parametrize(
    ("events", "sure", "knew"),
    [
        ([answer(sure=80), answer(**OTHER, also=True)], 80, True),
        ([answer(), answer(**OTHER, also=True, sure=60)], 60, True),
        ([answer(sure=80)], 80, False),
        ([answer(sure=80), check(True), answer(**OTHER, also=True, sure=99)], 80, True),
    ],
)
def test_how_sure_an_answer_to_several_faults_is(
    events: list[dict[str, Any]], sure: int, knew: bool
) -> None:
    """It is of the whole answer: each cause must be named."""
    found = mystery.scored(labs.load("mtu+gzip"), record(*events))
    assert (found.sure, found.knew) == (sure, knew)


def test_a_mystery_from_its_answer_to_what_progress_says(
    project: Project, engine: FakeEngine, faultlab: Run
) -> None:
    """The certainty is recorded with the answer, and counts when nothing is hidden any more."""
    assert faultlab("start", "mtu", "--blind").code == 0
    words = [word for part, value in RIGHT.items() for word in (f"--{part}", value)]
    got = faultlab("diagnose", *words)
    assert "Next time say how sure you are, in per cent: --sure 80" in got.out
    got = faultlab("diagnose", *words, "--sure", "80", "--json")
    assert (got.code, json.loads(got.out)["sure"]) == (0, 80)
    assert json.loads(faultlab("progress", "--json").out)["certainty"] is None, "it would tell"
    engine.stacks_up["faultlab-mystery"].network.mtu = 1500
    assert faultlab("check", "mystery", "--later", "0").code == 0
    got = faultlab("diagnose", *words, "--sure", "100")
    assert "does not count: a check has passed already" in got.out
    assert faultlab("debrief", "mystery", "--json").code == 0
    assert faultlab("down", "mystery").code == 0
    told = json.loads(faultlab("progress", "--json").out)
    assert told["certainty"] is None, "the last answer came after the repair"
    assert [one["state"] for one in told["labs"] if one["lab"] == "mtu"] == ["solved"]

    assert faultlab("start", "mtu", "--blind").code == 0
    faultlab("diagnose", *words[:-1], "gzip", "--sure", "70")
    got = faultlab("debrief", "mystery", "--give-up")
    assert "You were 70% sure of this, and wrong. Of all mysteries so far:" in got.out
    assert "- You were 70% sure on average, and right in 0% of 1 answer." in got.out
    told = json.loads(faultlab("debrief", "mystery", "--json").out)
    assert told["sure"] == 70
    assert told["certainty"] == {"answers": 1, "sure": 70.0, "right": 0.0, "brier": 0.49}
    faultlab("down", "mystery")
    assert faultlab("start", "mtu", "--blind").code == 0
    faultlab("diagnose", *words, "--sure", "90")
    faultlab("down", "mystery")
    assert json.loads(faultlab("progress", "--json").out)["certainty"]["brier"] == 0.25
    got = faultlab("progress", "--page", str(project.root / "progress.html"))
    assert "- Brier score 0.25: 0 is best, and 0.25 is what 50% always gives." in got.out
    assert "Brier score 0.25" in (project.root / "progress.html").read_text()


@pytest.mark.parametrize("sure", ["101", "-1", "often", "50.5", "nan"])
def test_a_certainty_that_is_none_is_refused(sure: str, faultlab: Run) -> None:
    words = ("--component", "web", "--resource", "network", "--cause", "mtu")
    got = faultlab("diagnose", *words, "--sure", sure)
    assert got.code == 2 and len(got.err.splitlines()) == 2 and "--sure" in got.err


def test_old_records_do_not_spoil_the_certainty(project: Project) -> None:
    """A lab can be gone since, or have fewer hints."""
    said = answer(sure=50), {"t": 61.0, "event": "hint", "number": 99}, SHOWN
    events = [{"t": 1.0, "event": "ready"}, *said]
    for number, lab in enumerate(("mtu", "no-such-lab")):
        name = f"20260101-00000{number}-mystery-abcd"
        project.run(name, lab=lab, stack="faultlab-mystery", events=events)
    found = mystery.certainties()
    assert found is not None and (found.answers, found.brier) == (1, 0.25)


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
