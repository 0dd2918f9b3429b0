"""Kills: commands that end by `kill -9` at a random moment, then a sweep, and the host compared.

Usage: python -m tests.kills --count 50 [--seed 1] [--verbs start,check] [--state FILE]

The same command goes on where the last one ended; `--count` is the number of kills of this piece.
What was seen is kept in docs/kills.jsonl, so that any clone can go on.
Each command is first run to its end, to learn how long it takes. The moment of a kill is drawn from
the seed and the number of the kill, over this time. What is killed is the process group that was
started here. Nothing else of ours may be up. `python -m tests.safety FILE` writes the page.

Exit: 0 nothing was left over, 1 something was, 2 bad usage, 3 it cannot run here.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from faultlab.core import paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.statistics import Share
from tests import pieces
from tests.live import host
from tests.pieces import Row, Rows

NAMESPACE = "kills"
LAB = "mtu"
BUNDLE = "out/kills.bundle.tar"
CLASS = """
title = "A class that is killed"
seats = ["Ada", "Grace"]
labs  = ["mtu"]
later = 0
"""
MEASURED = 3  # times that a command is run to its end before it is killed
BEYOND = 1.05  # a part of the moments are after the usual end
SETTLES = 10.0  # seconds until Docker's own bridge and its processes are as they were
STUCK = 900.0  # seconds after which a command counts as stuck


@dataclass(frozen=True)
class Command:
    """A command to kill. `up`: its lab is up before it. `stays`: it does not end by itself."""

    words: tuple[str, ...]
    up: bool = False
    stays: bool = False


COMMANDS = {
    "start": Command(("start", LAB)),
    "check": Command(("check", LAB), up=True),
    "fix": Command(("fix", LAB), up=True),
    "down": Command(("down", LAB), up=True),
    "verify": Command(("verify", LAB, "--quick")),
    "score": Command(("score", "ss-rules", "--labs", LAB, "--json", "score.json")),
    "class start": Command(
        ("class", "start", f"{NAMESPACE}.toml", "--port", "0", "--json"), stays=True
    ),
    "bundle": Command(("bundle", "--no-vm", "--out", BUNDLE)),
    "page": Command(("page", "--port", "0", "--json"), stays=True),
}


@dataclass(frozen=True)
class Kill:
    """One kill: its number from 0, what is killed, and after how many seconds."""

    number: int
    verb: str
    after: float


def plan(seed: int, number: int, lengths: Mapping[str, float]) -> Kill:
    """Return a kill, from the seed and its number alone. `lengths`: seconds of each command.

    Each block of kills has each command once, so that all of them have about the same number.
    """
    order = sorted(lengths)
    random.Random(f"{seed} {number // len(order)}").shuffle(order)
    verb = order[number % len(order)]
    after = random.Random(f"{seed}: {number}").uniform(0, BEYOND * lengths[verb])
    return Kill(number, verb, round(after, 3))


def lengths(rows: Rows) -> dict[str, float]:
    """Return how long each command takes, as far as it was measured often enough."""
    took: dict[str, list[float]] = {}
    for row in rows.of("length"):
        took.setdefault(row["verb"], []).append(row["seconds"])
    return {verb: median(its) for verb, its in took.items() if len(its) >= MEASURED}


@dataclass(frozen=True)
class Count:
    """What came of the kills of one command. `late`: it had ended before its kill."""

    verb: str
    seconds: float
    kills: int
    late: int
    left: int

    @property
    def share(self) -> Share:
        """Return how often something was left over."""
        return Share(self.kills, self.left)


def counts(rows: Sequence[Row], lengths: Mapping[str, float]) -> list[Count]:
    """Return the counts of each command. A command that ended first was not killed."""
    found = []
    for verb in COMMANDS:
        mine = [row for row in rows if row["kind"] == "kill" and row["verb"] == verb]
        hit = [row for row in mine if not row["late"]]
        left = sum(bool(row["left"]) or row["sweep"] != 0 for row in hit)
        if mine:
            length = round(lengths.get(verb, 0.0), 1)
            found.append(Count(verb, length, len(hit), len(mine) - len(hit), left))
    return found


class Place:
    """Where the commands run: a folder of their own, with the labs of this checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said = folder.with_name(f"{folder.name}.said")
        self.env = {
            **os.environ,
            "FAULTLAB_NAMESPACE": NAMESPACE,
            "FAULTLAB_STATE": str(folder / "state"),
            "PYTHONPATH": str(paths.root()),
        }

    def furnish(self) -> None:
        """Make it as it was, without what an earlier command has written."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "out").mkdir(parents=True)
        (self.folder / f"{NAMESPACE}.toml").write_text(CLASS)

    def spawn(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command in a process group of its own."""
        with self.said.open("wb") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "faultlab", *words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self.env,
                start_new_session=True,
            )

    def run(self, *words: str) -> int:
        """Run a command to its end and return its exit code."""
        process = self.spawn(words)
        try:
            return process.wait(STUCK)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            kill(process)

    def last(self) -> str:
        """Return the last line that a command printed."""
        lines = self.said.read_text(errors="replace").split("\n") if self.said.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def ask(self, process: subprocess.Popen[bytes], verb: str) -> None:
        """Ask a server for its work until it has come to its end, or to that of the server."""
        while process.returncode is None and not self.works(process, verb):
            time.sleep(0.1)

    def works(self, process: subprocess.Popen[bytes], verb: str) -> bool:
        """Do what makes a server work; return if what it does has come to its end."""
        match verb:
            case "class start":
                journal = self.folder / f"state/classes/{NAMESPACE}/events.jsonl"
                told = journal.read_text() if journal.exists() else ""
                return told.count('"ready"') == 2
            case "page":
                with suppress(ValueError, KeyError, httpx.HTTPError):
                    return self._chosen(str(json.loads(self.said.read_text())["url"]))
                return False
        return process.poll() is not None

    def _chosen(self, url: str) -> bool:
        """Choose the lab on a page, and return whether it is up."""
        with (
            httpx.Client(base_url=url, headers={"origin": url}, timeout=10) as client,
            client.stream("GET", "/seat/1/events") as answer,
        ):
            lines = (line[6:] for line in answer.iter_lines() if line.startswith("data: "))
            view = json.loads(next(lines, ""))
        if view["state"] == "waiting" and not view["doing"]:
            httpx.post(f"{url}/seat/1/choose", headers={"origin": url}, json={"lab": LAB})
        return bool(view["state"] == "red")


