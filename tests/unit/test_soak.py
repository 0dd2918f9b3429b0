"""Soak: its script, its plugs, its learners at a real server without Docker, and its proof."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.errors import BadInput
from faultlab.lab import loader as labs
from faultlab.workshop.access import TRAINER
from tests import pieces, safety
from tests.pieces import Rows
from tests.soak import __main__ as soak
from tests.soak import learner, proof, script, server, skewed
from tests.soak.learner import Seat, Told
from tests.soak.script import Act, Learner, Plug, plugs
from tests.unit.conftest import REPO
from tests.unit.served import Mirror, Served

# --- the script ------------------------------------------------------------------------------


def acts(seed: int, seat: int, piece: int) -> list[tuple[float, str, float]]:
    person = Learner(seed, seat, piece)
    every = (person.next(state) for state in ["", *["red"] * 30, "green", "over"] * 5)
    return [(act.after, act.name, act.dice.random()) for act in every]


def test_a_learner_does_the_same_for_the_same_seed() -> None:
    assert acts(1, 1, 0) == acts(1, 1, 0)
    assert len({str(acts(*one)) for one in ((1, 1, 0), (2, 1, 0), (1, 2, 0), (1, 1, 1))}) == 4


def test_a_learner_does_everything_in_an_hour() -> None:
    person = Learner(1, 1, 0)
    every = [person.next(state) for state in [*script.ACTS, "starting"] for _ in range(500)]
    assert {act.name for act in every} == {
        name for its in [*script.ACTS.values(), script.ELSE] for name in its
    }
    low, high = script.PAUSES
    assert all(low <= act.after <= high for act in every)


def test_plugs_of_a_piece() -> None:
    first = [*plugs(1, 0, 1200, script.OWN)]
    assert first == [*plugs(1, 0, 1200, script.OWN)] != [*plugs(1, 2, 1200, script.OWN)]
    for piece in range(40):
        every = [*plugs(1, piece, 1200, script.OWN)]
        assert all(plug.at + plug.lasts + script.QUIET <= 1200 for plug in every)
        for one, other in pairwise(every):
            assert one.at + one.lasts + script.QUIET <= other.at + 0.1
    names = Counter(plug.name for piece in range(40) for plug in plugs(1, piece, 1200, script.OWN))
    assert min(names[name] for name in script.OWN) >= 10
    # In each second piece one server lives long enough to see its memory.
    odd = {plug.name for piece in range(1, 40, 2) for plug in plugs(1, piece, 1200, script.OWN)}
    assert odd == {*script.OWN} - {*script.ENDS}
    assert [*plugs(1, 0, 1200, ())] == []
    assert not {*script.OWN} & {*script.HOSTS}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--plugs kill,docker", "docker changes this machine"),
        ("--plugs clock", "clock changes this machine"),
        ("--plugs burn", "Not a plug: burn"),
        ("--piece soon", "20m, 90s"),
        ("--seats 0", "1 to 64 seats"),
        ("--labs mtu,mtv", "There is no lab called 'mtv'"),
    ],
)
def test_a_mistake_in_the_command(words: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        soak.arguments(words.split())


def test_the_usual_plugs_do_nothing_to_the_host() -> None:
    asked = soak.arguments([])
    assert asked.plugs == [*script.OWN]
    assert soak.arguments(["--plugs", "docker", "--own-machine"]).plugs == ["docker"]
    assert soak.turns(asked.labs)[: len(asked.labs) + 1] == [*asked.labs, asked.labs[0]]
    assert all(labs.load(lab).load is False and labs.load(lab).fix for lab in asked.labs)


def test_a_clock_that_is_set_by_a_file(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    now = skewed.clock(file, lambda: 1000.0)
    assert now() == 1000
    file.write_text("-46800")
    assert now() == -45800
    file.write_text("")
    assert now() == 1000


def test_what_a_server_uses() -> None:
    status = "Name:\tpython\nVmRSS:\t  80896 kB\nVmSwap:\t   1024 kB\nThreads:\t12\n"
    assert server.memory(status) == {"memory": 80.0, "threads": 12}
    with pytest.raises(KeyError):  # a zombie has no memory
        server.memory("Name:\tpython\n")


def test_files_that_a_class_leaves(tmp_path: Path) -> None:
    it = server.Server(tmp_path / "class")
    it.furnish(2, ["mtu"])
    of_class = it.folder / "classes/soak"
    of_class.mkdir(parents=True)
    (it.folder / "runs/20260101-mtu").mkdir(parents=True)
    for name in ("events.jsonl", "keys.json", "alive", "results.csv"):
        (of_class / name).touch()
    assert it.others() == []
    for file in (of_class / "end", it.folder / "runs/.task-x", it.folder / "core"):
        file.touch()
    assert it.others() == [".task-x", "core", "end"]


# --- learners at a server --------------------------------------------------------------------


class Noted(list[dict[str, Any]]):
    """What was acknowledged."""

    def __call__(self, seat: int, act: str, **facts: Any) -> None:
        self.append({"seat": seat, "act": act, **facts})


@pytest.fixture(autouse=True)
def listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "LISTENS", 0.2)


def told_of(here: Served) -> tuple[Told, Noted]:
    for number in (1, 2, 3):
        here.wait(number, "red")
    noted = Noted()
    tokens = {number: here.keys.token(number) for number in (TRAINER, 1, 2, 3)}
    return Told(here.url, here.site.guard.cookie, tokens, ["mtu", "somaxconn"], noted), noted


def quick(name: str, seed: int = 1) -> Act:
    return Act(0, name, random.Random(seed))


@pytest.mark.parametrize(
    ("name", "noted"),
    [
        ("type", []),
        ("break", []),
        ("reload", []),
        ("wait", []),
        ("check", ["check"]),
        ("guess", ["diagnose"]),
        ("answer", ["diagnose"]),
        ("hint", ["hint"]),
        ("give up", ["give-up"]),
        ("restart", ["restart"]),
        ("limit", ["limit"]),
        ("repair", ["check"]),
    ],
)
def test_an_act_of_a_learner(name: str, noted: list[str], here: Served) -> None:
    told, acknowledged = told_of(here)
    seat = Seat(1, told, Learner(1, 1, 0))
    seat.look()
    seat.act(quick(name))
    seat.leave()
    assert told.wrong == [] and [row["act"] for row in acknowledged] == noted
    if name in ("type", "break", "repair"):
        assert len(Mirror.opened) == 1
    assert proof.amiss(here.session.journal.events, [], acknowledged) == []


def test_a_learner_reaches_the_next_lab_and_a_fresh_stack(here: Served) -> None:
    told, _ = told_of(here)
    seat = Seat(1, told, Learner(1, 1, 0))
    seat.look()
    seat.act(quick("give up"))
    assert seat.view["state"] == "over" and not seat.view["last"]
    seat.act(quick("next"))
    here.wait(1, "red", at=1)
    seat.act(quick("give up"))
    assert seat.view["last"]
    seat.act(quick("next"))  # there is no other lab: a fresh stack
    here.wait(1, "red", at=1)
    assert [words[0] for number, words in here.stacks.ran if number == 1].count("start") == 3
    assert told.wrong == []


def test_a_loop_of_learners_and_its_proof(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of them for some seconds; their exports and all that was acknowledged are there."""
    monkeypatch.setattr(script, "PAUSES", (0.0, 0.4))
    often = {"guess": 5, "check": 5, "hint": 1, "reload": 3, "type": 3, "terminals": 1}
    monkeypatch.setattr(script, "ACTS", {"red": often})
    told, acknowledged = told_of(here)
    seats = [Seat(number, told, Learner(3, number, 0)) for number in (1, 2, 3)]
    threads = [threading.Thread(target=seat.loop) for seat in seats]
    for thread in threads:
        thread.start()
    exports = []
    for _ in range(4):
        time.sleep(0.7)
        exports.append(proof.kept(here.get(TRAINER, "/export.json").json()))
    told.over.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert told.wrong == [] and sum(told.met.values()) > 5
    events = [json.loads(line) for line in here.session.journal.file.read_text().splitlines()]
    assert acknowledged and exports[0]["events"] < exports[-1]["events"]
    assert proof.amiss(events, [], acknowledged) == []
    assert [proof.digest(events[: one["events"]]) for one in exports] == [
        one["digest"] for one in exports
    ]


