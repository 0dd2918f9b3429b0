"""The path: the order of labs, what to take next, and what a learner has done so far."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from faultlab.core.errors import BadInput
from faultlab.lab import curriculum
from tests.unit.conftest import Project, Run


def run(project: Project, lab: str, *events: dict[str, Any], number: int = 1, **facts: Any) -> None:
    """Record the run of a learner: a ticket after ten seconds, and what came then."""
    counted = [{"t": 10.0, "event": "ready"}, *events]
    stack = facts.pop("stack", f"faultlab-{lab}")
    project.run(f"20260101-0000{number:02}-{lab}-abcd", stack=stack, events=counted, **facts)


def at(t: float, event: str, **facts: Any) -> dict[str, Any]:
    return {"t": t, "event": event, **facts}


def taken(faultlab: Run, lab: str) -> dict[str, Any]:
    labs = json.loads(faultlab("progress", "--json").out)["labs"]
    (found,) = [one for one in labs if one["lab"] == lab]
    assert isinstance(found, dict)
    return found


def test_each_lab_comes_after_what_it_needs() -> None:
    seen: set[str] = set()
    tracks: list[str] = []
    for lab in curriculum.labs_in_order():
        assert {*lab.needs} <= seen, lab.id
        seen.add(lab.id)
        tracks += [lab.track] if lab.track not in tracks else []
    assert tracks == curriculum.tracks()


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ('["packet-loss"]', "needs itself, by way of"),
        ('["mtv"]', "healthy needs mtv, which is no lab"),
    ],
)
def test_needs_that_cannot_be_met(needs: str, said: str, project: Project, faultlab: Run) -> None:
    project.change("labs/healthy/lab.toml", "track ", f"needs = {needs}\ntrack ")
    with pytest.raises(BadInput, match=said):
        curriculum.labs_in_order()
    assert faultlab("next").code == 2


def test_the_first_lab(project: Project, faultlab: Run) -> None:
    assert faultlab("next").out.endswith("Next: make lab-p01\n")
    assert json.loads(faultlab("next", "--json", "--track", "bytes").out)["lab"] == "gzip"
    assert faultlab("next", "--track", "bits").code == 2


def test_what_was_done(project: Project, faultlab: Run) -> None:
    hint, no, yes = at(20, "hint"), at(30, "check", fixed=False), at(130, "check", fixed=True)
    run(project, "mtu", hint, no, no, yes, at(140, "check", fixed=False))
    assert taken(faultlab, "mtu") == {
        **{"lab": "mtu", "title": "The port answers, the page never comes", "track": "packets"},
        **{"state": "solved", "seconds": 120.0, "hints": 1, "false_checks": 2},
        **{"run": "20260101-000001-mtu-abcd", "number": 2, "code": "p02"},
    }
    run(project, "mtu", at(40, "check", fixed=True), number=2)
    assert (taken(faultlab, "mtu")["seconds"], taken(faultlab, "mtu")["hints"]) == (30.0, 0)
    run(project, "gzip", no, at(50, "fix"), yes)
    run(project, "swap", no)
    states = [taken(faultlab, lab)["state"] for lab in ("gzip", "swap", "healthy")]
    assert states == ["shown", "tried", "new"]
    assert re.search(r"(?m)^p02 mtu +solved  1 min", faultlab("progress").out)


def test_a_late_look_overrules_the_check_before_it(project: Project, faultlab: Run) -> None:
    """The time is that of the check, and a repair that did not last is a failed check."""
    held, yes = at(130, "check", fixed=True, later=3.0), at(130, "check", fixed=True)
    run(project, "mtu", held)
    assert taken(faultlab, "mtu")["state"] == "tried"
    run(project, "mtu", held, at(320, "later", fixed=True), at(330, "hint"), number=2)
    one = taken(faultlab, "mtu")
    assert (one["state"], one["seconds"], one["hints"]) == ("solved", 120.0, 0)
    run(project, "gzip", yes, held, at(320, "later", fixed=False))
    one = taken(faultlab, "gzip")
    assert (one["state"], one["false_checks"]) == ("tried", 1)
    again = at(400, "check", fixed=True)
    run(project, "gzip", held, at(320, "later", fixed=False), at(330, "hint"), again, number=2)
    one = taken(faultlab, "gzip")
    assert (one["state"], one["seconds"], one["hints"]) == ("solved", 390.0, 1)


def test_what_is_no_run_of_a_learner_here(project: Project, faultlab: Run) -> None:
    """A walk of `verify`, a seat of a class, a copy of another user, a record that is damaged."""
    yes = at(130, "check", fixed=True)
    run(project, "mtu", yes, stack="faultlab-math-1-mtu")
    run(project, "gzip", yes, stack="faultlab-verify-gzip")
    project.run("20260101-000003-swap-abcd", stack="faultlab-swap", events=[yes])
    (project.run("20260101-000004-busy-abcd", stack="faultlab-busy") / "run.json").write_text("{")
    labs = json.loads(faultlab("progress", "--json").out)["labs"]
    assert {one["state"] for one in labs} == {"new"}


def test_a_mystery_is_not_told_before_its_end(project: Project, faultlab: Run) -> None:
    yes = at(130, "check", fixed=True)
    run(project, "mtu", yes, stack="faultlab-mystery")
    assert taken(faultlab, "mtu")["state"] == "new"
    run(project, "mtu", yes, at(140, "down"), stack="faultlab-mystery", number=2)
    assert taken(faultlab, "mtu")["state"] == "solved"


def test_what_comes_next(project: Project, faultlab: Run) -> None:
    yes = at(130, "check", fixed=True)
    run(project, "missing-index", yes)
    told = json.loads(faultlab("next", "--json").out)
    assert (told["lab"], told["track"], told["done"]) == ("repeat-queries", "queries", 1)
    for number, lab in enumerate(
        (lab for lab in curriculum.labs_in_order() if lab.track == "bytes"), 2
    ):
        run(project, lab.id, yes, number=number)
    assert json.loads(faultlab("next", "--json").out)["lab"] == "healthy"
    assert "make mystery" in faultlab("next", "--track", "bytes").out
    run(project, "iptables-drop", yes, number=29)
    assert json.loads(faultlab("next", "--json").out)["lab"] == "healthy"


def test_a_page(project: Project, faultlab: Run) -> None:
    run(project, "mtu", at(130, "check", fixed=True))
    file = project.root / "progress.html"
    assert faultlab("progress", "--page", str(file)).code == 0
    page = file.read_text()
    for words in (f"1 of {len(curriculum.labs_in_order())} labs solved", "Queues and ports", "<td"):
        assert words in page
    assert faultlab("progress", "--page", str(project.root / "nowhere/x.html")).code == 2


def test_the_list_can_be_narrowed(project: Project, faultlab: Run) -> None:
    run(project, "mtu")

    def listed(*words: str) -> list[str]:
        return [lab["id"] for lab in json.loads(faultlab("list", *words, "--json").out)]

    new = listed("--new")
    assert "mtu" in listed() and "mtu" not in new and len(new) == len(listed()) - 1
    of_web = listed("--tier", "web")
    assert {"mtu", "gzip"} <= {*of_web} and "heap-oom" not in of_web
    assert "mtu" in listed("--level", "2") and "time-wait" not in listed("--level", "2")
    assert faultlab("list", "--tier", "moon").code == 2


def test_nothing_new_is_left(project: Project, faultlab: Run) -> None:
    for number, lab in enumerate(curriculum.labs_in_order()):
        run(project, lab.id, number=number)
    assert faultlab("list", "--new").out.endswith("Next: make progress\n")
