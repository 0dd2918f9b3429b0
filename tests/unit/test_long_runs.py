"""Long runs: the slope of a figure, the file of a run in pieces, the plan of kills, the host."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultlab.core.errors import BadInput
from tests import attacks, kills, pieces, safety
from tests.kills import COMMANDS, Count, Kill, Place, plan
from tests.live import host
from tests.pieces import Rows
from tests.trend import Slope, slope, student
from tests.waiting import until

# --- the slope -------------------------------------------------------------------------------


def test_the_slope_of_a_line_is_exact() -> None:
    found = slope([[(hour, 7 + 2 * hour) for hour in range(6)]])
    assert found is not None
    assert found.per_hour == pytest.approx(2)
    assert found.low == pytest.approx(2) == found.high


def test_a_level_of_each_life_is_no_growth() -> None:
    """A server that begins anew has other memory: here 10, 20 and 30."""
    flat = [[(5 * life + hour, 10.0 * life) for hour in range(5)] for life in (1, 2, 3)]
    assert slope(flat) == Slope(0, 0, 0, 15, 3)


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.9])
def test_the_interval_has_the_true_slope_as_often_as_it_says(alike: float) -> None:
    """Also where samples that follow each other are alike: 0.5, and 0.9 as of memory."""

    def noise(dice: random.Random) -> Iterator[float]:
        now = dice.gauss(0, 1) / (1 - alike**2) ** 0.5
        while True:
            yield now
            now = alike * now + dice.gauss(0, 1)

    held = 0
    for seed in range(300):
        dice = random.Random(seed)
        lives = [
            [(n / 60, 5 * life + 1.5 * n / 60 + rest) for n, rest in zip(range(120), its)]  # noqa: B905
            for life, its in ((life, noise(dice)) for life in range(3))
        ]
        found = slope(lives)
        assert found is not None
        held += found.low <= 1.5 <= found.high
    assert 0.92 <= held / 300 <= 0.98


def test_too_few_samples_have_no_slope() -> None:
    assert slope([]) is None
    assert slope([[(0, 1)], [(1, 2)]]) is None
    assert slope([[(0, 1), (1, 2)], [(3, 1)]]) is None
    assert slope([[(1, 1), (1, 2), (1, 3), (1, 4)]]) is None


@pytest.mark.parametrize(("free", "quantile"), [(3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042)])
def test_students_t(free: float, quantile: float) -> None:
    """The values are those of any printed table."""
    assert student(free) == pytest.approx(quantile, rel=0.01)


# --- pieces ----------------------------------------------------------------------------------


def test_a_run_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "runs/kills.jsonl"
    Rows(file, {"seed": 1}).add("kill", number=0)
    Rows(file, {"seed": 1}).add("kill", number=1)
    with file.open("a") as cut_off:
        cut_off.write('{"kind": "kill", "num')
    again = Rows(file, {"seed": 1})
    again.add("kill", number=2)
    assert [row["number"] for row in again.of("kill")] == [0, 1, 2]
    assert [row["number"] for row in Rows(file, {"seed": 1}).of("kill")] == [0, 1, 2]
    assert again.of("piece") == []


def test_another_run_does_not_go_on(tmp_path: Path) -> None:
    file = tmp_path / "kills.jsonl"
    Rows(file, {"seed": 1, "verbs": ["start"]})
    with pytest.raises(BadInput, match="of another run: seed 1") as caught:
        Rows(file, {"seed": 2, "verbs": ["start"]})
    assert "--state" in caught.value.hint
    file.write_text("{\n")
    with pytest.raises(BadInput, match="is damaged"):
        Rows(file, {"seed": 1})


@pytest.mark.parametrize(("text", "wanted"), [("20m", 1200), ("1.5h", 5400), ("90", 90), ("5s", 5)])
def test_a_time(text: str, wanted: float) -> None:
    assert pieces.seconds(text) == wanted


@pytest.mark.parametrize("text", ["", "m", "0m", "-5", "20 minutes", "1d"])
def test_no_time(text: str) -> None:
    with pytest.raises(BadInput, match="20m, 90s"):
        pieces.seconds(text)


def test_where_the_pieces_have_run(tmp_path: Path) -> None:
    place = {"date": "2026-11-29", "commit": "abc", "kernel": "6", "docker": "20", "cpus": 2}
    rows = Rows(tmp_path / "kills.jsonl", {})
    for commit in ("abc", "abd", "abc"):
        rows.add("piece", **{**place, "commit": commit, "boot": "x"})
    assert pieces.places(rows) == [{**place, "pieces": 2}, {**place, "commit": "abd", "pieces": 1}]


# --- kills -----------------------------------------------------------------------------------

LENGTHS = {verb: 2.0 + number for number, verb in enumerate(COMMANDS)}


def test_a_plan_depends_on_its_seed_alone() -> None:
    first = [plan(7, number, LENGTHS) for number in range(90)]
    assert first == [plan(7, number, LENGTHS) for number in range(90)]
    assert first[40:] == [plan(7, number, LENGTHS) for number in range(40, 90)]  # a later piece
    assert first != [plan(8, number, LENGTHS) for number in range(90)]


def test_a_plan_takes_each_command_as_often_and_at_any_moment() -> None:
    every = [plan(1, number, LENGTHS) for number in range(1000)]
    assert set(Counter(one.verb for one in every).values()) <= {111, 112}
    for verb, length in LENGTHS.items():
        parts = [one.after / length for one in every if one.verb == verb]
        assert min(parts) >= 0 and max(parts) <= kills.BEYOND
        tenths = Counter(int(10 * part) for part in parts)
        assert all(tenths[tenth] for tenth in range(10)), verb
    orders = {tuple(one.verb for one in every[n : n + 9]) for n in range(0, 990, 9)}
    assert len(orders) > 100


def test_a_length_is_a_median_of_three(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "kills.jsonl", {})
    for verb, seconds in (("start", 7), ("start", 30), ("start", 8), ("fix", 1), ("fix", 1)):
        rows.add("length", verb=verb, seconds=seconds)
    assert kills.lengths(rows) == {"start": 8}


def row_of(verb: str, left: Sequence[str] = (), sweep: int = 0, late: bool = False) -> Any:
    return {"kind": "kill", "verb": verb, "left": [*left], "sweep": sweep, "late": late}


def test_counts() -> None:
    """A sweep that fails is something that is left over; what had ended was not killed."""
    rows = [
        *(row_of("start") for _ in range(96)),
        row_of("start", ["+ mounts: x"]),
        row_of("start", sweep=3),
        *(row_of("start", ["+ mounts: x"], late=True) for _ in range(4)),
        row_of("page"),
    ]
    found = kills.counts(rows, {"start": 7.04})
    assert found == [Count("start", 7.0, 98, 4, 2), Count("page", 0.0, 1, 0, 0)]
    assert found[0].share.text == "2 of 98, 2% (1 to 7)"


def test_which_commands() -> None:
    assert kills.chosen("") == [*COMMANDS]
    assert kills.chosen("start, class start") == ["start", "class start"]
    with pytest.raises(BadInput, match="Not a command: stop"):
        kills.chosen("start,stop")


# In place of faultlab: it begins a child, says its number, and stays; a sweep ends.
FAKE = """
import subprocess, sys, time
if sys.argv[1] != "sweep":
    child = subprocess.Popen(["sleep", "300"])
    print(child.pid, flush=True)
    time.sleep(float(sys.argv[2]) if sys.argv[1] == "soon" else 300)
    child.kill()
