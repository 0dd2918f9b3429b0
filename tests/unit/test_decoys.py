"""Decoys: what looks like a fault and harms no user, beside a fault or alone."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.errors import BadInput
from faultlab.core.naming import flat
from faultlab.lab import collection, decoys
from faultlab.lab import loader as labs
from faultlab.lab.model import Step
from faultlab.learn import mystery
from faultlab.run import digest, harmless
from faultlab.run.record import Record
from tests.unit.conftest import Project, Run

OURS = collection.ours()
EVERY = labs.decoy_ids(OURS)


def trial(decoy: str, lab: str, verdict: str = "harmless", **facts: Any) -> dict[str, Any]:
    """Return a trial as `decoys --prove` writes it, of the decoy and the lab as they are now."""
    now = digest.decoy(labs.decoy(OURS, decoy), labs.load(lab))
    row = {"decoy": decoy, "lab": lab, "verdict": verdict, "reason": "", "looks": 3}
    return row | {"seconds": 1.0, "run": "", "commit": "", "engine": "local", "digest": now} | facts


@pytest.fixture
def trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the file of trials be one that a test writes."""
    file = tmp_path / "decoys.json"
    monkeypatch.setattr(harmless, "FILE", str(file))
    return file


def write(file: Path, *rows: dict[str, Any]) -> None:
    file.write_text(json.dumps({"schema": 1, "trials": rows}))


def test_a_lab_with_decoys_is_the_lab_with_more_in_it() -> None:
    lab, bare = labs.load("mtu~old-overflow~web-alerts"), labs.load("mtu")
    assert [decoy.id for decoy in lab.decoys] == ["old-overflow", "web-alerts"]
    assert (lab.inject, lab.fix, lab.truth) == (bare.inject, bare.fix, bare.truth)
    assert lab.ticket.startswith(bare.ticket.strip()) and "half-open" in lab.ticket
    assert labs.here("mtu~old-overflow") and not labs.here("mtu~no-such")
    assert flat(lab.id) == "mtu-old-overflow-web-alerts"


def test_a_walk_of_a_lab_does_not_count_for_it_with_a_decoy() -> None:
    plain, other = digest.walk("mtu"), digest.walk("mtu~old-overflow")
    assert plain != other == digest.walk("mtu~old-overflow")
    assert digest.fault(labs.load("mtu")) != digest.fault(labs.load("mtu~web-alerts"))


@pytest.mark.parametrize("decoy_id", EVERY)
def test_each_decoy_has_labs_and_suggests_another_truth(decoy_id: str) -> None:
    decoy = labs.decoy(OURS, decoy_id)
    fit = [lab for lab in map(labs.load, labs.ours()) if not decoys.clash(decoy, lab)]
    assert len(fit) >= 2
    wrong = labs.suggested(fit[0], decoy).cause
    assert wrong not in {lab.truth.cause for lab in fit}


@pytest.mark.parametrize(
    ("lab", "why"),
    [
        ("mtu~mtu-1400", "it suggests the fault that is there"),
        ("mtu+gzip~mtu-1400", "it suggests the fault that is there"),
        ("mtu~slow-log-off", "it needs mysql"),
        ("pmtu-black-hole~mtu-1400", "it cannot be combined with pmtu-black-hole"),
        ("mtu~old-overflow~old-overflow", "another one suggests the same fault"),
        ("mtu~no-such", "There is no decoy 'no-such'"),
        ("mtu~php-workers@7", "Users feel php-workers@7"),
    ],
)
def test_a_decoy_that_cannot_be_there_is_refused(faultlab: Run, lab: str, why: str) -> None:
    got = faultlab("start", lab)
    assert got.code == 2 and why in got.err and "faultlab decoys" in got.err, got.err