def test_a_server_that_is_gone(here: Served) -> None:
    """Expected for a while after a plug was pulled, and amiss later."""
    told, _ = told_of(here)
    told.url = "http://127.0.0.1:1"
    seat = Seat(1, told, Learner(1, 1, 0))
    told.down = time.monotonic()
    seat.act(quick("check"))
    assert told.wrong == [] and told.met["without an answer"] == 1
    told.down -= 1000
    seat.act(quick("check"))
    (what,) = told.wrong
    assert what.startswith("seat 1: check: ConnectError")


def test_a_link_that_holds_no_more_is_amiss(here: Served) -> None:
    """As after a step of the clock that ended all links."""
    told, _ = told_of(here)
    told.tokens[1] = "x" * 43
    Seat(1, told, Learner(1, 1, 0)).act(quick("check"))
    assert told.wrong == ["seat 1: check: 401", "seat 1: look: 401"]


def test_not_now_and_not_so_often_is_no_mistake(here: Served) -> None:
    told, acknowledged = told_of(here)
    seat = Seat(1, told, Learner(1, 1, 0))
    seat.look()
    assert seat.press("give-up") and not seat.press("give-up")  # the lab is over
    assert told.wrong == [] and told.met["give-up: 409"] == 1 and len(acknowledged) == 1


