"""Processes: commands of the command line that run for a class, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faultlab.core.command import DIE_WITH_US
from faultlab.core.errors import CannotRun


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code, the facts that it printed as JSON, its last line."""

    code: int
    facts: dict[str, Any] = field(default_factory=dict)
    last: str = ""

    @property
    def error(self) -> str:
        """The reason why it failed, in its own words."""
        why: str = self.facts.get("error", self.last)
        return why


class Processes:
    """The processes that run now. All methods run in one event loop."""

    def __init__(self) -> None:
        self._running: set[asyncio.subprocess.Process] = set()

    async def run(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        seconds: float,
        hear: Callable[[str], None],
    ) -> Outcome:
        """Run `faultlab` with these words and wait for it, at most so long.

        `hear` gets each line as it comes.
        """
        process = await asyncio.create_subprocess_exec(
            *DIE_WITH_US,
            *(sys.executable, "-m", "faultlab", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **env, "PYTHONUNBUFFERED": "1"},
            cwd=Path(__file__).resolve().parents[2],
        )
        self._running.add(process)
        lines: list[str] = []
        try:
            code = await _ended(process, seconds, lines, hear)
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
            self._running.discard(process)
        return Outcome(code, _json(lines), _complaint(lines))

    def terminate(self) -> None:
        """Tell all of them to end."""
        for process in self._running:
            process.terminate()

    async def gone(self) -> None:
        """Wait until all of them have ended."""
        while self._running:
            await asyncio.sleep(0.05)


async def _ended(
    process: asyncio.subprocess.Process,
    seconds: float,
    lines: list[str],
    hear: Callable[[str], None],
) -> int:
    """Collect what a process prints until it ends or its time is over; return its exit code."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            async for raw in process.stdout:
                lines.append(raw.decode(errors="replace").rstrip())
                hear(lines[-1])
            return await process.wait()
    except TimeoutError:
        lines.append(f"it did not end within {seconds:g} s")
        return CannotRun.exit_code


def _json(lines: list[str]) -> dict[str, Any]:
    """Return the JSON object among the lines, if there is one."""
    text = "\n".join(lines)
    if "{" not in text:
        return {}
    try:
        facts, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _complaint(lines: list[str]) -> str:
    """Return the last line that says why something went wrong."""
    said = [line.removeprefix("faultlab: ") for line in lines if line.startswith("faultlab: ")]
    return (said or [line for line in lines if line] or [""])[-1]
