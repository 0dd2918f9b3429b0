"""CPU reference: the speed of this machine's CPUs now, for ratios between two moments.

The same host can be a third slower for a while although no other program runs and no time is
stolen, because its neighbours share caches, clock and hyper-threads. This command does the work,
not the stack, where a learner could slow the reference down to lower the bar.
"""

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor

_SECONDS = 0.05
_BLOCK = bytes(16 << 10)  # hashlib releases the interpreter's lock for blocks of this size
_MOST = 4  # CPUs; if there are more, the rest is likely to be the same


def measure() -> float:
    """Return the MiB that all CPUs of this command together hash in a second of CPU time."""
    threads = min(_MOST, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(_hash, [_SECONDS] * threads))


def _hash(seconds: float) -> float:
    count, began = 0, time.thread_time()  # CPU time, so other programs do not matter
    while (took := time.thread_time() - began) < seconds:
        hashlib.sha256(_BLOCK)
        count += 1
    return count * len(_BLOCK) / took / (1 << 20)