# --- the proof -------------------------------------------------------------------------------

PLAN = {"id": "soak", "title": "A class", "seats": ["Ada", "Grace"], "labs": ["mtu"]}
RIGHT = {"component": "web", "resource": "network", "cause": "mtu"}
WRONG = {"component": "web", "resource": "cpu", "cause": "mtu"}
EVENTS: list[dict[str, Any]] = [
    {"t": 0, "event": "planned", "plan": PLAN, "labs": [["mtu"], ["mtu"]]},
    {"t": 1, "event": "starting", "seat": 1},
    {"t": 2, "event": "ready", "seat": 1},
    {"t": 3, "event": "answered", "seat": 1, "answer": WRONG},
    {"t": 4, "event": "checked", "seat": 1, "fixed": True, "findings": []},
    {"t": 5, "event": "answered", "seat": 1, "answer": RIGHT},
]
ACKNOWLEDGED: list[dict[str, Any]] = [
    {"seat": 1, "act": "diagnose", **WRONG},
    {"seat": 1, "act": "restart", "daemon": "nginx"},
    {"seat": 1, "act": "check", "turn": 1},
    {"seat": 1, "act": "diagnose", **RIGHT},
]


def exported(count: int) -> dict[str, Any]:
    turns = [{**row, "minutes": 0.1} for row in proof.points(EVENTS[:count])]
    return proof.kept({"events": EVENTS[:count], "turns": turns})


def test_a_whole_journal() -> None:
    assert [row["points"] for row in proof.points(EVENTS)] == [35, 0]
    assert proof.amiss(EVENTS, [exported(4), exported(6)], ACKNOWLEDGED) == []


def test_a_journal_that_lost_its_last_answer() -> None:
    assert proof.amiss(EVENTS[:-1], [exported(6)], ACKNOWLEDGED) == [
        "the first 6 events are not those that were exported",
        "seat 1: diagnose was acknowledged and is missing",
    ]


def test_an_answer_that_was_changed() -> None:
    other = [*EVENTS[:3], {**EVENTS[3], "answer": RIGHT}, *EVENTS[4:]]
    assert len(proof.amiss(other, [exported(6)], ACKNOWLEDGED)) == 2


def test_points_that_were_told_otherwise() -> None:
    told = exported(6)
    told["points"][0]["points"] = 40
    assert proof.amiss(EVENTS, [told], []) == [
        "the points of the first 6 events are not those that were told"
    ]


