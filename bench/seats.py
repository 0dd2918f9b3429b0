"""A class on this machine: time until every seat is ready, memory a seat, and a check in company.

Usage: .venv/bin/python bench/seats.py [SEATS]     (12; takes some minutes; leaves nothing up)

The check of the first seat is timed in pairs: the others quiet, and the others at work, each of
them fetching pages and running `top`, as participants do.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from faultlab.core import naming, paths
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack

PAIRS = 5
CLASS = """
title = "bench"
seats = {seats}
[draw]
count = 1
seed  = 1
tier  = "web"
"""
WORK = "timeout 60 sh -c 'while :; do curl -s -m 3 -o /dev/null http://web/; sleep 0.2; done'"


def main() -> None:
    """Print what was measured."""
    os.environ["FAULTLAB_NAMESPACE"] = "bench"
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    with tempfile.TemporaryDirectory() as name, served(Path(name), count) as (it, folder):
        began = time.monotonic()
        states = wait(folder, count)
        print(f"{count} seats ready after {time.monotonic() - began:.0f} s: {states}")
        stacks = [f"{naming.prefix()}bench-{n + 1}-mystery" for n in range(count)]
        places = [Stack(LocalEngine(), name) for name in stacks]
        for event in journal(folder):
            if event["event"] == "failed":
                print(f"seat {event['seat']} failed: {event['why']}")
        used = [memory(place) for place in places]
        print(
            f"memory of a seat: {min(used):.0f} to {max(used):.0f} MB, median"
            f" {statistics.median(used):.0f}, all together {sum(used):.0f} MB"
        )
        for place in places:
            print(f"  {place.name}: {len(place)} containers, {memory(place):.0f} MB")
        ratios = []
        for _ in range(PAIRS):
            quiet, _ = check(it)
            others = [place for place in places[1:] if place]
            for place in others:
                place["client"].must(f"({WORK}) >/dev/null 2>&1 &")
                place["web"].must("(timeout 60 top -b -d 1) >/dev/null 2>&1 &")
            time.sleep(2)
            busy, verdict = check(it)
            ratios.append(busy / quiet)
            print(f"check: alone {quiet:.1f} s, in company {busy:.1f} s, {verdict}")
            for place in others:
                for at in ("client", "web"):
                    place[at].run("pkill -x timeout; true")
            time.sleep(2)
        print(f"in company, against alone: {statistics.median(ratios):.2f} (median)")


@contextmanager
def served(root: Path, count: int) -> Iterator[tuple[dict[str, Any], Path]]:
    """A class of so many seats, its server, and the folder of its journal."""
    for name in ("collection.toml", "labs", "checks", "images", "tools"):
        (root / name).symlink_to(paths.root() / name)
    seats = [f"Seat {number}" for number in range(1, count + 1)]
    (root / "bench.toml").write_text(CLASS.format(seats=json.dumps(seats)))
    env = {**os.environ, "FAULTLAB_ROOT": str(root)}
    command = [sys.executable, "-m", "faultlab", "class"]
    start = [*command, "start", "bench.toml", "--port", "0", "--json"]
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True, cwd=root, env=env) as server:
        assert server.stdout is not None
        said = ""
        try:
            while not said.rstrip().endswith("}\n}"):
                said += server.stdout.readline()
            yield json.loads(said), root / "classes/bench"
        finally:
            subprocess.run([*command, "end", "bench.toml"], cwd=root, env=env, check=True)


def wait(folder: Path, count: int) -> str:
    """Until no seat is starting any more; how they came out."""
    while True:
        ends = {e["seat"]: e["event"] for e in journal(folder) if e["event"] in ("ready", "failed")}
        if len(ends) == count:
            return ", ".join(f"{n} {word}" for word, n in Counter(ends.values()).items())
        time.sleep(0.5)


def journal(folder: Path) -> list[dict[str, Any]]:
    """Return the events of the class."""
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def memory(stack: Stack) -> float:
    """Of all containers of a stack, in MB, as `docker stats` counts it."""
    total = 0.0
    for machine in stack.values():
        stats: Any = machine.container.stats(stream=False)
        used = stats["memory_stats"]
        inactive = used["stats"].get("total_inactive_file", used["stats"].get("inactive_file", 0))
        total += (used["usage"] - inactive) / 1e6
    return total


def check(it: dict[str, Any]) -> tuple[float, str]:
    """The seconds of a check of the first seat, by its button, and what came of it."""
    token = it["seats"]["Seat 1"].split("token=")[1]
    headers = {"origin": it["url"], "cookie": f"faultlab-{it['class']}={token}"}
    began = time.monotonic()
    answer = httpx.post(f"{it['url']}/seat/1/check", headers=headers, timeout=120)
    return time.monotonic() - began, "measured" if answer.is_success else answer.text


if __name__ == "__main__":
    main()
