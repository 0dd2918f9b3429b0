"""Blocks of a class: its file, what opens when, and what is prepared meanwhile."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal
from faultlab.lab import loader as labs
from faultlab.workshop import blocks, export, plan, size, verbs, view
from faultlab.workshop.access import TRAINER
from faultlab.workshop.folder import Folder
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import Roster
from faultlab.workshop.timetable import begins, clock
from tests.unit.conftest import Project, Run
from tests.unit.fake import FakeEngine, engines
from tests.unit.served import RIGHT, Fake, Happened, Served, planned, served
from tests.waiting import until

BLOCKS: list[dict[str, Any]] = [
    {"title": "Packets", "minutes": 30, "labs": ["mtu"], "blind": False},
    {"title": "Coffee", "minutes": 15, "pause": True},
    {"title": "Queues", "minutes": 60, "labs": ["somaxconn"], "hints": 1},
]
CLASS = """
title = "Tuesday"
seats = ["Ada", "Grace", "Linus"]
[[block]]
title   = "Packets"
minutes = 30
labs    = ["mtu"]
blind   = false
[[block]]
title   = "Coffee"
minutes = 15
pause   = true
[[block]]
title   = "Blind"
minutes = 45
[block.draw]
count = 2
tier  = "web"
"""


def of_blocks(**facts: Any) -> ClassPlan:
    return planned(**{"labs": [], "block": BLOCKS, **facts})


def roster(*events: Happened, **facts: Any) -> Roster:
    found = Roster(of_blocks(**facts), [["mtu", "somaxconn"]] * 3)
    for t, what, more in events:
        found.apply({"t": t, "event": what, **more})
    return found


def test_a_plan_of_blocks(tmp_path: Path) -> None:
    file = tmp_path / "class.toml"
    file.write_text(CLASS)
    found = plan.read(str(file))
    assert found.blocks_of_turns == [1, 3, 3]
    assert [found.is_blind(block) for block in (0, 1, 3)] == [True, False, True]
    assert found.named == ["mtu"] and (found.opens, found.grace) == ("by hand", 3)
    assert list(map(clock, begins(found.block))) == ["0:00", "0:30", "0:45"]
    running = set(labs.ids())
    drawn = [found.turns(seat, running) for seat in (1, 2, 3)]
    assert all(len(its) == 3 and its[0] == "p02" and "mtu" not in its[1:] for its in drawn)
    assert len({tuple(its) for its in drawn}) == 3


def test_a_draw_leaves_out_what_an_earlier_one_gave() -> None:
    draw = {"count": 2, "seed": 3, "tier": "web"}
    twice = [{"title": title, "minutes": 9, "draw": draw} for title in ("A", "B")]
    for seat in range(1, 8):
        its = planned(labs=[], block=twice).turns(seat, set(labs.ids()))
        faults = [lab_id for lab_id in its if not labs.load(lab_id).control]
        assert len(its) == 4 and len(set(faults)) == len(faults), its


BREAK = '[[block]]\ntitle = "x"\nminutes = 5\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CLASS.replace("minutes = 30", "minutes = 0"), "block[0].minutes: expected greater than 0"),
        (CLASS.replace("minutes = 30", ""), "block[0].minutes: missing key"),
        (CLASS.replace('"Packets"', '""'), "block[0].title: "),
        (CLASS.replace('"Packets"', r'"\u001b[2J"'), "block[0]: title, note: expected printable"),
        (CLASS.replace("blind   = false", "blnd = 1"), "block[0].blnd: unknown key"),
        (
            CLASS.replace('labs    = ["mtu"]', ""),
            "block[0]: expected one of labs, [block.draw] and",
        ),
        (CLASS.replace('["mtu"]', '["mtv"]'), "block[0].labs: There is no lab called 'mtv'; did"),
        (
            CLASS + BREAK + "pause = true\nlabs = ['mtu']",
            "block[3]: labs: expected no such key in a",
        ),
        (
            CLASS + BREAK + "pause = true\nblind = true",
            "block[3]: blind: expected no such key in a",
        ),
        (CLASS.replace("count = 2", ""), "block[2].draw.count: missing key"),
        (CLASS.replace('"web"', '"moon"'), "block[2].draw: No lab is of tier moon"),
        (
            CLASS.replace("[[block]]", 'labs = ["mtu"]\n[[block]]', 1),
            "expected one of labs, [draw]",
        ),
        (
            CLASS.split("[[block]]", maxsplit=1)[0] + BREAK + "pause = true",
            "block: expected one that has labs",
        ),
        ("hours = 1\n" + CLASS, "hours: expected as many as all blocks take, or more"),
        ("opens = 'soon'\n" + CLASS, "opens: expected 'by hand' or 'by the clock', got 'soon'"),
        ("grace = -1\n" + CLASS, "grace: expected greater than or equal to 0, got -1"),
    ],
)
def test_a_mistake_in_a_block(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "class.toml"
    file.write_text(text)
    with pytest.raises(BadInput, match=re.escape(said)) as caught:
        plan.read(str(file))
    assert caught.value.message.startswith(f"{file}: ") and "\n" not in caught.value.message


def test_too_few_labs_for_a_draw_of_a_block(tmp_path: Path) -> None:
    file = tmp_path / "class.toml"
    file.write_text(CLASS)
    with pytest.raises(BadInput, match=r"^block\[2\]\.draw\.count: expected at most 1: only so"):
        plan.read(str(file)).turns(1, {"mtu", "gzip"})


def test_what_follows_from_the_events_of_blocks() -> None:
    """A lab that is ready waits for its block; the clock of the block runs without pauses."""
    one: dict[str, Any] = {"seat": 1}
    events: list[Happened] = [
        (0.0, "starting", one),
        (10.0, "ready", one),
        (100.0, "block opened", {"block": 1}),
        (200.0, "starting", {**one, "turn": 2}),
        (210.0, "ready", {**one, "turn": 2}),
        (300.0, "paused", {}),
        (400.0, "resumed", {}),
    ]
    assert roster(*events[:2]).seat(1).turn.state == "prepared"
    assert roster(*events[:2]).timetable.left(50) is None
    found = roster(*events)
    seat, table = found.seat(1), found.timetable
    assert [turn.state for turn in seat.turns] == ["red", "prepared"]
    assert (seat.turn.seconds(500.0), table.seconds(500.0), table.left(500.0)) == (300, 300, 1500)
    assert not found.can_go_on(seat) and not found.is_behind(seat)
    found.apply({"t": 500.0, "event": "opened", "alive": 450.0})
    assert table.seconds(500.0) == 250
    found.apply({"t": 600.0, "event": "block opened", "block": 2})
    assert found.is_behind(seat) and found.following(seat) == 1 and not found.can_go_on(seat)
    found.apply({"t": 700.0, "event": "moved on", "seat": 1, "to": 2})
    assert (seat.at, seat.turn.state, seat.turn.since) == (1, "prepared", None)
    found.apply({"t": 800.0, "event": "block opened", "block": 3})
    assert (seat.turn.state, seat.turn.since, found.is_behind(seat)) == ("red", 800.0, False)
    found.apply({"t": 900.0, "event": "ended"})
    assert table.seconds(999.0) == 100


def test_a_seat_that_is_late_leaves_out_what_is_over() -> None:
    two = [{"title": "A", "minutes": 9, "labs": ["mtu", "gzip"]}, BLOCKS[2]]
    found = Roster(of_blocks(block=two), [["mtu", "gzip", "somaxconn"]] * 3)
    seat = found.seat(1)
    found.apply({"t": 0.0, "event": "block opened", "block": 1})
    assert found.following(seat) == 1
    found.apply({"t": 1.0, "event": "block opened", "block": 2})
    assert found.following(seat) == 2
    found.apply({"t": 2.0, "event": "moved on", "seat": 1, "to": 3})
    assert seat.turn.lab == "somaxconn"
    told = export.rows(found, 3.0)
    assert [(row["lab"], row["state"]) for row in told[:3]] == [
        ("mtu", "waiting"), ("gzip", "waiting"), ("somaxconn", "waiting"),
    ]  # fmt: skip


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Served]:
    """Serve a class whose second block is blind and comes right after the first."""
    with served(tmp_path, labs=[], block=[BLOCKS[0], BLOCKS[2]], grace=60) as it:
        yield it


def opened(it: Served, block: Any, who: int = TRAINER) -> int:
    return it.post(who, "/trainer/open", {"block": block}).status_code


def told(it: Served, seat: int = 1) -> dict[str, Any]:
    return view.seat(it.session, it.session.roster.seat(seat))


def test_a_seat_waits_for_the_first_block(day: Served) -> None:
    """Its lab is proven, and neither its ticket nor a terminal can be had before."""
    now = told(day)
    assert (now["state"], now["ticket"], now["machines"], now["title"]) == ("waiting", "", [], "")
    assert now["why"].startswith("The class has not begun yet")
    assert day.post(1, "/seat/1/check").status_code == 409
    assert day.status(1, "/seat/1/terminal/web") == 403
    assert opened(day, 1, who=1) == 403
    assert opened(day, 1) == 200
    now = told(day)
    assert (now["state"], now["class"], now["blind"]) == ("red", "Tuesday · Packets", False)
    assert "start page" in now["ticket"] and now["lab"] == "mtu"


def test_one_click_opens_one_block(day: Served) -> None:
    wrong = [2, "1", None, True, 1.5]
    assert [opened(day, block) for block in (*wrong, 1, 1)] == [*[400] * len(wrong), 200, 400]
    assert opened(day, 2) == 200 and opened(day, 3) == 400
    assert day.session.roster.timetable.at == 2
    day.post(TRAINER, "/trainer/end")
    assert opened(day, 3) == 409


def test_the_next_lab_is_prepared_while_the_seat_works(day: Served) -> None:
    """It has a stack of its own, is no part of the seat's page, and is there at once."""
    opened(day, 1)
    turns = day.session.roster.seat(1).turns
    until(lambda: [seat.turns[1].state for seat in day.session.roster.seats] == ["prepared"] * 3)
    assert turns[0].state == "red"
    assert (1, ("start", "somaxconn", "--blind", "--engine", "local")) in day.stacks.ran
    names = {day.stacks.name(day.session.roster.seat(1))}
    day.stacks.well.add(1)
    assert day.post(1, "/seat/1/check").status_code == 200
    now = told(day)
    assert now["debrief"]["lab"] == "mtu" and now["last"]
    assert now["advice"] == "You are done with this block. The next one is: Queues."
    refused = day.post(1, "/seat/1/next")
    assert (refused.status_code, "next block" in refused.json()["error"]) == (400, True)
    assert day.post(TRAINER, "/trainer/seat/1/next").status_code == 400
    count = len([words for _, words in day.stacks.ran if words[0] == "start"])
    opened(day, 2)
    now = told(day)
    assert now["advice"].startswith("Now: Queues. This lab ends in 60 minutes") and not now["last"]
    assert day.post(1, "/seat/1/next").status_code == 200
    day.wait(1, "red", at=1)
    names.add(day.stacks.name(day.session.roster.seat(1)))
    assert [name.rpartition("class-")[2] for name in sorted(names)] == ["1b1-mtu", "1b2-mystery"]
    assert count == len([words for _, words in day.stacks.ran if words[0] == "start"])
    now = told(day)
    assert (now["blind"], now["lab"], now["title"], now["advice"]) == (True, "", "", "")
    assert day.session.hints(day.session.roster.seat(1).turn) == 1