def test_a_silent_severity_is_a_decoy(project: Project) -> None:
    rows = (
        '[[severity]]\nname = "1"\nsize = 1\n\n[[severity]]\nname = "2"\nsize = 2\nsilent = true\n'
    )
    project.change("labs/gzip/lab.toml", "[[inject]]", rows + "\n[[inject]]")
    step = '[[inject]]\nat = "web"\nrun = "echo @{size}"\n\n'
    project.change("labs/gzip/lab.toml", "[[inject]]", step + "[[inject]]")
    assert "gzip@2" in labs.decoy_ids(collection.ours())
    lab = labs.load("mtu~gzip@2")
    assert lab.decoys[0].steps[0] == Step(at="web", run="echo 2")
    assert lab.decoys[0].kind == "silent" and labs.suggested(lab, lab.decoys[0]).cause == "gzip"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('suggests = "mtu"', 'suggests = "mtv"', "suggests: expected one of"),
        ('kind     = "alarming"', 'kind     = "loud"', "kind: expected"),
        ("[[steps]]", "[[stops]]", "stops: unknown key"),
        ('not_with = ["pmtu-black-hole"', 'not_with = ["pmtu"', "not_with[0]: expected one of"),
    ],
)
def test_a_mistake_in_a_decoy_is_one_line(
    project: Project, faultlab: Run, old: str, new: str, says: str
) -> None:
    project.change("decoys/mtu-1400.toml", old, new)
    got = faultlab("decoys")
    assert got.code == 2 and "decoys/mtu-1400.toml" in got.err and says in got.err, got.err


def test_only_what_harmed_nobody_and_is_unchanged_is_drawn(trials: Path) -> None:
    lab = labs.load("mtu")
    assert harmless.proven(OURS) == []
    write(
        trials,
        trial("old-overflow", "healthy"),
        trial("refused-rule", "healthy"),
        trial("refused-rule", "busy", "felt"),
        trial("web-alerts", "healthy", digest="of another day"),
        trial("slow-log-off", "missing-index"),
    )
    assert [decoy.id for decoy in harmless.proven(OURS)] == ["old-overflow", "slow-log-off"]
    assert harmless.with_decoys(lab, 1, random.Random(1)).id == "mtu~old-overflow"
    with pytest.raises(BadInput, match="at most, not 2"):
        harmless.with_decoys(lab, 2, random.Random(1))


def test_what_cannot_be_drawn_is_said(faultlab: Run, trials: Path) -> None:
    write(trials, trial("old-overflow", "healthy"))
    got = faultlab("mystery", "--decoys", "2")
    assert got.code == 2 and "No lab here can have 2 false leads" in got.err
    assert faultlab("mystery", "--decoys", "-1").code == 2
    got = faultlab("start", "mtu", "--decoys", "1")
    assert got.code == 2 and "--blind" in got.err
    assert faultlab("decoys", "mtu-1400").code == 2
    trials.write_text("{")
    got = faultlab("decoys")
    assert got.code == 2 and "holds no trials" in got.err and "Traceback" not in got.err


def test_the_list_tells_what_was_tried(faultlab: Run, trials: Path) -> None:
    write(trials, trial("old-overflow", "healthy"), trial("old-overflow", "busy", "felt"))
    listed = faultlab("decoys").out
    assert "harmless on healthy" in " ".join(listed.split()) and "not tried" in listed
    assert "| old-overflow |" in faultlab("decoys", "--markdown").out


def answered(lab: str, *causes: str) -> mystery.Score:
    """Return the score of answers with these causes, each a new one."""
    said = [
        {"t": 1.0, "event": "answer", "component": "web", "resource": "network", "cause": cause}
        for cause in causes
    ]
    events = [{"t": 0.0, "event": "ready"}, *said]
    return mystery.scored(labs.load(lab), Record(Path("none"), {"events": events}))


def test_a_wrong_turn_into_a_decoy_costs_points() -> None:
    assert answered("mtu~old-overflow", "mtu").points == 30
    one = answered("mtu~old-overflow", "somaxconn", "mtu")
    assert (one.decoys, one.points) == (["old-overflow"], 30 - 5 - 5)
    twice = answered("mtu~old-overflow", "somaxconn", "somaxconn", "mtu")
    assert twice.points == 30 - 5 - 10
    assert answered("mtu", "somaxconn", "mtu").points == 30 - 5


def test_a_control_with_a_decoy_has_nothing_wrong() -> None:
    lab = labs.load("healthy~mtu-1400")
    assert lab.control and labs.suggested(lab, lab.decoys[0]).cause == "mtu"
