"""Case: one lab, once: its contract, judged by pytest in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from faultlab import check, paths, rotation
from faultlab.command import DIE_WITH_US
from faultlab.lab import Lab
from faultlab.record import worst

_CASE_SECONDS = {"local": 600, "vm": 1800}  # without KVM everything takes many times as long


def namespace() -> str:
    """The namespace of the stacks of checks: never the one that a learner's labs are in."""
    own = os.environ.get("FAULTLAB_NAMESPACE", "")
    return own if own.split("-")[-1] == "verify" else f"{own}-verify".lstrip("-")


@dataclass(frozen=True)
class Case:
    """One walk through one lab and its verdict: pass, fail, unknown or skip."""

    lab: str
    number: int
    verdict: str
    seconds: float
    run: str = ""
    reason: str = ""
    tests: list[dict[str, str]] = field(default_factory=list)
    engine: str = ""


class Runner:
    """Runs cases, several at a time if asked, and can stop them all."""

    def __init__(self, engines: Mapping[str, str], quick: bool = False) -> None:
        self._engines = engines  # by lab
        self._quick = {rotation.QUICK: "1" if quick else ""}
        self._live: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, lab: Lab, number: int) -> Case:
        """Run one case to its end."""
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="faultlab-") as folder:
            file = Path(folder, "verdicts.json")
            why = self._pytest(lab, file, Path(folder, "said.txt"))
            seconds = round(time.monotonic() - started, 1)
            try:
                told = json.loads(file.read_text())
            except (OSError, ValueError):
                return Case(lab.id, number, "unknown", seconds, reason=f"pytest: {why}")
        tests: list[dict[str, str]] = told["tests"]
        verdict = worst(tests) or "unknown"
        texts = [t["text"] for t in tests if t["verdict"] == verdict and t["text"]]
        reason = texts[0] if texts else "" if verdict == "pass" else f"pytest: {why}"
        engine = self._engines[lab.id]
        return Case(lab.id, number, verdict, seconds, told["run"], reason, tests, engine)

    def _pytest(self, lab: Lab, verdicts: Path, said: Path) -> str:
        """Run pytest on the lab's check and return the last line that it printed."""
        if self._stopped:
            return "stopped"
        seconds = _CASE_SECONDS[self._engines[lab.id]]
        file = check.file_of(lab.id)
        pytest = [sys.executable, "-m", "pytest", "-q", "--no-header", "-W", "default"]
        with said.open("w") as out:
            process = subprocess.Popen(
                [*DIE_WITH_US, *pytest, f"--verdicts={verdicts}", str(file)],
                cwd=paths.root(),
                env={
                    **os.environ,
                    **self._quick,
                    "FAULTLAB_NAMESPACE": namespace(),
                    "FAULTLAB_ENGINE": self._engines[lab.id],
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self._live.add(process)
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
            return f"it did not end within {seconds} s"
        self._live.discard(process)  # not when we are interrupted: `stop` must still find it
        return (said.read_text(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]

    def stop(self) -> None:
        """Tell every case to take its stack down, and wait until it has."""
        self._stopped = True
        for process in list(self._live):
            process.terminate()
        for process in list(self._live):
            process.wait()
