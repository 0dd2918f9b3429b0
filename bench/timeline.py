"""The cost of the timeline: the same load with and without it, side by side, and its own time.

Usage: .venv/bin/python bench/timeline.py [PAIRS]     (5; takes 20 s a pair)
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import Any

from faultlab.core.naming import stack_name
from faultlab.engine.docker.local import LocalEngine
from faultlab.lab import loader as labs
from faultlab.probes import wrk
from faultlab.run.run import Run

LAB = "repeat-queries"  # nginx, PHP-FPM and MariaDB, all of them read
SECONDS = 8


def main() -> None:
    """Print the requests a second of each pair, their ratios, and the meters' processor time."""
    os.environ["FAULTLAB_NAMESPACE"] = "bench"
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    engine = LocalEngine()
    engine.images.ensure(print)
    run = Run.begin(engine, labs.load(LAB), stack_name(LAB))
    try:
        client = run.stack["client"]
        wrk.bookings(client, connections=8, seconds=2)
        ratios = []
        for pair in range(pairs):
            speed = {}
            for on in (True, False) if pair % 2 else (False, True):
                run.collect(on)
                time.sleep(1)
                speed[on] = wrk.bookings(client, connections=8, seconds=SECONDS).good_per_second
            ratios.append(speed[True] / speed[False])
            print(f"with {speed[True]:7.1f}/s   without {speed[False]:7.1f}/s   {ratios[-1]:.3f}")
        print(f"median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")
        run.collect()
        time.sleep(10)
        for helper in engine.containers(stack=run.stack.name):
            if "com.docker.compose.service" not in helper.labels:
                stats: Any = helper.stats(stream=False)
                used = stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9
                print(
                    f"collector {helper.name}: {used:.2f} s of processor time in 10 s and its start"
                )
    finally:
        run.down()


if __name__ == "__main__":
    main()