def kill(process: subprocess.Popen[bytes]) -> None:
    """End the process group that was started here, unless its command has ended by itself.

    Then its number can be that of another group.
    """
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def doing(place: Place, verb: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command, on a lab that is up if it needs one; it is killed in the end."""
    command = COMMANDS[verb]
    if command.up and place.run("start", LAB) != 0:
        raise CannotRun(f"{LAB} did not start: {place.last()}", "make lab-mtu")
    process = place.spawn(command.words)
    try:
        yield process
    finally:
        kill(process)


def measure(place: Place, verb: str) -> float:
    """Return how many seconds a command takes to its end, or until its labs are up."""
    place.furnish()
    with doing(place, verb) as process:
        began = time.monotonic()
        while not place.works(process, verb):
            if process.poll() is not None and COMMANDS[verb].stays:
                raise CannotRun(f"`faultlab {verb}` has ended: {place.last()}", "make doctor")
            if time.monotonic() - began > STUCK:
                raise CannotRun(f"`faultlab {verb}` did not end.", "make status")
            time.sleep(0.1)
        took = time.monotonic() - began
        if not COMMANDS[verb].stays and process.returncode not in (0, 1):
            raise CannotRun(f"`faultlab {verb}` failed: {place.last()}", "make doctor")
    place.run("sweep")
    return took


def carry_out(place: Place, planned: Kill, state: Callable[[], host.State]) -> Row:
    """Kill a command, sweep, and return what of the host is not as it was before.

    `state`: reads the host. It is as it was when nothing of ours was up.
    """
    place.furnish()
    before = state()
    with doing(place, planned.verb) as process:
        moment = time.monotonic() + planned.after
        if planned.verb == "page":  # what it does is asked for, as by a browser
            threading.Thread(target=place.ask, args=(process, planned.verb), daemon=True).start()
        time.sleep(max(0.0, moment - time.monotonic()))
        late = process.poll() is not None
    # A whole bundle is what was asked for; half of one is not.
    (place.folder / BUNDLE).unlink(missing_ok=True)
    sweep = place.run("sweep")
    said = place.last() if sweep else ""
    left = compared(before, state)
    if sweep or left:
        place.run("sweep")  # the next kill is not to be blamed for it
    return {
        **{"number": planned.number, "verb": planned.verb, "after": planned.after},
        **{"late": late, "sweep": sweep, "said": said, "left": left[:20]},
    }


def compared(before: host.State, state: Callable[[], host.State]) -> list[str]:
    """Return what differs, once it has had the time to become as it was."""
    deadline = time.monotonic() + SETTLES
    while (left := host.differences(before, state())) and time.monotonic() < deadline:
        time.sleep(0.5)
    return left


def chosen(text: str) -> list[str]:
    """Read a list of commands. Raises BadInput."""
    found = [verb.strip() for verb in text.split(",")] if text else [*COMMANDS]
    if unknown := [verb for verb in found if verb not in COMMANDS]:
        raise BadInput(f"Not a command: {unknown[0]}.", f"--verbs {','.join(COMMANDS)}")
    return found


def piece(rows: Rows, verbs: Collection[str], seed: int, count: int) -> int:
    """Do so many kills more; return how many of them left something over."""
    rows.add("piece", **pieces.here())
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        place = Place(Path(folder) / "project")
        place.furnish()
        if place.run("sweep") != 0:
            raise CannotRun(f"The sweep before it failed: {place.last()}", "make status")
        for verb in verbs:
            while sum(row["verb"] == verb for row in rows.of("length")) < MEASURED:
                rows.add("length", verb=verb, seconds=round(measure(place, verb), 2))
                print(f"{verb}: {rows.rows[-1]['seconds']} s to its end", flush=True)
        took = lengths(rows)
        unclean = 0
        for _ in range(count):
            number = len(rows.of("kill"))
            row = carry_out(
                place, plan(seed, number, took), lambda: host.whole(NAMESPACE, place.folder / "out")
            )
            rows.add("kill", **row)
            unclean += bool(row["left"] or row["sweep"]) and not row["late"]
            what = "; ".join([*filter(None, [row["said"]]), *row["left"]]) or "nothing is left"
            print(f"{number}: {row['verb']} after {row['after']:.2f} s: {what[:300]}", flush=True)
    return unclean


def main() -> int:
    """Do a piece of the run, and print the counts so far."""
    wanted = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    wanted.formatter_class = argparse.RawDescriptionHelpFormatter
    wanted.add_argument("--count", type=int, default=50)
    wanted.add_argument("--seed", type=int, default=1)
    wanted.add_argument("--verbs", default="", metavar="VERB,VERB")
    wanted.add_argument("--state", type=Path, default=paths.root() / "docs/kills.jsonl")
    asked = wanted.parse_args()
    verbs = chosen(asked.verbs)
    pieces.needs_root()
    rows = Rows(asked.state, {"of": "kills", "seed": asked.seed, "verbs": verbs})
    unclean = piece(rows, verbs, asked.seed, asked.count)
    print(f"{'command':<12} {'kills':>5} {'late':>5}  something left over, 95%")
    for one in counts(rows.rows[1:], lengths(rows)):
        print(f"{one.verb:<12} {one.kills:>5} {one.late:>5}  {one.share.text}")
    return 1 if unclean else 0


def figures(rows: Rows) -> dict[str, Any]:
    """Return what docs/kills.json keeps of a run."""
    took = lengths(rows)
    bad = [row for row in rows.of("kill") if not row["late"] and (row["left"] or row["sweep"])]
    return {
        "seed": rows.facts["seed"],
        "kills": [vars(one) for one in counts(rows.rows[1:], took)],
        "left": [{key: row[key] for key in ("number", "verb", "after", "left")} for row in bad],
        "pieces": pieces.places(rows),
    }


if __name__ == "__main__":
    sys.exit(pieces.program(main))