"""


class FakePlace(Place):
    """Runs a program of this test in place of faultlab."""

    words: Sequence[str] = ()
    began: list[subprocess.Popen[bytes]]

    def spawn(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        words = words if words[0] == "sweep" else self.words or words
        with self.said.open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-c", FAKE, *words], stdout=said, start_new_session=True
            )
        self.began = [*getattr(self, "began", []), process]
        return process


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = FakePlace(tmp_path / "project")
    found.furnish()
    return found


def alive(pid: int) -> bool:
    with suppress(OSError):
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    return False


def test_a_kill_ends_the_whole_group_and_no_other(place: FakePlace) -> None:
    other = subprocess.Popen(["sleep", "300"])
    children: list[int] = []

    def state() -> host.State:
        with suppress(ValueError):
            children.append(int(place.said.read_text()))
        return {"mounts": ["a"]}

    try:
        place.said.write_text("")
        row = kills.carry_out(place, Kill(5, "start", 0.5), state)
        first = place.began[0]
        assert first.returncode == -signal.SIGKILL and other.poll() is None
        assert len(place.began) == 2  # and one sweep, as nothing was left
    finally:
        other.kill()
        other.wait()
    assert row == {
        **{"number": 5, "verb": "start", "after": 0.5, "late": False},
        **{"sweep": 0, "said": "", "left": []},
    }


def test_a_child_of_what_is_killed_ends_too(place: FakePlace) -> None:
    with kills.doing(place, "start"):
        until(lambda: place.said.read_text().strip() != "")
        child = int(place.said.read_text())
        assert alive(child)
    until(lambda: not alive(child))


def test_a_command_that_had_ended_is_late(place: FakePlace) -> None:
    place.words = ("soon", "0")
    row = kills.carry_out(place, Kill(0, "start", 1.5), lambda: {})
    assert row["late"]


def test_what_is_left_is_told_and_a_new_state_begins(
    place: FakePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "SETTLES", 0.1)
    states = iter([{"mounts": ["a"]}, {"mounts": ["a", "b"]}, {"mounts": ["b"]}])
    last = {"mounts": ["b"]}
    row = kills.carry_out(place, Kill(0, "start", 0), lambda: next(states, last))
    assert row["left"] == ["- mounts: a", "+ mounts: b"]
    assert len(place.began) == 3  # swept twice, so that the next kill is not blamed
    row = kills.carry_out(place, Kill(1, "start", 0), lambda: last)
    assert row["left"] == []


def test_what_settles_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker's own bridge goes down some time after its last user."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    states = iter([{"links": ["up"]}, {"links": ["up"]}, {"links": ["down"]}])
    assert kills.compared({"links": ["down"]}, lambda: next(states)) == []


def test_a_group_whose_command_has_ended_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number can be that of another group by then."""
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("killed"))
    kills.kill(cast(Any, SimpleNamespace(poll=lambda: 0, pid=1, wait=lambda: None)))


