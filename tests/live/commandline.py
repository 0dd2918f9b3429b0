"""The command line, as a user or a killer meets it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def words(*arguments: str) -> list[str]:
    """Return the command line as it is where somebody can press Ctrl-C.

    A shell without job control, as CI has, lets its background jobs ignore that.
    """
    return ["env", "--default-signal=INT", sys.executable, "-m", "faultlab", *arguments]


def spawn(*arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start the command line in a process group of its own, as a shell does."""
    return subprocess.Popen(
        words(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, **(env or {})},
    )


def finish(process: subprocess.Popen[str], timeout: float = 600) -> tuple[int, str]:
    """Wait for its end, so many seconds at most: exit code and output."""
    said, _ = process.communicate(timeout=timeout)
    return process.returncode, said


def ended(
    command: Sequence[str],
    *,
    timeout: float,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Run a program without input to its end: exit code and output."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        cwd=cwd,
        env=env,
        check=False,
    )
    return done.returncode, done.stdout


def kill_9(process: subprocess.Popen[str]) -> None:
    """End it as the OOM killer would."""
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
