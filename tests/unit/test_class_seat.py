"""A seat of a class, from its link to its debrief, and its trainer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from faultlab.core.processes import Outcome
from faultlab.lab import loader as labs
from faultlab.workshop import (
    export,
    view,
)
from faultlab.workshop.access import TRAINER
from faultlab.workshop.journal import Event, Journal
from tests.unit.served import (
    RIGHT,
    Fake,
    Served,
    served,
)
from tests.waiting import until


def test_an_answer_names_several_faults(here: Served) -> None:
    more = labs.load("regex").truth.model_dump()
    assert here.post(1, "/seat/1/diagnose", {**RIGHT, "also": [more]}).status_code == 200
    assert here.session.roster.seat(1).turn.answers == [[RIGHT, more]]
    with here.events(1, "/seat/1/events") as views:
        told = next(views)
        assert told["answer"] == [RIGHT, more] and told["answers"] == 1
    amiss: tuple[object, ...] = ("mtu", [1], [{}], [{**more, "cause": "x"}], [more] * 3)
    for also in amiss:
        answer = here.post(1, "/seat/1/diagnose", {**RIGHT, "also": also})
        assert answer.status_code == 400, also
    assert len(here.session.roster.seat(1).turn.answers) == 1


def test_an_answer_says_how_sure_it_is(here: Served) -> None:
    """It counts before a repair, and is in the view, the journal and each export."""
    assert here.post(1, "/seat/1/diagnose", {**RIGHT, "sure": 80}).status_code == 200
    amiss: tuple[object, ...] = (-1, 101, "80", True, 50.5, [], {})
    for sure in amiss:
        answer = here.post(1, "/seat/1/diagnose", {**RIGHT, "sure": sure})
        assert answer.status_code == 400, sure
        assert answer.json()["error"] == "How sure you are is a number from 0 to 100."
    with here.events(1, "/seat/1/events") as views:
        assert next(views)["sure"] == 80
    assert here.session.journal.events[-1]["sure"] == 80
    here.stacks.well.add(1)
    assert here.post(1, "/seat/1/check").status_code == 200
    here.wait(1, "green")
    told = view.seat(here.session, here.session.roster.seat(1))
    assert (told["debrief"]["sure"], told["debrief"]["points"]) == (80, 40)
    rows = here.get(TRAINER, "/export.json").json()["turns"]
    assert [row["sure"] for row in rows] == [80, None, None]
    table = here.get(TRAINER, "/export.csv").text.splitlines()
    assert table[0].endswith("cause,sure,points,of") and table[1].endswith("True,80,40,40")
    here.stacks.well.add(2)
    assert here.post(2, "/seat/2/check").status_code == 200
    here.wait(2, "green")
    assert here.post(2, "/seat/2/diagnose", {**RIGHT, "sure": 100}).status_code == 200
    assert here.session.roster.seat(2).turn.sure is None, "all are sure after a repair"


def test_a_seat_from_the_link_to_the_debrief(here: Served) -> None:
    with httpx.Client(base_url=here.url, headers={"origin": here.url}) as page:
        assert page.get("/seat/1").status_code == 401
        answer = page.get(f"/join?token={here.keys.token(1)}", follow_redirects=True)
        assert (answer.status_code, answer.url.path) == (200, "/seat/1")
        cookie = answer.history[0].headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=lax" in cookie
        assert page.get("/", follow_redirects=False).headers["location"] == "/seat/1"
        with here.events(1, "/seat/1/events") as views:
            first = next(views)
            assert (first["state"], first["turn"], first["turns"]) == ("red", 1, 2)
            assert "mtu" not in json.dumps({**first, "terms": ""})
            assert page.post("/seat/1/hint").status_code == 200
            assert len(next(views)["hints"]) == 1
            assert page.post("/seat/1/check").status_code == 200
            assert page.post("/seat/1/next").status_code == 400  # first the debrief
            assert page.post("/seat/1/diagnose", json={**RIGHT, "cause": "x"}).status_code == 400
            assert page.post("/seat/1/diagnose", json=RIGHT).status_code == 200
            here.stacks.well.add(1)
            assert page.post("/seat/1/check").status_code == 200
            for told in views:
                if told["debrief"]:
                    break
        assert told["debrief"]["lab"] == "mtu" and told["debrief"]["points"] == 39
        assert all(told["debrief"]["right"].values())
        assert page.post("/seat/1/diagnose", json=RIGHT).status_code == 409  # too late
        assert page.post("/seat/1/next").status_code == 200
        here.wait(1, "red", at=1)
        assert here.stacks.ran[-1][1] == ("start", "somaxconn", "--blind", "--engine", "local")
        assert page.post("/seat/1/give-up").status_code == 200
        assert page.post("/seat/1/next").status_code == 400  # the last one


LATE = ("check", "mystery", "--later", "0.01", "--late")


@pytest.fixture
def again(tmp_path: Path) -> Iterator[Served]:
    """A class of three that looks at a repair again after 0.6 s. Seat 1 has repaired its lab."""
    with served(tmp_path, later=0.01) as it:
        it.stacks.slow = 0.3
        it.stacks.well.add(1)
        assert it.post(1, "/seat/1/check").status_code == 200
        it.wait(1, "amber")
        yield it


def test_a_repair_that_lasts(again: Served) -> None:
    """It is no point until it was looked at again, and the seat can read and answer meanwhile."""
    told = view.seat(again.session, again.session.roster.seat(1))
    assert (told["state"], told["debrief"], told["machines"][0]) == ("amber", None, "client")
    assert told["why"] == "repaired; looked at again in 0.6 seconds" and told["again"] <= 0.6
    assert again.post(1, "/seat/1/check").status_code == 409
    assert again.post(1, "/seat/1/next").json()["error"].startswith("The next lab comes after")
    assert again.post(1, "/seat/1/diagnose", RIGHT).status_code == 200
    assert view.projector(again.session)["seats"][0]["points"] == 30
    again.wait(1, "green")
    assert again.stacks.ran[-1] == (1, LATE)
    told = view.seat(again.session, again.session.roster.seat(1))
    assert (told["debrief"]["points"], told["checks"], told["why"]) == (40, 1, "")


def test_a_repair_that_does_not_last(again: Served) -> None:
    """The lab is open again, and the time in between is not the learner's."""
    clock = again.session.roster.seat(1).turn.ran
    again.stacks.well.clear()
    until(lambda: again.session.roster.seat(1).turn.why == "It was repaired, but not for good.")
    again.wait(1, "red")
    turn = again.session.roster.seat(1).turn
    assert (turn.ran, turn.again) == (clock, None)
    assert turn.since is not None
    again.stacks.well.add(1)
    assert again.post(1, "/seat/1/check").status_code == 200
    again.wait(1, "green")