def test_a_seat_at_work_can_go_on_when_its_block_is_over(day: Served) -> None:
    opened(day, 1)
    assert day.post(2, "/seat/2/next").status_code == 400
    opened(day, 2)
    assert told(day, 2)["behind"]
    assert day.post(2, "/seat/2/next").status_code == 200
    day.wait(2, "red", at=1)
    row = export.rows(day.session.roster, day.session.journal.now())[1]
    assert (row["seat"], row["state"]) == (2, "red")


def test_what_seats_still_do_ends_after_the_grace(tmp_path: Path) -> None:
    """What they have reached counts. In a pause they wait, with the next lab ready."""
    with served(tmp_path, labs=[], block=BLOCKS, grace=0.01) as it:
        opened(it, 1)
        it.stacks.well.add(1)
        assert it.post(1, "/seat/1/check").status_code == 200
        opened(it, 2)
        for seat in (1, 2, 3):
            it.wait(seat, "prepared", at=1)
        now = told(it)
        assert now["why"] == "Now: Coffee. You get your next lab in the block after it."
        assert view.projector(it.session)["seats"][0]["points"] == 10
        shown = view.projector(it.session)["block"]
        assert (shown["pause"], shown["ready"], shown["title"]) == (True, 3, "Coffee")
        opened(it, 3)
        it.wait(1, "red", at=1)


