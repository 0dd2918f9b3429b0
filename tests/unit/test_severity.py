"""Severities: a lab at another dose, what is refused, and what a dose that nobody feels changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultlab.core.errors import BadInput
from faultlab.core.naming import flat, stack_name
from faultlab.lab import checks, severity
from faultlab.lab import loader as labs
from faultlab.lab.limits import at_most
from faultlab.run import digest, rotation
from tests.unit.conftest import Project
from tests.unit.conftest import Run as Verbs

ROWS = """
[[severity]]
name = "100"
size = 100
most = 0

[[severity]]
name = "0.5%"
size = 200.5

[[severity]]
name   = "1400"
silent = true
size   = 1400

[[inject]]"""
BY_DOSE = """
def check(dose):
    page = Measure("page", "page.bytes", at_most(dose["most"]))
    return Check(look, inspect, symptom=(page,))
"""


@pytest.fixture
def dosed(project: Project) -> Path:
    """The folder of mtu, whose fault has three doses."""
    file = project.root / "labs/mtu/lab.toml"
    text = file.read_text().replace("\n[[inject]]", ROWS, 1)
    file.write_text(text.replace("dev eth0 mtu 100", "dev eth0 mtu @{size}"))
    return file


def refused(file: Path, old: str, new: str) -> str:
    """Return what is said of the file after a change."""
    before = file.read_text()
    assert old in before
    file.write_text(before.replace(old, new, 1))
    with pytest.raises(BadInput) as caught:
        labs.load("mtu")
    file.write_text(before)
    return caught.value.message


@pytest.mark.usefixtures("dosed")
class TestALab:
    """A lab with three rows."""

    def test_without_a_dose_it_has_the_first_row(self) -> None:
        lab = labs.load("mtu")
        assert (lab.id, lab.main, lab.silent) == ("mtu", True, False)
        assert lab.inject[0].run == "ip link set dev eth0 mtu 100"
        assert labs.load("mtu@100") == lab

    def test_it_has_another_id_and_other_steps_at_another_row(self) -> None:
        lab = labs.load("mtu@0.5%")
        assert (lab.id, lab.alias, lab.main) == ("mtu@0.5%", "mtu@0.5%", False)
        assert lab.inject[0].run == "ip link set dev eth0 mtu 200.5"
        assert lab.dose is not None and lab.dose["most"] == 0  # that of the row above
        assert stack_name(lab.id) == stack_name("mtu-0-5") and flat("acme/x@3%") == "acme-x-3"
        assert [fault.id for fault in lab.faults] == ["mtu"]
        for each in ("mtu", "mtu@0.5%"):
            rows = [one.id for one in labs.rows(labs.load(each))]
            assert rows == ["mtu", "mtu@0.5%", "mtu@1400"]

    def test_the_ticket_of_a_weaker_dose_says_so(self) -> None:
        first, weaker = labs.load("mtu"), labs.load("mtu@1400")
        assert weaker.ticket.startswith(first.ticket.rstrip())
        assert "not always as bad" in weaker.ticket and "not always as bad" not in first.ticket

    def test_a_dose_that_it_does_not_have(self) -> None:
        with pytest.raises(BadInput, match=r"mtu has no severity '3%'; it has 100, 0\.5%, 1400"):
            labs.load("mtu@3%")
        with pytest.raises(BadInput, match="gzip has no severity '3'; it has only one strength"):
            labs.load("gzip@3")
        assert not labs.here("mtu@3%") and labs.here("mtu@1400")
        with pytest.raises(BadInput, match="no lab called 'mtv@3%'; did you mean mtu"):
            labs.load("mtv@3%")

    def test_only_the_first_row_has_the_whole_contract(self) -> None:
        assert rotation.remedies(labs.load("mtu")).cheats
        assert rotation.remedies(labs.load("mtu@0.5%")) == rotation.Remedies([], [], [])
        assert digest.walk("mtu") != digest.walk("mtu@0.5%")

    def test_the_list_says_what_there_is(self, faultlab: Verbs) -> None:
        lines = faultlab("list", "--severities").out.splitlines()
        found = [line.split() for line in lines if line.startswith("p02")]
        assert [line[0] for line in found] == ["p02", "p02@0.5%", "p02@1400"]
        assert found[1][1:3] == ["the", "fault"] and found[2][1] == "nothing"
        told = json.loads(faultlab("list", "--severities", "--json").out)
        assert "mtu" in [lab["id"] for lab in told]

    def test_what_nobody_feels_is_not_started(self, faultlab: Verbs) -> None:
        got = faultlab("start", "mtu@1400")
        assert got.code == 2
        assert "Users do not notice mtu@1400, so there is nothing to repair." in got.err

    def test_a_check_can_follow_the_dose(self, project: Project) -> None:
        file = project.root / "checks/test_mtu.py"
        file.write_text(file.read_text() + BY_DOSE)
        good = checks.load(labs.load("mtu@0.5%")).symptom[0].good
        assert good == at_most(0)
        file.write_text(file.read_text().replace('dose["most"]', 'dose["least"]'))
        with pytest.raises(BadInput, match="severity 100 has no number 'least'; it has size, most"):
            checks.load(labs.load("mtu"))


def test_what_is_wrong_with_a_row_is_said(dosed: Path) -> None:
    assert "expected one of @{size}, @{most}, got @{sise}" in refused(dosed, "@{size}", "@{sise}")
    assert "severity 0.5%: siz: the first row has no such number" in refused(
        dosed, "size = 200.5", "siz = 200.5"
    )
    assert "severity 0.5%: size: expected it to grow, or to fall" in refused(dosed, "200.5", "100")
    assert "severity 1400: size: expected it to grow, or to fall" in refused(dosed, "1400\n", "9\n")
    assert "severity 0.5%: expected rows that users feel before silent ones" in refused(
        dosed,
        'name = "0.5%"',
        'name = "150"\nsilent = true\nsize = 150\n\n[[severity]]\nname = "0.5%"',
    )
    assert "expected a first row that users feel" in refused(
        dosed, "most = 0", "most = 0\nsilent = true"
    )
    assert "severity 0.5%: its numbers change nothing in [[inject]]" in refused(
        dosed, "mtu @{size}", "mtu 100"
    )
    assert "got two of '100'" in refused(dosed, '"0.5%"', '"100%"')
    assert "severity[1].name" in refused(dosed, '"0.5%"', '"A little"')
    assert "severity[1].size" in refused(dosed, "200.5", '"200"')


def test_a_row_alone_and_a_name_without_rows(project: Project) -> None:
    file = project.root / "labs/mtu/lab.toml"
    assert "expected several rows, or none" in refused(
        file, "\n[[inject]]", '\n[[severity]]\nname = "1"\nsize = 1\n[[inject]]'
    )
    assert "expected one of [[severity]] rows, got @{size}" in refused(
        file, "mtu 100", "mtu @{size}"
    )


def test_numbers_in_texts() -> None:
    row = {"loss": 0.1, "rate": 30.0}
    assert severity.filled({"run": ["loss @{loss}%", 3]}, row) == {"run": ["loss 0.1%", 3]}
    assert severity.filled("@{rate} of @{rate}", row) == "30 of 30"
