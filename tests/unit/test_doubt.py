"""Doubt: what the page tells a learner whose repair is refused is what the program says."""

from __future__ import annotations

import re
from inspect import getsource

import pytest
import yaml

from faultlab.lab import asks, checks, leftover, outage
from faultlab.lab import loader as labs
from faultlab.lab.check import Check
from faultlab.lab.finding import Finding
from faultlab.lab.leftover import Leftover
from faultlab.lab.limits import at_most_times
from faultlab.lab.outage import Outage
from faultlab.lab.reading import Reading
from faultlab.learn import checking
from faultlab.run import looks, serving
from tests.unit.conftest import REPO

PAGE = (REPO / "docs/doubt.md").read_text()
PLAIN = " ".join(PAGE.split())
FORM = yaml.safe_load((REPO / ".github/ISSUE_TEMPLATE/false-proof.yml").read_text())


def table(head: str) -> list[list[str]]:
    """Return the cells of the table whose head begins so."""
    lines = PAGE.split(f"| {head} |", 1)[1].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.split("|")[1:-1]])
    return rows


def test_the_rows_are_those_of_the_first_lab() -> None:
    block = re.search(r"```\n( +measured here.*?)```", PAGE, re.DOTALL)
    assert block and block[1] in (REPO / "docs/start.md").read_text()
    limit = at_most_times(5).words(0.038, "s")
    assert f"`{limit}`" in PLAIN


def odd() -> list[Finding]:
    """Return the findings that are not measures of the lab."""
    look, healthy = ({"web:80": x} for x in ("perl", "nginx"))
    check = Check(look=lambda _: None, inspect=lambda _: None, symptom=())
    found = check.good(
        Reading(
            None, answers={"http://web/": ["a"]}, serving={**look, "java on app": serving.STRAY}
        ),
        Reading(None, answers={"http://web/": ["b"]}, serving=healthy),
    )
    found += outage.findings(
        [Outage("web", 1), Outage("web", None), Outage("", None, "no response")]
    )
    sleep = Leftover("web", "sleep 600", waits=True)
    return [*found, *leftover.findings([sleep]), leftover.without([sleep], found)]


def test_the_odd_rows_have_their_names() -> None:
    said = {row[0].strip("`") for row in table("row")}
    assert said == {finding.name for finding in odd()} and asks.RIGHT == ": right answers"


@pytest.mark.parametrize("row", table("lab"), ids=lambda row: row[0].split("]")[0][1:])
def test_what_a_ticket_rules_out_has_a_row(row: list[str]) -> None:
    found = re.fullmatch(r"\[([a-z-]+)\]\(\.\./labs/\1/ticket\.md\)", row[0])
    assert found
    lab = labs.load(found[1])
    assert row[1] in " ".join(lab.ticket.split())
    measures = checks.load(lab).symptom
    name, _, wanted = row[2].partition(": ")
    (measure,) = [one for one in measures if one.name == name]
    assert measure.good.words(0, measure.unit) == wanted


def test_no_and_unknown_are_as_they_are_said() -> None:
    source = getsource(checking)
    for row in table("the last line"):
        line, code = row[0].strip("`"), row[1]
        if code == "1":
            how = line.removeprefix("mtu is not fixed ").removesuffix(".")
            assert f'"{how}"' in source and "is not fixed {how}{_progress(run)}." in source
        else:
            assert (code, looks.TOO_BUSY in line, "This machine is " in line) == ("3", True, True)
    assert "`1 of its 3 faults is gone`" in PLAIN and "of its {several} faults" in source


def test_a_report_needs_what_the_form_asks_for() -> None:
    assert f'form "{FORM["name"]}"' in PLAIN
    asked = {part["id"] for part in FORM["body"]}
    assert asked == {"lab", "kind", "typed", "record", "system"}
    for words in ("the lab, and what was wrong", "what you typed, on which machine", "show RUN"):
        assert words in PLAIN
    assert "faultlab doctor" in PLAIN and "your kernel and your CPUs" in PLAIN


def test_how_often_a_check_is_wrong_is_said_in_one_place() -> None:
    assert "[judge.md](judge.md)" in PLAIN
    assert not re.search(r"\d of \d|\d%|95", PLAIN.split("## When the check is wrong")[1])
