"""Speed: how fast this machine's CPUs are now, so that a ratio can be taken against now.

The same host can be a third slower for a while although no other program runs and no time is
stolen: its neighbours share caches, clock and hyper-threads. The work is done by this command and
not by the stack, where somebody could slow a reference down to lower the bar.
"""

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor

_SECONDS = 0.05
_BLOCK = bytes(16 << 10)  # hashlib leaves the interpreter's lock for blocks as large as this
_MOST = 4  # CPUs; with more the rest is likely to be the same


def measure(seconds: float = _SECONDS) -> float:
    """Return the MiB that all CPUs together hash in a second of theirs."""
    threads = min(_MOST, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(_hash, [seconds] * threads))


def _hash(seconds: float) -> float:
    count, began = 0, time.thread_time()  # CPU time: who else wants the CPU does not matter here
    while (took := time.thread_time() - began) < seconds:
        hashlib.sha256(_BLOCK)
        count += 1
    return count * len(_BLOCK) / took / (1 << 20)
