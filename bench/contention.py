#!/usr/bin/env python3
"""How labs are judged while other programs come and go on the machine.

`stress-ng --cpu N` runs for 5 to 20 seconds, then rests for 10 to 40, at random but from a seed;
beside it `faultlab verify` walks the labs. None of them may fail, and few may stay unknown.

Usage: bench/contention.py [--seed S] [--cpus N] [--repeat N] [--engine E] LAB...
Needs: stress-ng. Leaves nothing running. Exits as verify does.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

BUSY = (5.0, 20.0)  # seconds
CALM = (10.0, 40.0)


def come_and_go(dice: random.Random, cpus: int, over: threading.Event, spent: list[float]) -> None:
    """Run stress-ng in turns until it is over, and note how long each turn was."""
    while not over.is_set():
        seconds = dice.uniform(*BUSY)
        command = ["stress-ng", "--quiet", "--cpu", str(cpus), "--timeout", f"{seconds:.0f}s"]
        with subprocess.Popen(command) as burner:
            while burner.poll() is None and not over.wait(0.2):
                pass
            burner.terminate()
        spent.append(seconds)
        over.wait(dice.uniform(*CALM))


def main() -> int:
    """Walk the labs beside the burners and print what became of them."""
    wanted = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    wanted.add_argument("labs", nargs="+")
    wanted.add_argument("--seed", type=int, default=1)
    wanted.add_argument("--cpus", type=int, default=2)
    wanted.add_argument("--repeat", default="1")
    wanted.add_argument("--engine", default="auto")
    asked = wanted.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    over, spent = threading.Event(), list[float]()
    burner = threading.Thread(
        target=come_and_go, args=(random.Random(asked.seed), asked.cpus, over, spent)
    )
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "result.json")
        verify = [str(root / ".venv/bin/faultlab"), "verify", *asked.labs, "--quick"]
        verify += ["--repeat", asked.repeat, "--engine", asked.engine, "--json", str(file)]
        began = time.monotonic()
        burner.start()
        walks = subprocess.Popen(verify)
        try:
            status = walks.wait()
        finally:
            over.set()
            walks.terminate()  # unless it has ended; it takes its stacks down
            walks.wait()
            burner.join()
        took = time.monotonic() - began
        cases = json.loads(file.read_text())["cases"]
    verdicts = Counter(case["verdict"] for case in cases)
    again = [looked_again(root, case["run"]) for case in cases]
    print(f"seed {asked.seed}: busy for {sum(spent):.0f} of {took:.0f} s, in {len(spent)} turns")
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    print(f"looks that were taken again: {sum(again)}, in {sum(map(bool, again))} walks")
    return status


def looked_again(root: Path, run: str) -> int:
    """Return how many looks of a run were spoiled."""
    file = root / "runs" / run / "run.json"
    if not run or not file.is_file():
        return 0
    return sum(event["event"] == "undecided" for event in json.loads(file.read_text())["events"])


if __name__ == "__main__":
    sys.exit(main())
