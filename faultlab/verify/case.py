"""Case: one walk through one lab: its contract, judged by pytest in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from faultlab.core import lock, naming, paths, scratch
from faultlab.core.command import DIE_WITH_US
from faultlab.core.errors import BadInput
from faultlab.lab import checks
from faultlab.lab.model import Lab
from faultlab.run import digest, placement, rotation
from faultlab.run.record import Record, worst

_JUDGED = (0, 1)  # exit codes of pytest when every test has a verdict: all passed, or some failed
_INTERRUPTED = 2  # also if a check file cannot be imported; then no test was collected
_TOLD_TO_STOP = (-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP)
PLACE = ("commit", "kernel", "cpus")  # facts that a case copies from the record of its run
_START_SECONDS = 20  # after these other cases need not wait for it any more
_END_SECONDS = 60  # for the clean-up
_PYTEST = (
    *(*DIE_WITH_US, sys.executable, "-m", "pytest", "-q", "--no-header", "-W", "default"),
    # An installed package has no pyproject.toml, and pytest would look for one above it.
    *("-c", os.devnull, "-p", "no:cacheprovider"),
)


@dataclass(frozen=True)
class Made:
    """One walk through one lab: its verdict, and where and from which state it was made."""

    lab: str
    number: int
    verdict: str
    seconds: float = 0.0
    run: str = ""
    reason: str = ""
    engine: str = ""
    began: str = ""
    commit: str = ""
    kernel: str = ""
    cpus: int = 0
    lab_digest: str = ""


@dataclass(frozen=True)
class Case(Made):
    """A walk that verify has made: pass, fail, unknown or skip.

    `lab_digest` and `program_digest`: of what it depends on. `interrupted`: it was stopped, so it
    proves nothing. `kept`: made by an earlier verify that was interrupted.
    """

    tests: list[dict[str, str]] = field(default_factory=list)
    program_digest: str = ""
    interrupted: bool = False
    kept: bool = False

    @property
    def hint(self) -> str:
        """Return the command to type next, if a test with the verdict of the case has one."""
        hints = [test.get("hint", "") for test in self.tests if test["verdict"] == self.verdict]
        return next(filter(None, hints), "")


@dataclass(frozen=True)
class CaseEnd:
    """How pytest ended: its exit code (None after a time-out) and its last words."""

    code: int | None
    words: str


class Runner:
    """Runs cases, several at a time if asked, and can stop them all."""

    def __init__(self, engines: Mapping[str, str], quick: bool = False) -> None:
        self.engines = engines  # their names, by lab
        self.quick = quick
        self._quick = {rotation.QUICK: os.environ.get(rotation.QUICK) or "1" if quick else ""}
        self._live: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, lab: Lab, number: int) -> Case:
        """Run one case to its end."""
        began = datetime.now(UTC).isoformat(timespec="milliseconds")
        with lock.turn(alone=False):
            made_of = digests(lab.id)
        started = time.monotonic()
        with scratch.folder() as folder:
            file = Path(folder, "verdicts.json")
            ended = self._pytest(lab, file, Path(folder, "said.txt"))
            told = _report(file)
        tests: list[dict[str, str]] = told["tests"]
        verdict, reason = _judged(ended, told["collected"], tests)
        record = Record.open(told["run"])
        if record and record.verdict not in ("", verdict):  # conftest stored half a session
            record.tests.append({"test": "walk", "verdict": verdict, "text": reason})
            record.save()
        return Case(
            lab=lab.id,
            number=number,
            verdict=verdict,
            seconds=round(time.monotonic() - started, 1),
            run=told["run"],
            reason=reason,
            tests=tests,
            engine=self.engines[lab.id],
            began=began,
            **{key: record.facts[key] for key in PLACE if record and key in record.facts},
            **made_of,
            interrupted=self._interrupted(ended, told["collected"]),
        )

    def _interrupted(self, ended: CaseEnd, collected: list[str]) -> bool:
        """Return whether we or a signal stopped it; a time-out counts as a result."""
        if ended.code in _JUDGED or ended.code is None:
            return False
        by_hand = ended.code == _INTERRUPTED and bool(collected)
        return self._stopped or by_hand or ended.code in _TOLD_TO_STOP

    def _pytest(self, lab: Lab, verdicts: Path, said: Path) -> CaseEnd:
        """Run pytest on the lab's check to its end."""
        seconds = placement.ENGINES[self.engines[lab.id]].walk_seconds
        file = paths.checks() / checks.INCIDENT if lab.of else checks.files(lab)[0]
        beside, python = file.parent == paths.checks(), os.environ.get("PYTHONPATH", "")
        # The walk is in our conftest.py, which pytest finds for a file beside it only.
        words = [] if beside else ["--noconftest", "-p", "conftest"]
        path = python if beside else os.pathsep.join(filter(None, (str(paths.checks()), python)))
        # The start of pytest takes one or two seconds of CPU time, which would disturb a load.
        with lock.turn(alone=False), said.open("w") as out:
            if self._stopped:
                return CaseEnd(_TOLD_TO_STOP[0], "stopped")
            process = subprocess.Popen(
                [
                    *(*_PYTEST, *words),
                    *(f"--rootdir={paths.root()}", f"--verdicts={verdicts}", str(file)),
                ],
                cwd=paths.root(),
                env={
                    **os.environ,
                    **self._quick,
                    "FAULTLAB_NAMESPACE": naming.verify_namespace(),
                    "FAULTLAB_ENGINE": self.engines[lab.id],
                    "FAULTLAB_LAB": lab.id,
                    "PYTHONPATH": path,
                    "PYTEST_ADDOPTS": "",  # a user's `-k` must not deselect a test
                    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # plugins take half of its start
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
            self._live.add(process)
            begun = time.monotonic()
            while not verdicts.exists() and process.poll() is None:
                if time.monotonic() > begun + _START_SECONDS:
                    break
                time.sleep(0.05)
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            _wait_for_end(process)
            self._live.discard(process)
            return CaseEnd(None, f"it did not end within {seconds} s")
        self._live.discard(process)  # not if we are interrupted: `stop` must still find it
        lines = said.read_text(errors="replace").strip().splitlines()
        return CaseEnd(code, (lines or ["it printed nothing"])[-1])

    def stop(self) -> None:
        """Tell every case to remove its stack, and wait until it has."""
        self._stopped = True
        for process in list(self._live):
            process.terminate()
        for process in list(self._live):
            _wait_for_end(process)


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that was told to stop. It can lose the exception, so it is told again."""
    while True:
        try:
            process.wait(timeout=_END_SECONDS)
            return
        except subprocess.TimeoutExpired:
            process.terminate()


def digests(lab_id: str) -> dict[str, Any]:
    """Return digests of what a case of this lab depends on; empty if the lab cannot be read."""
    with suppress(BadInput, OSError):
        return {"lab_digest": digest.walk(lab_id), "program_digest": digest.program(lab_id)}
    return {}


def _report(file: Path) -> dict[str, Any]:
    """Return what conftest.py wrote; nothing if pytest died before it, or while it wrote."""
    try:
        told: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):
        return {"run": "", "collected": [], "tests": []}
    return told


def _judged(ended: CaseEnd, collected: list[str], tests: list[dict[str, str]]) -> tuple[str, str]:
    """Return the worst verdict and its reason, if pytest ended and all tests ran."""
    if ended.code not in _JUDGED:
        return "unknown", f"pytest: {ended.words}"
    never = list(Counter(collected) - Counter(test["test"] for test in tests))
    if never or not collected:
        return "unknown", f"pytest: {f'{never[0]} never ran' if never else 'no test was there'}"
    verdict = worst(tests)
    texts = [t["text"] for t in tests if t["verdict"] == verdict and t["text"]]
    return verdict, texts[0] if texts else "" if verdict == "pass" else f"pytest: {ended.words}"