def test_a_repair_that_cannot_be_looked_at_again_counts(again: Served) -> None:
    again.stacks.outcome = Outcome(3, {}, "too busy")
    again.wait(1, "green")
    assert again.session.roster.seat(1).turn.why == "Not looked at again: too busy"
    assert [words for _, words in again.stacks.ran].count(LATE) == 3


@pytest.mark.parametrize("path", ["/trainer/seat/1/next", "/trainer/end"])
def test_a_trainer_does_not_wait_for_a_late_look(again: Served, path: str) -> None:
    """What they end or move on counts as it is."""
    again.post(TRAINER, path)
    until(lambda: again.session.roster.seat(1).turns[0].state == "green")
    assert LATE not in [words for _, words in again.stacks.ran]


def test_the_trainer_sees_it_at_once(here: Served) -> None:
    with here.events(TRAINER, "/trainer/events") as views:
        assert [seat["state"] for seat in next(views)["seats"]] == ["red"] * 3
        began = time.monotonic()
        assert here.post(2, "/seat/2/give-up").status_code == 200
        for told in views:
            if told["seats"][1]["state"] == "over":
                break
        assert time.monotonic() - began < 2
    assert told["seats"][0]["name"] == "Ada" and told["seats"][0]["lab"] == "mtu"
    with here.events(TRAINER, "/projector/events") as views:
        wall = json.dumps(next(views))
    assert "Ada" not in wall and "mtu" not in wall
    assert here.post(TRAINER, "/trainer/pause").status_code == 200
    assert here.post(1, "/seat/1/check").status_code == 409
    assert here.post(TRAINER, "/trainer/resume").status_code == 200
    assert here.post(TRAINER, "/trainer/seat/1/next").status_code == 200
    here.wait(1, "red", at=1)
    assert here.post(TRAINER, "/trainer/seat/3/restore").status_code == 200
    for kind in export.KINDS:
        assert "Grace" in here.get(TRAINER, f"/export.{kind}").text
    assert here.get(TRAINER, "/export.pdf").status_code == 404
    assert here.post(TRAINER, "/trainer/end").status_code == 200
    assert here.session.roster.ended
    assert [words for _, words in here.stacks.ran[-3:]] == [("down", "mystery")] * 3


def test_a_double_click_is_one(here: Served) -> None:
    here.post(1, "/seat/1/give-up")
    here.stacks.slow = 0.3
    codes = sorted(here.post(1, "/seat/1/next", {"turn": 1}).status_code for _ in range(3))
    assert codes == [200, 409, 409]
    here.wait(1, "red")
    assert here.session.roster.seat(1).at == 1
    assert here.post(1, "/seat/1/hint", {"turn": 1}).status_code == 409  # a page that is late
    assert here.session.roster.seat(1).turn.hints == []


def test_an_end_does_not_wait_for_a_check(here: Served) -> None:
    here.stacks.slow = 0.5
    codes: list[int] = []
    checking = threading.Thread(
        target=lambda: codes.append(here.post(1, "/seat/1/check").status_code)
    )
    here.stacks.well.add(1)
    checking.start()
    until(lambda: here.stacks.ran[-1][1][0] == "check")
    here.stacks.slow = 0.01  # of what comes now
    assert here.post(TRAINER, "/trainer/end").status_code == 200
    checking.join()
    assert here.session.roster.ended
    assert here.session.roster.seat(1).turn.state == "red"  # what came after the end does not count
    assert here.post(2, "/seat/2/next").status_code == 409
    assert here.post(TRAINER, "/trainer/seat/2/restore").status_code == 409
    assert here.post(TRAINER, "/trainer/end").status_code == 200


def test_time_is_over(tmp_path: Path) -> None:
    with served(tmp_path, minutes=0.01) as it:
        it.wait(1, "over")
        assert it.session.roster.seat(1).turn.why == "time over"


def test_a_check_that_was_asked_for_in_time_counts(tmp_path: Path) -> None:
    Journal(tmp_path / "events.jsonl").add(Event.READY, 1)
    session = Fake(tmp_path, minutes=1)
    seat = session.roster.seat(1)
    late = time.time() + 61
    session.doing[1] = "measuring"
    session.tick(late)
    assert seat.turn.state == "red"
    session.doing.clear()
    session.tick(late)
    assert (seat.turn.state, seat.turn.why) == ("over", "time over")
