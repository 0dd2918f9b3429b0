"""What a page says between two checks: the part it is at, what has changed, what a repair took."""

from __future__ import annotations

import asyncio
from math import inf
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.events import Kind, Moment, Step
from faultlab.core.processes import Outcome
from faultlab.engine.docker.docker_list import Part
from faultlab.run import looks
from faultlab.run.phase import CHECK
from faultlab.workshop import changes, stacks, view
from faultlab.workshop.journal import Event
from tests.unit.served import RIGHT, Fake


def row(value: float, holds: bool | None, wanted: str = "at most 10 s") -> dict[str, Any]:
    return {"name": "page", "value": value, "unit": "s", "wanted": wanted, "holds": holds}


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (row(90, False), row(5, True), "better"),
        (row(5, True), row(90, False), "worse"),
        (row(5, True), row(9, True), "same"),
        (row(90, False), row(40, False), "better"),
        (row(40, False), row(90, False), "worse"),
        (row(90, False), row(80, False), "same"),  # two looks at one stack differ as much
        (row(0, False, "at least 100"), row(40, False, "at least 100"), "better"),
        (row(28, False, "exactly 0"), row(7, False, "exactly 0"), "better"),
        (row(28, False, "exactly 0"), row(28, False, "exactly 0"), "same"),
        (row(7, False, "exactly 100 %"), row(1, False, "exactly 100 %"), "worse"),
        (row(inf, False), row(inf, False), "same"),
        (row(40, None), row(5, True), "better"),  # a check whose limits are not known any more
    ],
)
def test_a_row_is_better_worse_or_the_same(
    was: dict[str, Any], now: dict[str, Any], said: str
) -> None:
    assert changes.change(now, was) == said


def test_each_row_has_what_it_was() -> None:
    two = [{**row(1, True), "name": "a"}, {**row(99, False), "name": "b"}]
    assert changes.since(two, []) == two, "the first check has nothing to compare with"
    told = changes.since(two, [{**row(50, False), "name": "a"}])
    assert [(each["name"], each["change"], each.get("was")) for each in told] == [
        ("a", "better", 50),
        ("b", "new", None),
    ]
    assert changes.between(two[1:], [{**two[1], "value": 3}, two[0]]) == [
        {"name": "b", "unit": "s", "was": 99, "now": 3}
    ]


def checked(session: Fake, *values: float) -> dict[str, Any]:
    for value in values:
        holds = value <= 10
        session.note(Event.CHECKED, 1, fixed=holds, findings=[row(value, holds)])
    return view.seat(session, session.roster.seat(1))


def ready(folder: Path, **facts: Any) -> Fake:
    session = Fake(folder, **facts)
    session.note(Event.READY, 1)
    return session


def test_a_check_is_compared_with_the_one_before(tmp_path: Path) -> None:
    session = ready(tmp_path)
    assert "change" not in checked(session, 90)["findings"][0]
    session.note(Event.CHECKED, 1, fixed=False, findings=[], why="Docker is away.")
    (found,) = checked(session, inf)["findings"]
    assert (found["value"], found["was"], found["change"]) == ("inf", 90, "worse")
    session.note(Event.STARTING, 1)
    session.note(Event.READY, 1)
    assert "change" not in checked(session, 80)["findings"][0], "a fresh stack was not checked yet"


def test_what_a_repair_took(tmp_path: Path) -> None:
    """Points are told when nothing is hidden any more."""
    session = ready(tmp_path)
    assert checked(session, 90, 40)["success"] is None
    it = checked(session, 5)["success"]
    assert (it["checks"], it["hints"], it["points"], it["of"]) == (3, 0, None, None)
    assert it["rows"] == [{"name": "page", "unit": "s", "was": 90, "now": 5}]
    session.note(Event.ANSWERED, 1, answer=RIGHT)
    it = view.seat(session, session.roster.seat(1))["success"]
    assert (it["points"], it["of"]) == (40, 40)


def test_a_repair_before_the_first_check_is_compared_with_the_start(tmp_path: Path) -> None:
    session = Fake(tmp_path, blind=False)
    session.note(Event.READY, 1, findings=[row(70, True, "at least 50")])
    assert checked(session, 5)["success"]["rows"][0]["was"] == 70


def test_who_gives_up_has_no_success(tmp_path: Path) -> None:
    session = ready(tmp_path)
    session.note(Event.GAVE_UP, 1)
    assert view.seat(session, session.roster.seat(1))["success"] is None


@pytest.mark.parametrize(
    ("event", "text", "said"),
    [
        (Kind.BEGIN, "measuring", "part 1 of 3: measuring what its users meet"),
        (Kind.DOING, looks.ANSWERS, f"part 2 of 3: {looks.ANSWERS}"),
        (Kind.DOING, looks.PROGRAMS, f"part 3 of 3: {looks.PROGRAMS}"),
        (Kind.DOING, "again: mtu: page: measured 7 s", stacks.AGAIN),
    ],
)
def test_a_check_says_which_part_it_is_at(event: Moment, text: str, said: str) -> None:
    """In no words of the command line, which can name a lab."""
    assert stacks.part_of(Step(event, CHECK, text)) == said


def test_a_seat_sees_the_parts_and_what_the_last_look_took(tmp_path: Path) -> None:
    session, seen = ready(tmp_path), []
    seat = session.roster.seat(1)

    async def both() -> None:
        session.stacks.steps = [
            Step(Kind.BEGIN, CHECK, "measuring"),
            Step(Kind.DOING, CHECK, looks.ANSWERS),
            Step(Kind.STEP, CHECK, "measured", 7.5),
        ]
        for _ in range(2):
            asking = asyncio.create_task(session.check(seat))
            while not asking.done():
                shown = view.seat(session, seat)
                if (now := (shown["doing"], shown["usual"])) not in seen:
                    seen.append(now)
                await asyncio.sleep(0)

    asyncio.run(both())
    first, second = "part 1 of 3: measuring what its users meet", f"part 2 of 3: {looks.ANSWERS}"
    assert [each for each in seen if each[0].startswith("part")] == [
        *((first, 0.0), (second, 0.0)),
        *((first, 7.5), (second, 7.5)),
    ]
    assert view.seat(session, seat)["usual"] == 0.0


def test_a_start_tells_how_long_a_look_takes(tmp_path: Path) -> None:
    session = ready(tmp_path)
    seat, run = session.roster.seat(1), session.stacks.run

    async def heard(*words: Any, hear: Any = None, **more: Any) -> Outcome:
        if "start" in words:
            hear(Step(Kind.STEP, "symptom", "proven", 3.5))
        return await run(*words, hear=hear, **more)

    session.stacks.run = heard  # type: ignore[method-assign]
    asyncio.run(session.stacks.start(seat, lambda _: None))
    assert session.stacks.took == {1: 3.5}


def test_the_map_has_each_daemon_in_its_machine(tmp_path: Path) -> None:
    session = ready(tmp_path)
    seat = session.roster.seat(1)
    assert view.seat(session, seat)["map"] == [
        {"name": "client", "state": "", "daemons": []},
        {
            **{"name": "web", "state": ""},
            "daemons": [{"name": "nginx", "state": ""}, {"name": "php-fpm", "state": ""}],
        },
    ]
    parts = {"web": Part("r", "running"), "nginx": Part("r", "exited 137")}
    session.stacks.there = {session.stacks.name(seat): parts}
    asyncio.run(session.poll())
    web = view.seat(session, seat)["map"][1]
    assert (web["state"], web["daemons"][0]["state"]) == ("running", "exited 137")
