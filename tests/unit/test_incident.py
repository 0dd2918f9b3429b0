"""Labs that are put together by `+`: what such an incident has, and which cannot be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from faultlab.core.defaults import MYSTERY
from faultlab.core.errors import BadInput
from faultlab.core.naming import flat
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.finding import Finding
from faultlab.lab.incident import clash
from faultlab.run import digest, readings, rotation
from faultlab.run.run import Run as LabRun
from tests.unit.conftest import Project, Run


def test_it_has_what_its_labs_have() -> None:
    mtu, gzip, both = map(labs.load, ("mtu", "gzip", "mtu+gzip"))
    assert (both.id, flat(both.id), both.several) == ("mtu+gzip", "mtu-gzip", True)
    assert [fault.id for fault in both.faults] == ["mtu", "gzip"]
    assert both.inject == [*mtu.inject, *gzip.inject] and both.load
    assert both.ticket.startswith("Several reports") and gzip.lesson in both.lesson
    assert both.ticket.endswith(f"{mtu.ticket}\n\n{gzip.ticket}")
    assert both.minutes == mtu.minutes + gzip.minutes
    assert labs.truths(both) == [mtu.truth, gzip.truth]
    assert both.alternative[0].steps == [*mtu.alternative[0].steps, *gzip.fix]
    assert both.cheat[1].steps == [*gzip.cheat[0].steps, *mtu.fix]
    assert {hint.fault for hint in both.hint} == {"mtu", "gzip"}
    assert labs.repairs(both) == [] and labs.here("mtu+gzip") and not labs.here("mtu+mtv")


def test_it_is_judged_by_the_checks_of_its_labs() -> None:
    names = {measure.fault for measure in checks.load(labs.load("mtu+gzip")).symptom}
    assert names == {"mtu", "gzip"}
    assert rotation.remedies(labs.load("mtu+gzip")).left == ["mtu", "gzip"]
    assert digest.walk("mtu+gzip") not in (digest.walk("mtu"), digest.walk("gzip+mtu"))


def test_what_a_mystery_shows_names_no_part() -> None:
    lab = labs.load("mtu+gzip")
    found = [Finding("gzip: pages", 1, "", "", holds=False, fault="gzip")]
    assert [each.name for each in readings.as_seen(lab, found)] == ["gzip: pages"]
    assert [each.name for each in readings.as_seen(lab.called(MYSTERY), found)] == ["pages"]
    for its, said in ((lab, "gzip: pages: "), (lab.called(MYSTERY), "pages: ")):
        run = cast("LabRun", SimpleNamespace(lab=its))
        assert LabRun._amiss(run, found)[0].startswith(said)
    every = labs.load("cache-connections+stale-upstream")
    assert not [ask.name for ask in checks.load(every).asks if ask.name.startswith("cache-")]


def test_each_part_adds_its_own_machines() -> None:
    lab = labs.load("dead-resolver+heap-oom")
    assert "ns1" in lab.services.added and lab.services.services["tomcat"]["mem_limit"] == "512m"
    documents = lab.services.documents("name", lab.daemons, "198.18.0.0/24", {})
    assert len(list(documents)) == 3


def test_a_part_can_have_a_severity() -> None:
    lab = labs.load("mtu+port-range@100")
    assert lab.of == ["mtu", "port-range@100"] and "20000 20100" in str(lab.inject[1].run)
    assert [fault.id for fault in lab.faults] == ["mtu", "port-range"]
    assert checks.load(lab).symptom


@pytest.mark.parametrize(
    ("lab", "why"),
    [
        ("mtu+mtu", "mtu and mtu cannot be combined: it is the same lab"),
        ("port-range+port-range@100", "it is the same lab"),
        ("mtu+healthy", "healthy has no fault, so it cannot be a part"),
        ("mtu+packet-loss", "packet-loss has several faults itself, so it cannot be a part"),
        ("mtu+mtv", "no lab called 'mtv'; did you mean mtu"),
        ("nagle+fpm-backlog", "cannot be combined: both change command of nginx"),
        ("dead-resolver+stale-upstream", "cannot be combined: both change"),
        ("mtu+", "There is no lab called ''"),
    ],
)
def test_what_cannot_be(lab: str, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        labs.load(lab)
    assert why in caught.value.message


def test_two_labs_that_change_the_same_thing(project: Project) -> None:
    for lab in ("mtu", "gzip"):
        file = project.root / f"labs/{lab}/lab.toml"
        file.write_text('touches = ["web:eth0"]\n' + file.read_text())
    assert clash(labs.load("mtu"), labs.load("gzip")) == "both change web:eth0"
    with pytest.raises(BadInput) as caught:
        labs.load("mtu+gzip")
    assert caught.value.hint == "faultlab start mtu, later faultlab start gzip"


def test_nothing_starts_if_it_cannot_be(faultlab: Run) -> None:
    got = faultlab("start", "mtu+packet-loss")
    assert got.code == 2 and got.out == "" and "packet-loss has several faults itself" in got.err