def test_figures_of_kills(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "kills.jsonl", {"seed": 3})
    rows.add(number=0, after=1.0, said="", **row_of("start"))
    found = kills.figures(rows)
    assert json.loads(json.dumps(found)) == found
    assert found["kills"] == [
        {"verb": "start", "seconds": 0.0, "kills": 1, "late": 0, "left": 0},
    ]


# --- the host --------------------------------------------------------------------------------


def test_what_went_and_what_came() -> None:
    before = {"mounts": ["a", "a", "b"], "links": ["lo"]}
    after = {"mounts": ["a", "b", "c"], "links": ["lo"]}
    assert host.differences(before, after) == ["- mounts: a", "+ mounts: c"]
    assert host.differences(before, before) == []


def test_locks_that_are_held() -> None:
    """As /proc/locks lists them, with those that wait."""
    locks = [
        "1: FLOCK  ADVISORY  WRITE 2648 fe:00:11 0 EOF",
        "1: -> FLOCK  ADVISORY  READ 23620 fe:00:12 0 EOF",
        "2: POSIX  ADVISORY  WRITE 7369 fe:00:13 0 EOF",
    ]
    assert host.held(locks, {11: "machine.lock", 12: "queue.lock", 14: "mtu.lock"}) == [
        "machine.lock"
    ]


def test_processes_of_a_namespace() -> None:
    found = {
        1: (b"PATH=/bin\0FAULTLAB_NAMESPACE=kills\0", "python -m faultlab start mtu"),
        2: (b"FAULTLAB_NAMESPACE=kills-verify", "python -m pytest"),
        3: (b"FAULTLAB_NAMESPACE=killsome\0", "another's"),
        4: (b"X=FAULTLAB_NAMESPACE=kills\0", "no variable of this name"),
        5: (b"", "a kernel thread"),
    }
    assert host.processes(found, "kills") == ["python -m faultlab start mtu", "python -m pytest"]