def test_an_answer_that_was_not_acknowledged_can_be_there() -> None:
    """A server that is killed can have written it, and not said so."""
    assert proof.amiss(EVENTS, [], ACKNOWLEDGED[2:]) == []
    swapped = [ACKNOWLEDGED[3], ACKNOWLEDGED[0]]
    assert len(proof.amiss(EVENTS, [], swapped)) == 1  # the order counts


# --- the run ---------------------------------------------------------------------------------


def rows_of(folder: Path) -> Rows:
    facts = {"hours": 0.5, "seats": 2, "seed": 1}
    rows = Rows(folder / "soak.jsonl", {"of": "soak", **facts})
    place = {"date": "2026-11-29", "commit": "abc", "kernel": "6", "docker": "20", "cpus": 2}
    for piece in (0, 1):
        rows.add("piece", number=piece, boot="x", **place)
        for second in range(0, 901, 15):
            life = 1 if second < 450 else 2
            facts = {"threads": 9, "files": 20, "memory": 80.0 + life}
            rows.add("sample", piece=piece, life=life, second=second, **facts)
    met = {"type": 3, "check: 409": 2}
    rows.add("ended", piece=0, second=900, met=met, wrong=[])
    rows.add("plug", piece=0, name="kill", second=450)
    return rows


def finished(rows: Rows, **more: Any) -> list[str]:
    facts = {"codes": [0, 0], "said": "", "left": [], "files": [], "missing": [], "events": 6}
    rows.add("finished", **{**facts, "tracebacks": 0, **more})
    return soak.amiss(soak.figures(rows))


def test_how_long_it_has_lasted(tmp_path: Path) -> None:
    """The second piece was killed: its last sample counts."""
    assert soak.lasted(rows_of(tmp_path)) == 1800


def test_figures_of_a_soak(tmp_path: Path) -> None:
    rows = rows_of(tmp_path)
    before = soak.figures(rows)
    assert not before["finished"] and soak.amiss(before) == []
    assert finished(rows) == []
    found = soak.figures(rows)
    assert json.loads(json.dumps(found)) == found
    assert (found["hours"], found["plugs"], found["acts"]) == (0.5, {"kill": 1}, {"type": 3})
    assert found["refused"] == 2 and found["slopes"]["memory"]["lives"] == 4
    assert found["pieces"][0]["pieces"] == 2


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"left": ["+ mounts: x"]}, "+ mounts: x"),
        ({"files": ["core"]}, "core"),
        ({"missing": ["seat 1: check was acknowledged and is missing"]}, "seat 1: check"),
        ({"tracebacks": 2}, "2 tracebacks"),
        ({"codes": [3, 0], "said": "no"}, "class end and export: [3, 0]: no"),
    ],
)
def test_what_is_amiss_after_a_soak(facts: dict[str, Any], said: str, tmp_path: Path) -> None:
    (what,) = finished(rows_of(tmp_path), **facts)
    assert what.startswith(said)


def test_memory_that_grows_is_amiss(tmp_path: Path) -> None:
    rows = rows_of(tmp_path)
    for second in range(0, 901, 15):
        facts = {"threads": 9, "files": 20, "memory": 80 + second / 90}
        rows.add("sample", piece=2, life=1, second=second, **facts)
    assert "the memory of the server is not shown" in finished(rows)[-1]


def test_a_machine_that_was_booted_has_other_things_of_its_own() -> None:
    before, after = {"links": ["a", "b"]}, {"links": ["b", "c"]}
    assert soak.left_over(before, after, 1) == ["- links: a", "+ links: c"]
    assert soak.left_over(before, after, 2) == ["+ links: c"]


def test_the_host_before_is_read_once(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "soak.jsonl", {})
    assert soak.state_before(rows, lambda: {"links": ["a"]}) == {"links": ["a"]}
    again = Rows(tmp_path / "soak.jsonl", {})
    assert soak.state_before(again, lambda: {"links": ["b"]}) == {"links": ["a"]}


