"""Skewed: `faultlab` with a clock that is set while it runs, by a file with the seconds to add.

Only this process has that clock: the host's is not touched.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from faultlab.cli.main import main


def clock(file: Path, real: Callable[[], float]) -> Callable[[], float]:
    """Return a clock that is ahead of the real one by what the file says."""

    def now() -> float:
        try:
            return real() + float(file.read_text())
        except (OSError, ValueError):  # it is being written
            return real()

    return now


if __name__ == "__main__":
    time.time = clock(Path(sys.argv[1]), time.time)
    sys.exit(main(sys.argv[2:]))