def test_a_lab_that_cannot_be_removed_is_tried_once(tmp_path: Path) -> None:
    """Not each second for the rest of the day. The trainer can do it again."""
    with served(tmp_path, labs=[], block=[BLOCKS[0], BLOCKS[2]], grace=0.01) as it:
        opened(it, 1)
        until(lambda: all(seat.turns[1].state == "prepared" for seat in it.session.roster.seats))
        it.stacks.outcome = type(it.stacks.outcome)(3, {}, "Docker is away.")
        opened(it, 2)
        until(lambda: all(seat.turn.state == "failed" for seat in it.session.roster.seats))
        time.sleep(0.5)  # some ticks
        failed = [each for each in it.session.journal.events if each["event"] == Event.FAILED]
        assert len(failed) == 3, failed
        it.stacks.outcome = type(it.stacks.outcome)(0)
        assert it.post(TRAINER, "/trainer/seat/1/next").status_code == 200
        it.wait(1, "red", at=1)


def test_the_last_block_can_have_no_labs(tmp_path: Path) -> None:
    """Where no lab comes any more, the debrief opens."""
    with served(tmp_path, labs=[], block=[*BLOCKS[:1], BLOCKS[2], BLOCKS[1]], grace=0.01) as it:
        for block in (1, 2):
            opened(it, block)
        it.wait(3, "red", at=1)
        opened(it, 3)
        it.wait(3, "over", at=1)
        assert told(it, 3)["debrief"]["lab"] == "somaxconn"


