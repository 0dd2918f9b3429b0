"""Result: the cases of a verify, printed as they end and stored as JSON and JUnit XML.

The files are written after every case, so a later failure loses nothing.
"""

import threading
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from faultlab.core import events, paths
from faultlab.core.errors import CannotRun, SaidNo
from faultlab.core.events import Kind
from faultlab.core.terminal import Terminal
from faultlab.run.record import VERDICTS, worst
from faultlab.verify.campaign import Campaign, Document
from faultlab.verify.case import Case


class Result:
    """Collects the cases of a campaign, prints them, and updates the result files.

    Cases that the campaign starts with are from an earlier verify, and are printed as such.
    """

    def __init__(
        self, term: Terminal, campaign: Campaign, json_file: str | None, junit_file: str | None
    ) -> None:
        self.term = term
        self.campaign = campaign
        self.json_file = Path(json_file) if json_file else None
        self.junit_file = Path(junit_file) if junit_file else None
        self.guard = threading.Lock()
        for case in self.cases:
            self._print(case, "  kept")
        self._write()  # replaces an older result before the first case

    @property
    def cases(self) -> list[Case]:
        """Return the cases so far."""
        return self.campaign.cases

    def add(self, case: Case) -> None:
        """Print a case and write the files."""
        with self.guard:
            self.cases.append(case)
            self._print(case)
            self._write()

    def _print(self, case: Case, more: str = "") -> None:
        repeat = self.campaign.repeat
        count = f" {case.number}/{repeat}" if repeat > 1 else ""
        self.term.say(f"{case.verdict:<9} {case.lab + count:<24} {case.seconds:6.1f} s{more}")
        if case.verdict != "pass":
            self.term.say(f"          {case.reason}")
        text = f"{case.verdict}: {case.reason}".removesuffix(": ")
        self.term.event(events.Step(Kind.STEP, case.lab + count, text, case.seconds))

    def _write(self) -> None:
        if self.json_file:
            self.campaign.write(self.json_file)
        if self.junit_file:
            ET.ElementTree(junit(self.cases)).write(
                self.junit_file, encoding="utf-8", xml_declaration=True
            )

    def conclude(self) -> Document:
        """Print the counts and return the content of the file.

        Raises SaidNo for a fail, else CannotRun for an unknown.
        """
        counts = Counter(case.verdict for case in self.cases)
        words = [f"{counts[v]} {v}" for v in reversed(VERDICTS) if counts[v]]
        kept = sum(case.kept for case in self.cases)
        words += [f"{kept} of them kept from before"] if kept else []
        self.term.say(f"{len(self.cases)} cases: {', '.join(words)}")
        told = self.campaign.document
        if self.cases and not any(counts[v] for v in ("pass", "fail", "unknown")):
            raise CannotRun("Every lab was skipped, nothing is verified.", "faultlab doctor", told)
        for verdict, kind in (("fail", SaidNo), ("unknown", CannotRun)):
            bad = [case for case in self.cases if case.verdict == verdict]
            if bad:
                record = paths.show(paths.runs() / bad[0].run / "run.json")
                raise kind(
                    f"{counts[verdict]} of {len(self.cases)} cases: {verdict}.",
                    bad[0].hint or (f"less {record}" if bad[0].run else "faultlab doctor"),
                    told,
                )
        return told


def junit(cases: Sequence[Case]) -> ET.Element:
    """Return the cases as JUnit XML: a suite for each case, a test case for each test."""
    top = ET.Element("testsuites")
    for case in cases:
        name = f"{case.lab}.{case.number}"
        suite = ET.SubElement(top, "testsuite", name=name, time=str(case.seconds))
        if case.kept:
            kept = ET.SubElement(ET.SubElement(suite, "properties"), "property", name="kept")
            kept.set("value", "from an earlier verify that was interrupted")
        tests = case.tests
        if worst(tests) != case.verdict:  # there are no tests, or not all of them
            tests = [*tests, {"test": "walk", "verdict": case.verdict, "text": case.reason}]
        kinds = {"fail": "failure", "unknown": "error", "skip": "skipped"}
        for test in tests:
            node = ET.SubElement(suite, "testcase", classname=name, name=test["test"])
            if test["verdict"] in kinds:
                ET.SubElement(node, kinds[test["verdict"]], message=_printable(test["text"]))
        suite.set("tests", str(len(tests)))
        for verdict, of in (("fail", "failures"), ("unknown", "errors"), ("skip", "skipped")):
            suite.set(of, str(sum(t["verdict"] == verdict for t in tests)))
    return top


def _printable(text: str) -> str:
    """Drop control characters, which programs print and XML cannot hold."""
    return "".join(c for c in text if c.isprintable() or c in "\t\n")