def message(kind: int, body: bytes) -> bytes:
    whole = struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 0) + body
    return whole + bytes(-len(whole) % 4)


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def test_tables_of_nftables() -> None:
    """One for inet (1), and a rule in it; flags and handles are not told."""
    about = b"\x01\0\0\0" + attribute(1, b"faultlab\0")
    table = message(10 << 8, about + attribute(2, b"\0\0\0\0") + attribute(4, bytes(8)))
    rule = message(10 << 8 | 6, about + attribute(2, b"untracked\0") + attribute(3, bytes(8)))
    assert host.tables(table + rule) == (["1 faultlab", "rule in 1 faultlab untracked"], False)
    assert host.tables(table + message(3, bytes(4))) == (["1 faultlab"], True)
    assert host.tables(message(2, struct.pack("=i", -95) + bytes(16))) == ([], True)  # no nftables


def test_shims() -> None:
    line = "/usr/bin/containerd-shim-runc-v2 -namespace moby -id 0123456789abcdef -address /run/x"
    assert host.shims([line, "/usr/bin/containerd", "vim containerd-shim"]) == ["0123456789ab"]


# --- the pages -------------------------------------------------------------------------------

PLACE = {"date": "2026-11-30", "commit": "abc", "kernel": "6.1", "docker": "20.10", "cpus": 2}


def test_the_page_is_as_its_command_makes_it() -> None:
    """Otherwise: make docs."""
    text = safety.PAGE.read_text()
    assert safety.page(text) == text
    with pytest.raises(BadInput, match="no part that is made"):
        safety.page("# How the host stays safe\n")


def test_what_the_page_says_of_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(tmp_path / "kills.jsonl", {"of": "kills", "seed": 1, "verbs": ["start"]})
    rows.add("piece", boot="x", **PLACE)
    for number in range(400):
        left = ["+ mounts: tmpfs /x"] if number == 7 else []
        late = number >= 390
        rows.add(number=number, after=1.5, said="", **row_of("start", left, late=late))
    monkeypatch.setitem(safety.FIGURES, "kills", tmp_path / "kills.json")
    safety.take(rows.file)
    said = safety.made()
    assert "| start | 0 | 390 | 10 | 1 (0.0-1.4%) |" in said
    assert "| all | | 390 | 10 | 1 (0.0-1.4%) |" in said
    assert "- kill 7, `start` after 1.5 s: `+ mounts: tmpfs /x`" in said
    assert "Pieces: 1 on 2026-11-30 (commit abc, kernel 6.1, Docker 20.10, 2 CPUs)." in said


def test_another_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"of": "lunch"}\n')
    for name in ("run.json", "missing.jsonl"):
        with pytest.raises(BadInput, match="no file of such a run"):
            safety.take(tmp_path / name)


def test_the_page_of_attacks_names_its_commit() -> None:
    tests = [test.name for test in attacks.tests()]
    outcomes = {name: [True] for name in tests[1:]} | {tests[1]: [True, False]}
    page = attacks.page(outcomes, "Run on 2026-11-30, commit abc+, kernel 6, Python 3.11.")
    assert page.count("| held |") == len(tests) - 2
    assert page.count("| **broken** |") == page.count("| not run |") == 1
    mark = "<!-- made by `make security`; a test compares -->\n"
    made = attacks.summary(f"{mark}old\n<!-- end -->\n", page)
    assert made == (
        f"{mark}Last run: 2026-11-30, commit abc+, kernel 6, Python 3.11;"
        f" {len(tests) - 2} of {len(tests)} attacks held.\n<!-- end -->\n"
    )
    with pytest.raises(SystemExit, match="no line that is made"):
        attacks.summary("", page)


def test_both_pages_about_security_are_of_one_run() -> None:
    """Otherwise: make security."""
    text = attacks.SUMMARY.read_text()
    assert attacks.summary(text, attacks.PAGE.read_text()) == text