def test_blocks_by_the_clock(tmp_path: Path) -> None:
    """The first is opened by hand, because a class is up before the day begins."""
    short = [{**BLOCKS[0], "minutes": 0.01}, BLOCKS[2]]
    with served(tmp_path, labs=[], block=short, opens="by the clock", grace=0.01) as it:
        assert it.session.roster.timetable.at == 0
        opened(it, 1)
        until(lambda: it.session.roster.timetable.at == 2)
        it.wait(1, "red", at=1)


def test_another_server_goes_on_with_the_block(tmp_path: Path) -> None:
    facts: dict[str, Any] = {"labs": [], "block": [BLOCKS[0], BLOCKS[2]], "grace": 60}
    with served(tmp_path, **facts) as it:
        opened(it, 1)
        until(lambda: all(seat.turns[1].state == "prepared" for seat in it.session.roster.seats))
    with served(tmp_path, **facts) as it:
        assert it.session.roster.timetable.at == 1
        assert [seat.turns[1].state for seat in it.session.roster.seats] == ["prepared"] * 3
        assert not [words for _, words in it.stacks.ran if words[0] == "start"]
    Journal(tmp_path / "events.jsonl").add(Event.STARTING, 2, turn=2)  # and killed meanwhile
    with served(tmp_path, **facts) as it:
        until(lambda: it.session.roster.seat(2).turns[1].state == "prepared")
        assert [words[:2] for _, words in it.stacks.ran] == [
            ("down", "mystery"), ("start", "somaxconn"),
        ]  # fmt: skip


