"""The path: the order of labs, what to take next, and what a learner has done so far."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

import pytest

from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal
from faultlab.lab import curriculum
from faultlab.lab import loader as labs
from faultlab.learn import progress
from faultlab.learn.progress import Next
from faultlab.run.record import Record
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
        ('["packet-loss"]', "needs itself, through"),
        ('["mtv"]', "healthy needs mtv, which is not a lab"),
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


GAVE_UP = {"t": 40.0, "event": "gave up"}
YES, NO = (
    {"t": 40.0, "event": "check", "fixed": True},
    {"t": 30.0, "event": "check", "fixed": False},
)
HINT = {"t": 20.0, "event": "hint"}


def on(project: Project, day: int, *events: dict[str, Any], lab: str = "mtu") -> None:
    """Record the run of a learner on a day of January."""
    began = f"2026-01-{day:02}T20:00:00.000+00:00"
    folder = f"202601{day:02}-{len([*Record.ids()]):06}-{lab}-abcd"
    counted = [{"t": 10.0, "event": "ready"}, *events]
    project.run(folder, stack=f"faultlab-{lab}", events=counted, started=began)


def told_on(day: int, *, month: int = 1, new: bool = False) -> Next:
    return progress.next_(Terminal(as_json=True), None, new=new, today=date(2026, month, day))


def test_what_was_given_up_comes_back_after_a_day(project: Project) -> None:
    on(project, 5, NO, GAVE_UP)
    on(project, 5, YES, lab="healthy")
    first = told_on(5)
    assert (first.lab, first.why) == ("mtu", None), "it is the next one on its way, not again"
    assert told_on(6).why == "You gave up on it yesterday."
    assert told_on(8).why == "You gave up on it 3 days ago."
    assert told_on(8, new=True).why is None


def test_each_success_makes_the_time_longer(project: Project) -> None:
    """After 1, 3, 7 and 21 days; then it comes back no more."""
    on(project, 1, NO, {"t": 41.0, "event": "fix"}, YES)
    on(project, 1, YES)  # the same evening: it is no success yet
    back = []
    for day in range(1, 32):
        if (told := told_on(day)).why:
            back.append((told.lab, day))
            on(project, day, YES)
    assert back == [("mtu", 2), ("mtu", 5), ("mtu", 12)]
    why = "You took the documented fix 32 days ago, and solved it 21 days ago."
    assert told_on(1, month=2).why is None and told_on(2, month=2).why == why
    project.run(
        "20260202-000000-mtu-abcd",
        stack="faultlab-mtu",
        events=[{"t": 10.0, "event": "ready"}, YES],
        started="2026-02-02T20:00:00.000+00:00",
    )
    assert told_on(28, month=12).why is None


def test_a_failure_begins_again(project: Project) -> None:
    on(project, 1, GAVE_UP)
    on(project, 2, YES)
    assert told_on(4).why is None
    on(project, 5, NO)
    assert told_on(6).why == "You did not repair it yesterday."


def test_many_hints_count_as_a_failure_and_few_do_not(project: Project) -> None:
    hints = len(labs.load("mtu").hint)
    on(project, 1, *[HINT] * hints, YES)
    assert told_on(2).why == f"You needed {hints} of its {hints} hints yesterday."
    on(project, 3, HINT, NO, YES, NO, GAVE_UP)  # what comes after it is solved does not count
    assert told_on(5).why is None and told_on(6).why is not None


def test_what_was_only_started_does_not_come_back(project: Project) -> None:
    on(project, 1)
    on(project, 1, {"t": 40.0, "event": "check", "fixed": True, "later": 3.0}, lab="gzip")
    assert told_on(9).why is None
    on(project, 2, YES, {"t": 300.0, "event": "later", "fixed": False}, lab="gzip")
    assert told_on(9).lab == "gzip", "a repair that did not last is a failure"


def test_the_longest_wait_comes_first_and_a_track_is_kept(project: Project, faultlab: Run) -> None:
    on(project, 3, GAVE_UP, lab="mtu")
    on(project, 2, GAVE_UP, lab="gzip")
    assert told_on(9).lab == "gzip"
    told = json.loads(faultlab("next", "--track", "packets", "--json").out)
    assert told["lab"] == "mtu" and told["why"].startswith("You gave up on it ")
    got = faultlab("next", "--track", "packets")
    assert "To go on instead: faultlab next --new" in got.out
    assert max(map(len, got.out.splitlines())) <= 80
    got = json.loads(faultlab("next", "--track", "packets", "--new", "--json").out)
    assert got["lab"] == "healthy" and "why" not in got
    assert faultlab("next", "--track", "queries").out.count("--new") == 0


def test_when_all_is_done_what_did_not_go_well_still_comes_back(
    project: Project, faultlab: Run
) -> None:
    for lab in curriculum.labs_in_order():
        on(project, 1, YES, lab=lab.id)
    assert "You have done every lab" in faultlab("next").out
    on(project, 2, GAVE_UP, lab="swap")
    assert json.loads(faultlab("next", "--json").out)["lab"] == "swap"
    assert "You have done every lab" in faultlab("next", "--new").out


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
