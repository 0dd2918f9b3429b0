"""The trainer's tools: surprises by hand and at a time, raised hands, free hints, lines to all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.processes import Outcome
from faultlab.lab import loader as labs
from faultlab.workshop import closing, size, view
from faultlab.workshop.access import TRAINER
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.master import Master
from faultlab.workshop.plan import ClassPlan, read
from faultlab.workshop.roster import Roster
from faultlab.workshop.surprise import Surprise
from tests.unit.conftest import Run
from tests.unit.served import Fake, Served, planned, served
from tests.waiting import until

ROOM: dict[str, Any] = {"room": ["session-lock"]}


@pytest.fixture
def it(tmp_path: Path) -> Iterator[Served]:
    """A class of three, whose first stacks have room for a second fault."""
    with served(tmp_path, **ROOM) as its:
        yield its


def events(session: Fake, kind: Event) -> list[dict[str, Any]]:
    return [event for event in session.journal.events if event["event"] == kind]


def joined(it: Served) -> list[tuple[int, tuple[str, ...]]]:
    return [(seat, words) for seat, words in it.stacks.ran if words[0] == "join"]


def refused(it: Served, path: str, facts: Any) -> str:
    answer = it.post(TRAINER, path, facts)
    assert answer.status_code in (400, 409), answer.text
    return str(answer.json()["error"])


# --- class.toml ---


def plan_file(tmp_path: Path, more: str) -> str:
    file = tmp_path / "class.toml"
    file.write_text(f'title = "T"\nseats = ["Ada", "Grace"]\nlabs = ["mtu"]\n{more}')
    return str(file)


def test_surprises_of_the_file(tmp_path: Path) -> None:
    more = """room = ["deleted-log"]
