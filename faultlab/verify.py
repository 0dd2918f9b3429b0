"""Verify: the whole contract of labs, each walk judged by pytest in a process of its own.

A case is one lab, once. Cases of labs that measure load run alone, so that they do not measure
each other. The result file is written after every case.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from faultlab import doctor, paths
from faultlab import lab as labs
from faultlab.command import DIE_WITH_US
from faultlab.engine import Engine
from faultlab.errors import BadInput, CannotRun, SaidNo
from faultlab.lab import Lab
from faultlab.run import ensure_images
from faultlab.terminal import Terminal

_CASE_SECONDS = 600
_ORDER = ("fail", "unknown", "skip", "pass")  # the worst verdict of its tests is a case's verdict


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


def verify(
    term: Terminal,
    lab_ids: Sequence[str],
    *,
    everything: bool = False,
    jobs: int = 1,
    repeat: int = 1,
    json_file: str | None = None,
    junit_file: str | None = None,
) -> None:
    """Run the cases and print a line each. Raises SaidNo for a fail, CannotRun for an unknown."""
    if bool(lab_ids) == everything:
        raise BadInput("Name some labs, or say --all.", "faultlab verify --help")
    if jobs < 1 or repeat < 1:
        raise BadInput("--jobs and --repeat take a number from 1 up.", "faultlab verify --help")
    for name in (json_file, junit_file):
        if name and not Path(name).absolute().parent.is_dir():
            raise BadInput(f"There is no folder for {name}.", f"mkdir -p {Path(name).parent}")
    chosen = [labs.load(lab_id) for lab_id in (labs.ids() if everything else lab_ids)]
    engine = Engine()
    with term.step("images", "looking for what has to be built") as step:
        ensure_images(engine, step.note)
        step.done("ready")
    with term.step("doctor", "trying what this machine can run") as step:
        facts, lacking = doctor.examine(engine)
        step.done("tried")
    amiss = [fact for fact in facts if not fact.ok]
    if amiss:
        raise CannotRun(f"{amiss[0].name}: {amiss[0].text}.", "faultlab doctor")
    outlooks = {lab.id: doctor.outlook(lab, lacking) for lab in chosen}
    skipped = [
        Case(o.lab, 1, "skip", 0.0, reason=o.reason)
        for o in outlooks.values()
        if o.verdict != "RUN"
    ]
    runnable = [lab for lab in chosen if outlooks[lab.id].verdict == "RUN"]
    result = _Result(term, engine, json_file, junit_file)
    for case in skipped:
        result.add(case, repeat)
    _run_all(term, runnable, jobs, repeat, result)
    result.conclude()


def _run_all(term: Terminal, chosen: list[Lab], jobs: int, repeat: int, result: _Result) -> None:
    """Labs that measure load one after the other, the rest `jobs` at a time.

    The cases of one lab follow each other, since they share the name of a stack.
    """
    calm = [lab for lab in chosen if not lab.load] if jobs > 1 else []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting: list[Future[None]] = [
            pool.submit(_repeat, None, lab, repeat, result) for lab in calm
        ]
        for future in waiting:
            future.result()
    for number in range(1, repeat + 1):
        for lab in chosen:
            if lab not in calm:
                result.add(_case(term, lab, number, repeat), repeat)


def _repeat(term: Terminal | None, lab: Lab, repeat: int, result: _Result) -> None:
    for number in range(1, repeat + 1):
        result.add(_case(term, lab, number, repeat), repeat)


def _case(term: Terminal | None, lab: Lab, number: int, repeat: int) -> Case:
    """Run one case in a pytest process of its own."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faultlab-") as folder:
        verdicts = Path(folder, "verdicts.json")
        file = paths.checks() / f"test_{lab.id.replace('-', '_')}.py"
        pytest = [sys.executable, "-m", "pytest", "-q", "--no-header", f"--verdicts={verdicts}"]
        process = subprocess.Popen(
            [*DIE_WITH_US, *pytest, str(file)],
            cwd=paths.root(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            said, _ = process.communicate(timeout=_CASE_SECONDS)
            why = (said.strip().splitlines() or ["it printed nothing"])[-1]
        except subprocess.TimeoutExpired:
            process.terminate()  # it takes its stack down on SIGTERM
            process.communicate()
            why = f"it did not end within {_CASE_SECONDS} s"
        seconds = round(time.monotonic() - started, 1)
        try:
            told = json.loads(verdicts.read_text())
        except (OSError, ValueError):
            return Case(lab.id, number, "unknown", seconds, reason=f"pytest: {why}")
    tests: list[dict[str, str]] = told["tests"]
    verdict = next((v for v in _ORDER if any(t["verdict"] == v for t in tests)), "unknown")
    reason = next((t["text"] for t in tests if t["verdict"] == verdict and t["text"]), "")
    return Case(lab.id, number, verdict, seconds, told["run"], reason, tests)


class _Result:
    """Collects cases, prints them, and keeps the result files up to date."""

    def __init__(
        self, term: Terminal, engine: Engine, json_file: str | None, junit_file: str | None
    ) -> None:
        self.term = term
        self.cases: list[Case] = []
        self.json_file = Path(json_file) if json_file else None
        self.junit_file = Path(junit_file) if junit_file else None
        self.context = {"engine": engine.name, "kernel": engine.info().get("KernelVersion", "")}
        self.guard = threading.Lock()

    def add(self, case: Case, repeat: int) -> None:
        """Print a case and write the files."""
        with self.guard:
            self.cases.append(case)
            count = f" {case.number}/{repeat}" if repeat > 1 else ""
            self.term.say(f"{case.verdict:<9} {case.lab + count:<24} {case.seconds:6.1f} s")
            if case.verdict != "pass":
                self.term.say(f"          {case.reason}")
            self._write()

    def _write(self) -> None:
        counts = {v: sum(case.verdict == v for case in self.cases) for v in reversed(_ORDER)}
        if self.json_file:
            document = {
                "schema": 1,
                **self.context,
                "counts": counts,
                "cases": [asdict(case) for case in self.cases],
            }
            self.json_file.write_text(json.dumps(document, indent=1) + "\n")
        if self.junit_file:
            ET.ElementTree(_junit(self.cases)).write(
                self.junit_file, encoding="utf-8", xml_declaration=True
            )

    def conclude(self) -> None:
        """Print the counts. Raises SaidNo for a fail, else CannotRun for an unknown."""
        counts = {v: sum(case.verdict == v for case in self.cases) for v in reversed(_ORDER)}
        words = ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)
        self.term.say(f"{len(self.cases)} cases: {words}")
        for verdict, kind in (("fail", SaidNo), ("unknown", CannotRun)):
            bad = [case for case in self.cases if case.verdict == verdict]
            if bad:
                raise kind(
                    f"{counts[verdict]} of {len(self.cases)} cases: {verdict}.",
                    f"less runs/{bad[0].run}/run.json" if bad[0].run else "faultlab doctor",
                )


def _junit(cases: Sequence[Case]) -> ET.Element:
    """The cases as JUnit XML: a suite for each case, a test case for each test."""
    top = ET.Element("testsuites")
    for case in cases:
        name = f"{case.lab}.{case.number}"
        suite = ET.SubElement(top, "testsuite", name=name, time=str(case.seconds))
        tests = case.tests or [
            {"test": "walk", "verdict": case.verdict, "text": case.reason},
        ]
        kinds = {"fail": "failure", "unknown": "error", "skip": "skipped"}
        for test in tests:
            node = ET.SubElement(suite, "testcase", classname=name, name=test["test"])
            if test["verdict"] in kinds:
                ET.SubElement(node, kinds[test["verdict"]], message=test["text"])
        suite.set("tests", str(len(tests)))
        suite.set("failures", str(sum(t["verdict"] == "fail" for t in tests)))
        suite.set("errors", str(sum(t["verdict"] == "unknown" for t in tests)))
        suite.set("skipped", str(sum(t["verdict"] == "skip" for t in tests)))
    return top
