"""Result: the cases of a verify, printed as they end and kept as JSON and JUnit XML.

The files are written after every case, so that a later failure loses nothing.
"""

from __future__ import annotations

import json
import threading
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from faultlab.case import Case
from faultlab.errors import CannotRun, SaidNo
from faultlab.record import VERDICTS
from faultlab.terminal import Terminal

SCHEMA = 1


class Result:
    """Collects cases, prints them, and keeps the result files up to date."""

    def __init__(
        self,
        term: Terminal,
        json_file: str | None,
        junit_file: str | None,
        repeat: int,
    ) -> None:
        self.repeat = repeat
        self.term = term
        self.cases: list[Case] = []
        self.json_file = Path(json_file) if json_file else None
        self.junit_file = Path(junit_file) if junit_file else None
        self.guard = threading.Lock()
        self._write()  # so that no older result stands for a run that never came to its first case

    def add(self, case: Case) -> None:
        """Print a case and write the files."""
        with self.guard:
            self.cases.append(case)
            count = f" {case.number}/{self.repeat}" if self.repeat > 1 else ""
            self.term.say(f"{case.verdict:<9} {case.lab + count:<24} {case.seconds:6.1f} s")
            if case.verdict != "pass":
                self.term.say(f"          {case.reason}")
            self._write()

    def _write(self) -> None:
        counts = {v: sum(case.verdict == v for case in self.cases) for v in reversed(VERDICTS)}
        if self.json_file:
            document = {
                "schema": SCHEMA,
                "counts": counts,
                "cases": [asdict(case) for case in self.cases],
            }
            self.json_file.write_text(json.dumps(document, indent=1) + "\n")
        if self.junit_file:
            ET.ElementTree(junit(self.cases)).write(
                self.junit_file, encoding="utf-8", xml_declaration=True
            )

    def conclude(self) -> None:
        """Print the counts. Raises SaidNo for a fail, else CannotRun for an unknown."""
        counts = {v: sum(case.verdict == v for case in self.cases) for v in reversed(VERDICTS)}
        words = ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)
        self.term.say(f"{len(self.cases)} cases: {words}")
        if self.cases and not any(counts[v] for v in ("pass", "fail", "unknown")):
            raise CannotRun("Every lab was skipped, nothing is verified.", "faultlab doctor")
        for verdict, kind in (("fail", SaidNo), ("unknown", CannotRun)):
            bad = [case for case in self.cases if case.verdict == verdict]
            if bad:
                raise kind(
                    f"{counts[verdict]} of {len(self.cases)} cases: {verdict}.",
                    f"less runs/{bad[0].run}/run.json" if bad[0].run else "faultlab doctor",
                )


def junit(cases: Sequence[Case]) -> ET.Element:
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
                ET.SubElement(node, kinds[test["verdict"]], message=_printable(test["text"]))
        suite.set("tests", str(len(tests)))
        suite.set("failures", str(sum(t["verdict"] == "fail" for t in tests)))
        suite.set("errors", str(sum(t["verdict"] == "unknown" for t in tests)))
        suite.set("skipped", str(sum(t["verdict"] == "skip" for t in tests)))
    return top


def _printable(text: str) -> str:
    """XML has no place for control characters, and programs print them."""
    return "".join(c for c in text if c.isprintable() or c in "\t\n")