[[event]]
at = "0:20"
fault = "session-lock"
[[event]]
at = "01:05"
message = "The chairman is on the phone."
seats = ["Ada"]
"""
    plan = read(plan_file(tmp_path, more))
    assert [one.seconds for one in plan.event] == [1200, 3900]
    assert [one.kind for one in plan.event] == ["fault", "message"]
    assert plan.event[1].sender == "the boss"
    assert plan.room_for("mtu") == "session-lock"  # what is planned comes first
    assert plan.room_for("somaxconn") == ""


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('[[event]]\nat = "0:20"', "expected one of fault, decoy and message"),
        ('[[event]]\nat = "20"\nmessage = "a"', "at"),
        ('[[event]]\nat = "0:20"\nmessage = "a"\nseats = ["Eve"]', "expected names of seats"),
        ('[[event]]\nat = "0:20"\nmessage = "a"\nblock = 1', r"has no \[\[block\]\]"),
        ('[[event]]\nat = "0:20"\nfault = "somaxconn"', "mtu and somaxconn were not proven"),
        ('[[event]]\nat = "0:20"\ndecoy = "slow-log-off"', "it needs mysql"),
        ('room = ["somaxconn"]', r"room\[0\]: somaxconn cannot come at any lab"),
        ('room = ["nonsense"]', "There is no lab"),
    ],
)
def test_a_surprise_that_can_never_come_is_refused(tmp_path: Path, more: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        read(plan_file(tmp_path, more))


def test_an_event_comes_before_its_block_ends() -> None:
    block = {"title": "One", "minutes": 30.0, "labs": ["mtu"]}
    facts: dict[str, Any] = {"id": "c", "title": "T", "seats": ["Ada"], "block": [block]}
    late = {"at": "0:30", "block": 1, "message": "a"}
    with pytest.raises(ValidationError, match="before its block ends"):
        ClassPlan.model_validate({**facts, "event": [late]})
    with pytest.raises(ValidationError, match="expected 1 to 1"):
        ClassPlan.model_validate({**facts, "event": [{**late, "block": 2}]})


def test_room_counts_in_the_size_of_a_class(tmp_path: Path, faultlab: Run) -> None:
    more = 'room = ["session-lock"]\n[[event]]\nat = "0:20"\nmessage = "Hurry."\nseats = ["Ada"]'
    plain, wide = planned(), planned(**ROOM)
    chosen = [["mtu", "somaxconn"]] * 3
    assert size.memory("mtu+session-lock") > size.memory("mtu")
    assert size.of(wide, chosen).memory > size.of(plain, chosen).memory
    done = faultlab("class", "lint", plan_file(tmp_path, more))
    assert "0:20, Ada: message from the boss: Hurry." in done.out


# --- the clock of surprises ---


def roster(**facts: Any) -> Roster:
    plan = planned(**facts)
    return Roster(plan, [["mtu", "somaxconn"][: max(1, len(plan.blocks_of_turns) or 2)]] * 3)


def test_a_time_of_the_class_leaves_out_pauses_and_hours_without_a_server() -> None:
    found = roster(event=[{"at": "0:10", "message": "a"}])
    (item,) = found.agenda.items.values()
    assert found.agenda.due(5000) == []  # it has not begun
    found.apply({"t": 1000, "event": "opened", "alive": 1000})
    found.apply({"t": 1300, "event": "paused"})
    assert found.agenda.due(9000) == []
    found.apply({"t": 2300, "event": "resumed"})
    assert found.agenda.due(2599) == []
    assert found.agenda.left(item, 2300) == 300
    assert found.agenda.when(item, 2300) == "in 5 minutes"
    found.apply({"t": 4000, "event": "opened", "alive": 2400})  # 200 s were left
    assert found.agenda.due(4199) == []
    assert found.agenda.due(4200) == [item]


def test_a_time_of_a_block_counts_from_its_opening_and_in_it_alone() -> None:
    blocks = [{"title": t, "minutes": 30.0, "labs": ["mtu"]} for t in ("One", "Two")]
    its = [{"at": "0:10", "block": 2, "message": "a"}, {"at": "0:10", "message": "b"}]
    found = roster(labs=[], block=blocks, event=its)
    second, first = found.agenda.items.values()
    found.apply({"t": 1000, "event": "opened", "alive": 1000})
    assert found.agenda.when(second, 1000) == "0:10 into block 2"
    assert found.agenda.when(first, 1000) == "0:10 after the class began"
    found.apply({"t": 2000, "event": "block opened", "block": 1})
    assert found.agenda.due(2599) == []
    assert found.agenda.due(2600) == [first]
    found.apply({"t": 3000, "event": "block opened", "block": 2})
    assert second not in found.agenda.due(3599)
    assert second in found.agenda.due(3600)


# --- by hand ---


def test_a_second_fault_comes_to_all(it: Served) -> None:
    assert it.post(TRAINER, "/trainer/surprise", {"fault": "session-lock"}).status_code == 200
    session = it.session
    until(lambda: all(seat.turn.news for seat in session.roster.seats))
    assert sorted(joined(it)) == [(n, ("join", "mystery", "session-lock")) for n in (1, 2, 3)]
    kinds = [event["event"] for event in session.journal.events]
    assert kinds.index("fired") < kinds.index("joined")  # it was written before it happened
    turn = session.roster.seat(1).turn
    assert (turn.whole, turn.known, turn.state) == ("mtu+session-lock",) * 2 + ("red",)
    seen = view.seat(session, session.roster.seat(1))
    (news,) = seen["news"]
    assert news["kind"] == "ticket" and "<p>" in news["html"]
    secret = json.dumps({**seen, "terms": {}})  # the words of an answer name every lab
    assert "session-lock" not in secret and "mtu" not in secret
    assert seen["several"] and "Several reports" not in seen["ticket"]  # it is news, told once
    why = refused(it, "/trainer/surprise", {"fault": "session-lock"})
    assert "session-lock has joined its lab already" in why


def test_a_named_lab_does_not_tell_what_has_joined(tmp_path: Path) -> None:
    with served(tmp_path, blind=False, **ROOM) as it:
        it.post(TRAINER, "/trainer/surprise", {"fault": "session-lock", "seat": 2})
        seat = it.session.roster.seat(2)
        until(lambda: bool(seat.turn.news))
        assert it.stacks.name(seat).endswith("-mtu")  # its stack has the name that it had
        seen = view.seat(it.session, seat)
        assert "session-lock" not in json.dumps({**seen, "catalogue": None})
        assert not it.session.roster.seat(1).turn.joined


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"fault": "somaxconn"}, "mtu and somaxconn were not proven together"),
        ({"fault": "deleted-log"}, "has no room for it"),
        ({"fault": "nonsense"}, "There is no lab"),
        ({"decoy": "slow-log-off"}, "it needs mysql"),
        ({"decoy": "nonsense"}, "There is no decoy"),
        ({"message": "a", "fault": "session-lock"}, "Expected one of"),
        ({"message": "a\nb"}, "one line of printable text"),
        ({"message": "a", "seat": 4}, "a seat of the class"),
        ({"message": "a", "minutes": -1}, "within 1440 minutes"),
        ({"message": "a", "minutes": "soon"}, "minutes as a number"),
        ({"message": 3}, "string"),
    ],
)
def test_what_cannot_come_is_refused_with_the_reason(
    it: Served, facts: dict[str, Any], why: str
) -> None:
    assert why in refused(it, "/trainer/surprise", facts)
    assert not events(it.session, Event.FIRED) and not joined(it)


def test_a_seat_at_which_it_cannot_come_says_why(it: Served) -> None:
    it.session.roster.seat(2).turn.state = "over"
    it.post(TRAINER, "/trainer/surprise", {"fault": "session-lock"})
    until(lambda: view.roster(it.session)["surprises"][0]["there"] == 2)
    (row,) = view.roster(it.session)["surprises"]
    assert (row["there"], row["not"]) == (2, ["Grace: its lab is not up, or over"])


def test_a_fault_that_does_not_show_is_told_to_the_trainer_alone(it: Served) -> None:
    it.stacks.outcome = Outcome(1, {}, "session-lock does not show beside what is there.")
    it.post(TRAINER, "/trainer/surprise", {"fault": "session-lock", "seat": 1})
    until(lambda: bool(events(it.session, Event.NOT_JOINED)))
    turn = it.session.roster.seat(1).turn
    assert (turn.joined, turn.news, turn.state) == ("", [], "red")
    (row,) = view.roster(it.session)["surprises"]
    assert "does not show" in row["not"][0]


def test_a_repaired_lab_is_open_again_and_its_hints_go_on(it: Served) -> None:
    it.stacks.well.add(1)
    it.post(1, "/seat/1/check")
    it.wait(1, "green")
    it.post(TRAINER, "/trainer/surprise", {"fault": "session-lock", "seat": 1})
    it.wait(1, "red")
    turn = it.session.roster.seat(1).turn
    assert turn.since is not None and not turn.told
    of_first = len(labs.loaded("mtu").hint)
    assert it.session.hints(turn) > of_first
    turn.faults_gone = [1]
    assert next(turn.next_hints()) > of_first  # those of the fault that is left


def test_a_decoy_comes_and_only_its_alerts_are_told(it: Served) -> None:
    it.post(TRAINER, "/trainer/surprise", {"decoy": "old-overflow", "seat": 1})
    it.post(TRAINER, "/trainer/surprise", {"decoy": "web-alerts", "seat": 2})
    first, second = (it.session.roster.seat(n).turn for n in (1, 2))
    until(lambda: bool(first.leads and second.news))
    assert (first.whole, first.news) == ("mtu~old-overflow", [])
    assert second.whole == "mtu~web-alerts" and "half-open" in second.news[0].text
    assert (1, ("join", "mystery", "--decoy", "old-overflow")) in joined(it)
    first.answers.append([labs.loaded("somaxconn").truth.model_dump()])
    assert it.session.roster.score(first, 0).decoys == ["old-overflow"]


def test_starting_over_takes_away_what_has_joined(it: Served) -> None:
    it.post(TRAINER, "/trainer/surprise", {"message": "Hurry.", "seat": 1})
    it.post(TRAINER, "/trainer/surprise", {"fault": "session-lock", "seat": 1})
    seat = it.session.roster.seat(1)
    until(lambda: bool(seat.turn.joined) and 1 not in it.session.doing)
    it.post(TRAINER, "/trainer/seat/1/restore")
    until(lambda: seat.turn.state == "red" and not seat.turn.joined)
    assert (seat.turn.room, [each.kind for each in seat.turn.news]) == ("session-lock", ["message"])


def test_a_message_is_shown_and_no_markup_of_it(it: Served) -> None:
    it.post(TRAINER, "/trainer/surprise", {"message": "Is <b>it</b> up?", "seat": 2})
    (news,) = view.seat(it.session, it.session.roster.seat(2))["news"]
    assert (news["sender"], news["html"]) == ("the boss", "Is &lt;b&gt;it&lt;/b&gt; up?")
    assert view.seat(it.session, it.session.roster.seat(1))["news"] == []


def test_only_the_trainer_has_surprises(it: Served) -> None:
    for path in ("/trainer/surprise", "/trainer/call-off", "/trainer/seat/1/hint"):
        assert it.post(1, path, {"message": "a"}).status_code == 403
    assert it.get(1, "/review").status_code == 403


# --- timed, and over a restart ---


def test_one_by_hand_waits_is_called_off_or_comes(it: Served) -> None:
    it.session.note(Event.OPENED, alive=it.session.journal.now())
    for _ in range(2):
        it.post(TRAINER, "/trainer/surprise", {"message": "Soon.", "minutes": 0.02})
        assert not events(it.session, Event.FIRED)
    assert refused(it, "/trainer/call-off", {"id": "hand 9"})
    assert it.post(TRAINER, "/trainer/call-off", {"id": "hand 2"}).status_code == 200
    until(lambda: bool(events(it.session, Event.FIRED)))
    assert refused(it, "/trainer/call-off", {"id": "hand 1"})
    states = [item.state for item in it.session.roster.agenda.items.values()]
    assert states == ["fired", "called off"]


def test_a_timed_one_fires_once_also_after_a_restart(tmp_path: Path) -> None:
    facts: dict[str, Any] = {"event": [{"at": "0:00", "message": "Good morning."}]}
    for _ in range(2):
        session = Fake(tmp_path, **facts)
        master = Master(session)
        session.note(Event.OPENED, alive=session.journal.now())
        for _ in range(2):
            master.tick(session.journal.now())
    assert len(events(session, Event.FIRED)) == 1
    assert [len(seat.turn.news) for seat in session.roster.seats] == [1, 1, 1]


def test_one_that_was_interrupted_goes_on_after_a_restart(tmp_path: Path) -> None:
    """The server was killed between what the journal says and what happens."""
    session = Fake(tmp_path, **ROOM)
    for seat in (1, 2):
        session.note(Event.STARTING, seat, room="session-lock")
        session.note(Event.READY, seat)
    its = {"fault": "session-lock"}
    session.note(Event.FIRED, id="hand 1", surprise=its, seats=[1, 2], turns=[1, 1])
    session.note(Event.JOINED, 2, id="hand 1", fault="session-lock", turn=1)
    again = Fake(tmp_path, **ROOM)

    async def goes_on() -> None:
        Master(again).begin()
        while len(events(again, Event.JOINED)) < 2:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(goes_on(), 10))
    assert [seat for seat, words in again.stacks.ran if words[0] == "join"] == [1]
    assert Journal(tmp_path / "events.jsonl").events == again.journal.events


def test_one_that_a_seat_has_left_behind_does_not_come_later(tmp_path: Path) -> None:
    session = Fake(tmp_path, **ROOM)
    session.note(Event.STARTING, 1, room="session-lock")
    session.note(Event.READY, 1)
    its = {"fault": "session-lock"}
    session.note(Event.FIRED, id="hand 1", surprise=its, seats=[1], turns=[1])
    session.note(Event.MOVED_ON, 1)

    async def goes_on() -> None:
        Master(session).begin()
        while not events(session, Event.NOT_JOINED):
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(goes_on(), 10))
    assert events(session, Event.NOT_JOINED)[0]["why"] == "its lab had ended"
    assert not session.stacks.ran


def test_nothing_is_noted_of_one_that_the_end_interrupts(it: Served) -> None:
    it.stacks.slow = 0.5
    it.post(TRAINER, "/trainer/surprise", {"fault": "session-lock", "seat": 1})
    until(lambda: bool(joined(it)))
    it.post(TRAINER, "/trainer/end")
    until(lambda: 1 not in it.session.doing)
    assert not events(it.session, Event.JOINED)
    with pytest.raises(CannotRun, match="has ended"):
        Master(it.session).surprise(Surprise(message="a"))


# --- hands and hints ---


def test_a_hand_is_raised_and_lowered(it: Served) -> None:
    assert it.post(1, "/seat/1/hand", {"up": True}).status_code == 200
    assert it.post(1, "/seat/1/hand", {"up": True}).status_code == 200
    assert it.post(1, "/seat/2/hand", {"up": True}).status_code == 403
    assert it.post(1, "/seat/1/hand", {"up": "yes"}).status_code == 400
    assert len(events(it.session, Event.HAND)) == 1
    row = view.roster(it.session)["seats"][0]
    assert row["room"] == "session-lock"
    assert row["hand"] >= 0 and view.seat(it.session, it.session.roster.seat(1))["hand"]
    it.post(TRAINER, "/trainer/seat/1/hand", {"up": False})
    assert view.roster(it.session)["seats"][0]["hand"] is None


def test_a_hint_from_the_trainer_costs_nothing(it: Served) -> None:
    ready = view.roster(it.session)["seats"][0]["prepared"]
    assert [each["number"] for each in ready] == [*range(1, len(labs.loaded("mtu").hint) + 1)]
    assert it.post(TRAINER, "/trainer/seat/1/hint", {"number": 2}).status_code == 200
    assert refused(it, "/trainer/seat/1/hint", {"number": 2})
    assert refused(it, "/trainer/seat/1/hint", {"number": 99})
    assert refused(it, "/trainer/seat/1/hint", {"number": True})
    session, seat = it.session, it.session.roster.seat(1)
    assert session.roster.score(seat.turn, 0).hints == 0
    assert len(view.seat(session, seat)["hints"]) == 1
    it.post(1, "/seat/1/hint")
    until(lambda: len(seat.turn.hints) == 2)
    asked = seat.turn.hints[1]
    assert session.roster.score(seat.turn, 0).hints == labs.loaded("mtu").hint[asked - 1].cost > 0


def test_a_free_hint_takes_none_of_the_most(tmp_path: Path) -> None:
    with served(tmp_path, hints=1) as it:
        it.post(TRAINER, "/trainer/seat/1/hint", {"number": 1})
        assert view.seat(it.session, it.session.roster.seat(1))["hint_left"]
        assert it.post(1, "/seat/1/hint").status_code == 200


# --- the projector ---


def test_the_projector_has_the_last_line_to_all_and_the_end(tmp_path: Path) -> None:
    with served(tmp_path, farewell="Thank you!") as it:
        it.post(TRAINER, "/trainer/surprise", {"message": "Only you.", "seat": 1})
        assert view.projector(it.session)["line"] is None
        it.post(TRAINER, "/trainer/surprise", {"message": "Coffee.", "sender": "your trainer"})
        told = view.projector(it.session)
        assert told["line"] == {"sender": "your trainer", "text": "Coffee."}
        assert (told["repaired"], told["labs"], told["final"]) == (0, 6, None)
        assert closing.told(it.session.roster, it.session.journal.now() + 700)["line"] is None
        it.stacks.well.add(2)
        it.post(2, "/seat/2/check")
        it.wait(2, "green")
        it.post(TRAINER, "/trainer/end")
        final = view.projector(it.session)
        assert (final["repaired"], final["final"]["farewell"]) == (1, "Thank you!")
        assert final["final"]["ranking"] == []
        assert "Grace" not in json.dumps(final)


def test_a_ranking_that_is_wanted_shares_places() -> None:
    found = roster(ranking=True, blind=False)
    found.seat(2).turns[0].state = "green"
    rows = [(row["place"], row["name"], row["points"]) for row in closing.ranking(found, 0)]
    assert rows == [(1, "Grace", 10), (2, "Ada", 0), (2, "Linus", 0)]
