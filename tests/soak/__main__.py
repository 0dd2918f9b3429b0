"""Soak: a class of scripted learners for hours, while plugs are pulled, and what is left of it.

Usage: python -m tests.soak --hours 6 --seats 8 --seed 1 --piece 20m [--state FILE]
       python -m tests.soak ... --end    (end it now, and judge what there is)

The same command does the next piece, until the hours are over. Then it ends the class, and judges:
nothing is left on the host, the server's memory does not grow, and the journal has each answer and
each point. Between two pieces the stacks of the class stay up, and nothing else of ours may be.

--plugs kill,stop,clock of the server,disk of the server    those that change nothing on the host
--plugs ...,docker,clock --own-machine                      also those that do, in a machine for it

`kill` and `stop` end the server by SIGKILL and by Ctrl-C, and the same command continues the
class. `clock of the server` sets the clock that the server reads by 13 hours, and `disk of the
server` lets its journal not grow. `docker` restarts the Engine (--restart-docker), and `clock` sets
the clock of the machine.
`python -m tests.safety FILE` writes the page.

Exit: 0 nothing is amiss so far, 1 something is, 2 bad usage, 3 it cannot run here.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

from faultlab.core import paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.lab import loader as loaded
from tests import pieces
from tests.live import host
from tests.pieces import Rows
from tests.soak import proof, script
from tests.soak.learner import Seat, Told
from tests.soak.script import Learner, Plug
from tests.soak.server import NAME, NAMESPACE, Server

# Labs that make no load: with it, a class on a small machine mostly waits.
LABS = "mtu,iptables-drop,certificate,regex,deleted-log,dead-resolver,inodes"
TURNS = 64  # of each seat; after the last one it gets fresh stacks
SAMPLE = 15.0  # seconds
SKEW = 13 * 3600.0  # more than the hours for which links are valid
FLAT = 4.0  # MB an hour: a class of twelve hours then grows by less than 50
SETTLES = 20.0  # seconds
CAME = "+ "  # how a line begins that was not there before


class Piece:
    """One piece of the run: the server, its learners, and the plugs."""

    def __init__(self, rows: Rows, server: Server, asked: argparse.Namespace) -> None:
        self.rows = rows
        self.server = server
        self.asked = asked
        self.number = len(rows.of("piece"))
        self.undo: list[tuple[float, Callable[[], None]]] = []
        self.dice = random.Random(f"{asked.seed} piece {self.number}")
        self.began = time.monotonic()
        self.sampled = -SAMPLE
        self.told = Told("", f"faultlab-{NAME}", {}, turns(asked.labs), self._acknowledged)

    def run(self, seconds: float) -> None:
        """Serve the class for so many seconds, and note what came of it."""
        place = pieces.here()
        boots = {row["boot"] for row in self.rows.of("piece")}
        self.rows.add("piece", number=self.number, **place)
        self._serve()
        if boots and place["boot"] not in boots:
            self._restore_all()  # as docs/workshop.md says of a machine that was booted
        self.began = time.monotonic()
        learners = [
            Seat(n, self.told, Learner(self.asked.seed, n, self.number))
            for n in range(1, self.asked.seats + 1)
        ]
        threads = [threading.Thread(target=each.loop, daemon=True) for each in learners]
        for thread in threads:
            thread.start()
        due = [*script.plugs(self.asked.seed, self.number, seconds, self.asked.plugs)]
        try:
            while self._second() < seconds:
                self._tick(due)
                time.sleep(0.5)
        finally:
            self.told.over.set()
            for _, put_back in self.undo:
                put_back()
            for thread in threads:
                thread.join(60)
            if any(thread.is_alive() for thread in threads):
                self.told.amiss("a learner still waits, 60 s after the end of the piece")
            self._end()

    def _tick(self, due: list[Plug]) -> None:
        second = self._second()
        for at, put_back in [*self.undo]:
            if second >= at:
                self.undo.remove((at, put_back))
                put_back()
        if second - self.sampled >= SAMPLE:
            self.sampled = second
            self._sample("sample")
        if due and second >= due[0].at:
            self.pull(due.pop(0))

    def pull(self, plug: Plug) -> None:
        """Pull a plug. What lasts is put back by a later tick."""
        print(f"{self._second():.0f} s: {plug.name}", flush=True)
        self.rows.add("plug", piece=self.number, name=plug.name, second=round(self._second(), 1))
        self._export()
        self.told.down = time.monotonic()
        back = self._second() + plug.lasts
        match plug.name:
            case "kill":
                self.server.kill()
                time.sleep(self.dice.uniform(0, 3))
                self._serve()
            case "stop":
                if (code := self.server.stop()) != 0:
                    self.told.amiss(f"the server ended with {code} at Ctrl-C")
                self._serve()
            case "clock of the server":
                self.server.set_clock(self.dice.choice((-SKEW, SKEW)))
                self.undo.append((back, lambda: self.server.set_clock(0)))
            case "disk of the server":
                self.server.fill_disk(True)
                self.undo.append((back, self._disk_is_free))
            case "docker":
                subprocess.run(shlex.split(self.asked.restart_docker), check=True, timeout=180)
            case "clock":
                _set_clock(SKEW)
                self.undo.append((back, lambda: _set_clock(-SKEW)))
        self.told.down = time.monotonic()

    def _disk_is_free(self) -> None:
        self.server.fill_disk(False)
        self.told.down = time.monotonic()

    def _serve(self) -> None:
        """Start the server, and compare its links with those before."""
        links = self.server.start()
        every = {0: links["trainer"], **dict(enumerate(links["seats"].values(), 1))}
        tokens = {number: link.split("token=")[1] for number, link in every.items()}
        if self.told.tokens and tokens != self.told.tokens:
            self.told.amiss("the links are others after a plug was pulled")
        self.told.url, self.told.tokens = links["url"], tokens

    def _restore_all(self) -> None:
        for number in range(1, self.asked.seats + 1):
            url = f"{self.told.url}/trainer/seat/{number}/restore"
            httpx.post(url, headers=self.told.headers(0), json={}, timeout=60, trust_env=False)

    def _export(self) -> None:
        """Note what the trainer sees now: it must be there later."""
        try:
            headers = self.told.headers(0)
            url = f"{self.told.url}/export.json"
            answer = httpx.get(url, headers=headers, timeout=60, trust_env=False).raise_for_status()
            self.rows.add("export", piece=self.number, **proof.kept(answer.json()))
        except httpx.HTTPError as error:
            self.told.amiss(f"the trainer cannot export: {error!r}")

    def _sample(self, kind: str) -> None:
        if sample := self.server.sample():
            facts = {"piece": self.number, "life": self.server.lives}
            self.rows.add(kind, **facts, second=round(self._second(), 1), **sample)

    def _end(self) -> None:
        """Stop the server; its stacks stay for the next piece."""
        second = self._second()
        time.sleep(SETTLES)
        self._sample("quiet")
        self._export()
        if (code := self.server.stop()) != 0:
            self.told.amiss(f"the server ended with {code} at Ctrl-C")
        met, wrong = dict(self.told.met), self.told.wrong[:50]
        self.rows.add("ended", piece=self.number, second=round(second, 1), met=met, wrong=wrong)

    def _acknowledged(self, seat: int, act: str, **facts: Any) -> None:
        self.rows.add("acknowledged", piece=self.number, seat=seat, act=act, **facts)

    def _second(self) -> float:
        return time.monotonic() - self.began


def _set_clock(by: float) -> None:
    """Set the clock of the machine. Only in a machine of its own."""
    time.clock_settime(time.CLOCK_REALTIME, time.time() + by)


def turns(labs: Sequence[str]) -> list[str]:
    """Return the labs of each seat: the given ones, again and again."""
    return [labs[number % len(labs)] for number in range(TURNS)]


def lasted(rows: Rows) -> float:
    """Return for how many seconds learners have worked, also in pieces that were killed."""
    last: dict[int, float] = {}
    for row in [*rows.of("sample"), *rows.of("ended")]:
        last[row["piece"]] = max(last.get(row["piece"], 0.0), row["second"])
    return sum(last.values())


def state_before(rows: Rows, state: Callable[[], host.State]) -> host.State:
    """Return the host before the first piece, which is noted then."""
    if not rows.of("before"):
        rows.add("before", host=state())
    found: host.State = rows.of("before")[0]["host"]
    return found


def left_over(before: host.State, after: host.State, boots: int) -> list[str]:
    """Return what is not as it was. A machine that was booted has other things of its own."""
    found = host.differences(before, after)
    return [line for line in found if line.startswith(CAME) or boots < 2]


def finish(rows: Rows, server: Server) -> None:
    """End the class, and note what is left of it."""
    before = state_before(rows, lambda: host.whole(NAMESPACE))
    ended = server.run("end", f"{NAME}.toml")
    results = server.run("export", f"{NAME}.toml", "--to", "results.json")
    told = json.loads((server.folder / "results.json").read_text())
    (server.folder / "results.json").unlink()
    boots = len({row["boot"] for row in rows.of("piece")})
    deadline = time.monotonic() + SETTLES
    while left := left_over(before, host.whole(NAMESPACE), boots):
        if time.monotonic() > deadline:
            break
        time.sleep(1)
    events = [json.loads(line) for line in server.journal.read_text().splitlines()]
    missing = proof.amiss(events, [*rows.of("export"), proof.kept(told)], rows.of("acknowledged"))
    log = server.log.read_text(errors="replace") if server.log.exists() else ""
    rows.add(
        "finished",
        codes=[ended.returncode, results.returncode],
        said=ended.stderr.strip()[-300:],
        left=left[:50],
        files=server.others(),
        missing=missing,
        events=len(events),
        tracebacks=log.count("Traceback"),
    )


def figures(rows: Rows) -> dict[str, Any]:
    """Return what docs/soak.json keeps of a run."""
    met = Counter[str]()
    for row in rows.of("ended"):
        met.update(row["met"])
    acts = {name for its in [*script.ACTS.values(), script.ELSE] for name in its}
    end = (rows.of("finished") or [{}])[-1]
    trends = proof.trends(rows.of("sample"))
    return {
        "hours": round(lasted(rows) / 3600, 2),
        "wanted": rows.facts["hours"],
        "seats": rows.facts["seats"],
        "seed": rows.facts["seed"],
        "plugs": dict(Counter(row["name"] for row in rows.of("plug"))),
        "acts": {name: met[name] for name in sorted(acts) if met[name]},
        "refused": sum(count for what, count in met.items() if ": " in what),
        "acknowledged": sum(row["act"] in proof.NOTED for row in rows.of("acknowledged")),
        "exports": len(rows.of("export")),
        "events": end.get("events", 0),
        "slopes": {name: vars(found) if found else None for name, found in trends.items()},
        "finished": bool(end),
        "left": [*end.get("left", []), *end.get("files", [])],
        "missing": end.get("missing", []),
        "tracebacks": end.get("tracebacks", 0),
        "wrong": wrong(rows),
        "pieces": pieces.places(rows),
    }


def wrong(rows: Rows) -> list[str]:
    """Return what learners met that must not be, and commands that failed."""
    found = [what for row in rows.of("ended") for what in row["wrong"]]
    for end in rows.of("finished")[-1:]:
        if any(end["codes"]):
            found.append(f"class end and export: {end['codes']}: {end['said']}")
    return found


def amiss(found: dict[str, Any]) -> list[str]:
    """Return what is wrong in the figures of a run, as far as it has come."""
    bad = [*found["wrong"], *found["left"], *found["missing"]]
    if found["tracebacks"]:
        bad.append(f"{found['tracebacks']} tracebacks in what the servers printed")
    memory = found["slopes"]["memory"]
    if found["finished"] and (memory is None or memory["high"] > FLAT):
        bad.append(
            f"the memory of the server is not shown to grow by less than {FLAT:g} MB an hour"
        )
    return bad


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line. Raises BadInput."""
    wanted = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    wanted.formatter_class = argparse.RawDescriptionHelpFormatter
    wanted.add_argument("--hours", type=float, default=6)
    wanted.add_argument("--seats", type=int, default=8)
    wanted.add_argument("--seed", type=int, default=1)
    wanted.add_argument("--piece", default="20m")
    wanted.add_argument("--labs", default=LABS, metavar="LAB,LAB")
    wanted.add_argument("--plugs", default=",".join(script.OWN), metavar="PLUG,PLUG")
    wanted.add_argument("--own-machine", action="store_true")
    wanted.add_argument("--restart-docker", default="service docker restart", metavar="COMMAND")
    wanted.add_argument("--state", type=Path, default=paths.runs() / "soak.jsonl")
    wanted.add_argument("--end", action="store_true")
    asked = wanted.parse_args(words)
    asked.labs = [loaded.loaded(name.strip()).id for name in asked.labs.split(",")]
    asked.plugs = [name.strip() for name in asked.plugs.split(",") if name.strip()]
    known = [*script.OWN, *script.HOSTS]
    if unknown := [name for name in asked.plugs if name not in known]:
        raise BadInput(f"Not a plug: {unknown[0]}.", f"--plugs '{','.join(known)}'")
    if (theirs := {*asked.plugs} & {*script.HOSTS}) and not asked.own_machine:
        raise BadInput(
            f"{theirs.pop()} changes this machine for all its users.",
            "in a machine for this alone, add --own-machine",
        )
    if not 1 <= asked.seats <= 64:
        raise BadInput(f"Expected 1 to 64 seats, got {asked.seats}.", "--seats 8")
    pieces.seconds(asked.piece)
    return asked


def main() -> int:
    """Do a piece of the run, or end it, and print what came of it so far."""
    asked = arguments()
    pieces.needs_root()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    facts = {key: getattr(asked, key) for key in ("hours", "seats", "seed", "labs", "plugs")}
    rows = Rows(asked.state, {"of": "soak", **facts})
    if rows.of("finished"):
        raise CannotRun("This run has ended.", f"python -m tests.safety {asked.state}")
    server = Server(asked.state.absolute().with_suffix(".class"))
    state_before(rows, lambda: host.whole(NAMESPACE))
    if not server.folder.exists():
        server.furnish(asked.seats, turns(asked.labs))
    left = 3600 * asked.hours - lasted(rows)
    try:
        if left > 0 and not asked.end:
            Piece(rows, server, asked).run(min(left, pieces.seconds(asked.piece)))
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on.", flush=True)
        return 3
    finally:
        server.kill()
    if asked.end or lasted(rows) >= 3600 * asked.hours - 1:
        finish(rows, server)
    found = figures(rows)
    bad = amiss(found)
    print(f"{found['hours']:g} of {asked.hours:g} hours, {len(bad)} things amiss")
    for what in bad[:20]:
        print(f"  {what}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(pieces.program(main))