def test_without_memory_a_lab_starts_when_its_block_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three labs of 30 MB are up, and there is room for one more in three quarters of 160 MB."""
    monkeypatch.setattr(size, "machine", lambda: 160)
    with served(tmp_path, labs=[], block=[BLOCKS[0], BLOCKS[2]], grace=60) as it:
        opened(it, 1)
        until(lambda: it.session.roster.seat(1).turns[1].state == "prepared")
        assert [seat.turns[1].state for seat in it.session.roster.seats[1:]] == ["waiting"] * 2
        opened(it, 2)
        assert it.post(3, "/seat/3/next").status_code == 200
        it.wait(3, "red", at=1)


def test_a_lab_that_could_not_be_prepared_is_started_again(day: Served) -> None:
    day.stacks.outcome = type(day.stacks.outcome)(3, {}, "too busy")
    opened(day, 1)
    until(lambda: day.session.roster.seat(1).turns[1].state == "failed")
    assert day.session.roster.seat(1).turn.state == "red", "the seat loses nothing by it"
    day.stacks.outcome = type(day.stacks.outcome)(0)
    opened(day, 2)
    assert day.post(1, "/seat/1/next").status_code == 200
    day.wait(1, "red", at=1)


def test_an_end_removes_what_was_prepared(day: Served) -> None:
    opened(day, 1)
    until(lambda: all(seat.turns[1].state == "prepared" for seat in day.session.roster.seats))
    del day.stacks.ran[:]
    day.post(TRAINER, "/trainer/end")
    assert [(n, *words) for n, words in day.stacks.ran] == [
        (n, "down", lab) for n in (1, 2, 3) for lab in ("mtu", "mystery")
    ]


def test_the_trainer_sees_what_a_seat_calls_its_lab_in_each_block(day: Served) -> None:
    opened(day, 1)
    (seat, *_) = view.roster(day.session)["seats"]
    assert seat["lab"] == "p02 mtu"
    assert day.session.roster.seat(1).turns[-1].known == "somaxconn", "its block is blind"


def test_the_lessons_of_a_blind_block_cannot_be_read_before(day: Served) -> None:
    opened(day, 1)
    assert day.session.lessons(day.session.roster.seat(1)) == frozenset({"mtu"})
    assert day.session.lessons(None) is None
    assert day.get(1, "/seat/1/read/labs/mtu/README.md").status_code == 200
    assert day.get(1, "/seat/1/read/labs/somaxconn/README.md").status_code == 404


def test_what_the_trainer_and_the_projector_see(day: Served) -> None:
    with day.events(TRAINER, "/trainer/events") as views:
        now = next(views)
        assert (now["block"]["number"], now["block"]["next"], now["block"]["ready"]) == (
            0, "Packets", 3,
        )  # fmt: skip
        opened(day, 1)
        day.stacks.well.add(2)
        assert day.post(2, "/seat/2/check").status_code == 200
        for now in views:
            if now["block"]["repaired"]:
                break
    it = now["block"]
    assert (it["title"], it["repaired"], it["labs"], it["done"], it["seats"]) == (
        "Packets", 1, 3, 1, 3,
    )  # fmt: skip
    assert 29 * 60 < it["left"] <= 30 * 60 and it["runs"]
    assert [(b["state"], b["begins"], b["labs"]) for b in now["blocks"]] == [
        ("open", "0:00", "mtu"), ("", "0:30", "somaxconn"),
    ]  # fmt: skip
    with day.events(TRAINER, "/projector/events") as views:
        wall = next(views)
    assert wall["block"]["repaired"] == 1 and "mtu" not in json.dumps(wall)
    for page in ("/trainer", "/projector"):
        assert 'id="block-clock"' in day.get(TRAINER, page).text
    day.post(TRAINER, "/trainer/pause")
    assert not view.projector(day.session)["block"]["runs"]


def test_a_class_without_blocks_has_none(tmp_path: Path) -> None:
    found = Roster(planned(), [["mtu", "somaxconn"]] * 3)
    assert blocks.told(found, 0.0) is None and blocks.timetable(found) == []
    assert found.can_go_on(found.seat(1)) and blocks.advice(found, found.seat(1), 0.0) == ""


def test_status_names_the_block(project: Project, faultlab: Run) -> None:
    (project.root / "class.toml").write_text(CLASS)
    folder = Folder("class")
    folder.make()
    its = of_blocks()
    journal = folder.journal()
    journal.add(Event.PLANNED, plan=its.model_dump(), labs=[["mtu", "somaxconn"]] * 3)
    assert "Block 0 of 3: none is open yet" in faultlab("class", "status").out
    journal.add(Event.BLOCK, block=1)
    folder.alive.touch()
    assert "Block 1 of 3: Packets, 30 of 30 minutes left" in faultlab("class", "status").out
    assert json.loads(faultlab("class", "status", "--json").out)["block"] == 1


def test_a_start_says_where_checks_will_wait(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engines(monkeypatch, local=FakeEngine)
    its = of_blocks(seats=[f"Seat {n}" for n in range(12)])
    journal = verbs._opened(Terminal(), its, "class.toml", Folder("class"))
    assert journal.events[0]["labs"] == [["p02", "somaxconn"]] * 12
    said = " ".join(capsys.readouterr().out.split())
    assert 'Note: block 3 ("Queues"): 12 seats check somaxconn, which sends load, one at' in said
    with pytest.raises(BadInput, match="has been changed since"):
        verbs._opened(Terminal(), of_blocks(), "class.toml", Folder("class"))


def test_an_answer_counts_in_a_blind_block_only(tmp_path: Path) -> None:
    session = Fake(tmp_path, labs=[], block=[BLOCKS[0], BLOCKS[2]])
    for turn, of in ((0, 10), (1, 40)):
        assert session.roster.score(session.roster.seat(1).turns[turn], 0.0).of == of
    assert RIGHT["cause"] == "mtu"