class FakeServer(server.Server):
    """A server whose class is that of a test."""

    here: Served

    def start(self) -> dict[str, Any]:
        self.lives += 1
        keys, url = self.here.keys, self.here.url
        link = {number: f"{url}/join?token={keys.token(number)}" for number in (0, 1, 2, 3)}
        return {"url": url, "trainer": link[0], "seats": {f"Seat {n}": link[n] for n in (1, 2, 3)}}

    def kill(self) -> None: ...
    def stop(self) -> int:
        return 0

    def set_clock(self, seconds: float) -> None:
        self.pulled.append(f"clock {seconds:+g}")

    def fill_disk(self, full: bool) -> None:
        self.pulled.append(f"disk {full}")

    def sample(self) -> dict[str, float]:
        return {"memory": 80.0, "threads": 9, "files": 20}

    @property
    def pulled(self) -> list[str]:
        return self.told.setdefault("pulled", [])  # type: ignore[no-any-return]


def test_a_piece(here: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plugs are pulled and put back, its samples are taken, and it can be judged."""
    here.site.guard.cookie = "faultlab-soak"
    monkeypatch.setattr(script, "PAUSES", (0.0, 0.3))
    monkeypatch.setattr(soak, "SETTLES", 0.1)
    monkeypatch.setattr(soak, "SAMPLE", 0.5)
    every = [Plug(0.1 + n / 5, name, 0.2) for n, name in enumerate(script.OWN)]
    monkeypatch.setattr(script, "plugs", lambda *_: iter(every))
    monkeypatch.setattr(pieces, "here", lambda: {"boot": "x"})
    for number in (1, 2, 3):
        here.wait(number, "red")
    asked = soak.arguments(["--labs", "mtu,somaxconn", "--seats", "3"])
    rows = Rows(tmp_path / "soak.jsonl", {"hours": 1, "seats": 3, "seed": 1})
    it = FakeServer(tmp_path / "class")
    it.here = here
    soak.Piece(rows, it, asked).run(5)
    assert [row["name"] for row in rows.of("plug")] == [*script.OWN]
    assert it.lives == 3
    steps = [step for step in it.pulled if step != "clock +0"]
    assert steps[0] in ("clock +46800", "clock -46800") and steps[1:] == ["disk True", "disk False"]
    (ended,) = rows.of("ended")
    assert ended["wrong"] == [] and ended["met"]
    assert len(rows.of("sample")) > 3 and len(rows.of("export")) == 5
    assert rows.of("acknowledged")
    assert soak.lasted(rows) == pytest.approx(6, abs=3)


WRITES = """
import sys
for line in sys.stdin:
    try:
        with open(sys.argv[1], "a") as file:
            file.write("event\\n")
        print("written", flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


def test_a_disk_that_is_full_for_one_process(tmp_path: Path) -> None:
    """Another process can write that file as before."""
    it = server.Server(tmp_path / "class")
    it.journal.parent.mkdir(parents=True)
    it.journal.write_text("event\n")
    command = [sys.executable, "-c", WRITES, str(it.journal)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) as process:
        it.process = process

        def said() -> str:
            assert process.stdin and process.stdout
            process.stdin.write("\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        assert said() == "written"
        it.fill_disk(True)
        assert said() == "File too large"
        with it.journal.open("a") as file:
            file.write("another's\n")
        it.fill_disk(False)
        assert said() == "written"
        sample = it.sample()
        assert sample is not None and sample["memory"] > 1 and sample["threads"] == 1
        it.kill()
        assert it.sample() is None
    assert it.journal.read_text().splitlines() == ["event", "event", "another's", "event"]


def test_faultlab_with_a_clock_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soak.skewed", str(tmp_path / "clock"), "--version"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "faultlab")


def test_what_the_page_says_of_a_soak(tmp_path: Path) -> None:
    rows = rows_of(tmp_path)
    assert "| left on the host | not judged yet |" in safety.of_soak(soak.figures(rows))
    finished(rows, left=["+ mounts: a|b", "c"])
    said = safety.of_soak(soak.figures(rows))
    assert "| time | 0.5 of 0.5 hours |" in said and "at 2 seats" in said
    assert "| memory of the server, MB an hour, 95% | +0.00 (+0.00 to +0.00) |" in said
    assert "| left on the host | 2: `+ mounts: a/b`; `c` |" in said
    assert "| missing in the journal | 0 |" in said and "| plugs pulled | 1 x kill |" in said
