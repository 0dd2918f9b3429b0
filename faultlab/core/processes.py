"""Processes: `faultlab` commands that one of ours starts and follows, each in its own process."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faultlab.core import events
from faultlab.core.command import DIE_WITH_US
from faultlab.core.errors import CannotRun

_LONGEST = 2**20  # bytes of an event


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code, its result, and the reason if it failed.

    `next`: the command to type now, if it named one.
    """

    code: int
    facts: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    next: str = ""


class Processes:
    """The processes that run now. All methods run in one event loop."""

    def __init__(self) -> None:
        self._running: set[asyncio.subprocess.Process] = set()

    async def run(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        seconds: float | None,
        hear: Callable[[events.Step], None],
        *,
        with_us: Sequence[str] | None = None,
        folder: Path | None = None,
    ) -> Outcome:
        """Run `faultlab` with these words and wait for it, at most `seconds`.

        `hear` gets each of its steps. `with_us`: how it ends if we are killed. `folder`: where it
        runs, if not here.
        """
        process = await asyncio.create_subprocess_exec(
            *(with_us or DIE_WITH_US),
            *(sys.executable, "-m", "faultlab", *words, "--events"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **env},
            limit=_LONGEST,
            cwd=folder,
            process_group=0,  # so Ctrl-C reaches it once, through us
        )
        self._running.add(process)
        try:
            return await _ended(process, seconds, hear)
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
            self._running.discard(process)

    def terminate(self) -> None:
        """Tell all of them to end."""
        for process in self._running:
            process.terminate()

    async def gone(self) -> None:
        """Wait until all of them have ended."""
        while self._running:
            await asyncio.sleep(0.05)


async def _ended(
    process: asyncio.subprocess.Process, seconds: float | None, hear: Callable[[events.Step], None]
) -> Outcome:
    """Read the events of a process until it ends or its time is up."""
    assert process.stdout is not None
    facts: dict[str, Any] = {}
    error = after = last = ""
    try:
        async with asyncio.timeout(seconds):
            async for raw in process.stdout:
                line = raw.decode(errors="replace")
                match events.read(line):
                    case events.Step() as step:
                        hear(step)
                    case events.Result(data=facts):
                        pass
                    case events.Error(error=error, next=after):
                        pass
                    case None:  # text for people, or from Python itself
                        last = line.strip() or last
            return Outcome(await process.wait(), facts, error or last, after)
    except ValueError:  # a line is longer than the limit
        return Outcome(CannotRun.exit_code, facts, "it printed an endless line")
    except TimeoutError:
        return Outcome(CannotRun.exit_code, facts, f"it did not end within {seconds:g} s")
