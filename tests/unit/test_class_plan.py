"""A class: its file, its command line, and what its containers may use."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal
from faultlab.engine import cpu_slots
from faultlab.lab import collection, services
from faultlab.lab import loader as labs
from faultlab.run import digest, harmless, together
from faultlab.workshop import (
    plan,
    verbs,
)
from faultlab.workshop.folder import Folder
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.plan import ClassPlan
from tests.unit.conftest import Project, Run
from tests.unit.fake import FakeEngine, engines
from tests.unit.served import (
    planned,
)

CLASS = """
title = "Tuesday"
seats = ["Ada", "Grace", "Linus"]
labs  = ["mtu", "somaxconn"]
"""


def test_a_plan(tmp_path: Path) -> None:
    file = tmp_path / "class.toml"
    file.write_text(CLASS)
    found = plan.read(str(file))
    assert found == planned()
    assert found.turns(2, set()) == ["mtu", "somaxconn"]


def test_a_class_does_not_have_the_name_of_the_tests(tmp_path: Path) -> None:
    """`faultlab verify` and the tests take down what is called so."""
    (tmp_path / "verify.toml").write_text(CLASS)
    with pytest.raises(BadInput, match="give the class another name"):
        plan.read(str(tmp_path / "verify.toml"))


def test_each_seat_has_a_draw_of_its_own(tmp_path: Path) -> None:
    draw = planned(labs=[], draw={"count": 3, "seed": 7, "tier": "web", "level": 3})
    running = set(labs.ids()) - {"mtu"}
    drawn = [draw.turns(seat, running) for seat in (1, 2, 3)]
    assert drawn == [draw.turns(seat, running) for seat in (1, 2, 3)]
    assert len({tuple(one) for one in drawn}) == 3
    assert all(len(set(one)) == 3 and "mtu" not in one for one in drawn)
    with pytest.raises(BadInput, match="at most 1: only so many"):
        draw.turns(1, {"gzip"})


def test_a_draw_can_have_several_faults_at_once() -> None:
    pairs = planned(labs=[], draw={"count": 3, "seed": 1, "faults": 2})
    drawn = pairs.turns(1, {lab.id for lab in pairs.wanted()})
    assert len(drawn) == 3 and all(lab.count("+") == 1 for lab in drawn), drawn
    assert {*drawn} <= {lab.id for lab in together.proven()}
    with pytest.raises(ValidationError, match="hard or several"):
        planned(labs=[], draw={"count": 1, "faults": 2, "hard": True})


def test_a_draw_can_be_hard_and_have_false_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "decoys.json"
    monkeypatch.setattr(harmless, "FILE", str(file))
    hard = planned(labs=[], draw={"count": 40, "hard": True})
    assert {"php-workers@7"} <= {*hard.turns(1, set(labs.ids()))}
    leads = planned(labs=[], draw={"count": 2, "tier": "web", "decoys": 1})
    with pytest.raises(BadInput, match="No lab here can have 1 false leads"):
        leads.turns(1, set(labs.ids()))
    lab = labs.load("healthy")
    decoy = labs.decoy(lab.collection, "web-alerts")
    row = {"decoy": decoy.id, "lab": lab.id, "verdict": "harmless", "reason": "", "looks": 3}
    row |= {"seconds": 1, "run": "", "commit": "", "engine": "local"}
    trials = [row | {"digest": digest.decoy(decoy, lab)}]
    file.write_text(json.dumps({"schema": 1, "trials": trials}))
    assert all(name.endswith("~web-alerts") for name in leads.turns(1, set(labs.ids())))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = ", "not valid TOML: Invalid value"),
        (CLASS.replace("title", "titel"), "title: missing key"),
        (CLASS + "hint = 1", "hint: unknown key"),
        (CLASS + "id = 'x'", "id: unknown key"),
        (CLASS.replace('"mtu"', '"mtv"'), "There is no lab called 'mtv'; did you mean mtu?"),
        (CLASS.replace('"Grace"', '"Ada"'), "expected names, each once"),
        (CLASS.replace('"Grace"', r'"A\u001b[2J"'), "expected names, each once"),
        (CLASS.replace('"Tuesday"', '""'), "title: "),
        (CLASS + "minutes = 0", "minutes: expected greater than 0, got 0"),
        (CLASS + "minutes = true", "minutes: expected a valid number"),
        (CLASS + "minutes = inf", "minutes: expected a finite number"),
        (CLASS + "hours = '3'", "hours: expected a valid number"),
        (CLASS + "limits = 'cpus=all'", "limits: expected cpus=1 memory=1g pids=512"),
        (CLASS + "seat_limits = 'cpus=0.5'", "a container can use more CPUs than its seat"),
        (CLASS + "seat_disk = 'all'", "seat_disk: "),
        (CLASS + "[draw]\ncount = 1", "expected one of labs, [draw] and [[block]]"),
        (CLASS.replace("labs ", "#labs "), "expected one of labs, [draw] and [[block]]"),
        (
            CLASS.replace("labs ", "#labs ") + "[draw]\ncount = 1\ntier = 'moon'",
            "No lab is of tier moon",
        ),
    ],
)
def test_a_mistake_in_a_plan(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "class.toml"
    file.write_text(text)
    with pytest.raises(BadInput, match=re.escape(said)) as caught:
        plan.read(str(file))
    assert caught.value.message.startswith(str(file))
    assert "docs/workshop.md" in caught.value.hint


def test_the_command_line(project: Project, faultlab: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    assert faultlab("class", "start") == (
        faultlab("class", "start", "class.toml")  # the name that a class has without another
    )
    assert faultlab("class", "start").code == 2
    for verb in ("status", "end", "export"):
        result = faultlab("class", verb)
        assert result.code == 2
        assert result.err.startswith("faultlab: The class of class.toml was never started.")
    (project.root / "Klasse 1.toml").write_text(CLASS)
    assert "becomes one of containers" in faultlab("class", "start", "Klasse 1.toml").err
    (project.root / "class.toml").write_text(CLASS)
    assert "--cert and --key go together" in faultlab("class", "start", "--cert", "x").err
    begun = project.root / "classes/class"
    begun.mkdir(parents=True)
    journal = Journal(begun / "events.jsonl")
    journal.add(Event.PLANNED, plan=planned().model_dump(), labs=[["mtu"], ["mtu"], ["gzip"]])
    journal.add(Event.STARTING, 1)
    journal.add(Event.READY, 1)
    result = faultlab("class", "status")
    assert result.code == 0
    assert "Tuesday: goes on, its server is not up" in result.out
    assert re.search(r"1 +Ada +mtu \(1 of 1\) +open ", result.out), result.out
    assert max(map(len, result.out.splitlines())) <= 80
    told = json.loads(faultlab("class", "status", "--json").out)
    assert [turn["state"] for turn in told["turns"]] == ["red", "waiting", "waiting"]
    assert faultlab("class", "export").code == 0
    assert {file.name for file in begun.glob("results.*")} == {
        "results.csv",
        "results.json",
        "results.html",
    }
    assert "ends with .csv, .json, .html" in faultlab("class", "export", "--to", "x.pdf").err
    (project.root / "class.toml").write_text(CLASS.replace("Grace", "Margaret"))
    assert "has been changed since this class began" in faultlab("class", "start").err
    (begun / "events.jsonl").write_text('{"t": 1, "event"\n')
    result = faultlab("class", "status")
    assert (result.code, "damaged in line 1" in result.err) == (3, True)


def test_a_class_that_began_before_classes_had_an_engine(project: Project) -> None:
    folder = Folder("class")
    folder.path.mkdir(parents=True)
    old = planned().model_dump(exclude={"engine"})
    Journal(folder.path / "events.jsonl").add(Event.PLANNED, plan=old, labs=[["mtu"]] * 3)
    assert verbs._opened(Terminal(), planned(), "class.toml", folder).events
    with pytest.raises(BadInput, match="has been changed since"):
        verbs._opened(Terminal(), planned(engine="kubernetes"), "class.toml", folder)


def test_a_class_goes_on_with_another_number_of_cpus(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that was resized, or another one. What the file sets must be as it was.

    The limits that it does not set are those of the machine as it is now.
    """
    folder, file = Folder("class"), project.root / "class.toml"
    engines(monkeypatch, local=FakeEngine)

    def goes_on(text: str, cpus: int) -> ClassPlan:
        file.write_text(text)
        monkeypatch.setattr(cpu_slots, "width", lambda: cpus)
        found = plan.read(str(file))
        assert verbs._opened(Terminal(), found, "class.toml", folder).events
        return found

    assert "cpus=6" in goes_on(CLASS + "hints = 2", 8).limits
    assert "cpus=1.5" in goes_on(CLASS + "hints = 2", 2).limits
    for other in ("", "hints = 3", "hints = 2\nhint_cost = 1", "hints = 2\nlimits = 'cpus=6'"):
        with pytest.raises(BadInput, match="has been changed since"):
            goes_on(CLASS + other, 8)
    shutil.rmtree(folder.path)
    assert "cpus=1" in goes_on(CLASS + "limits = 'cpus=1'", 8).limits
    for other in ("", "limits = 'cpus=2'"):
        with pytest.raises(BadInput, match="has been changed since"):
            goes_on(CLASS + other, 8)


def test_a_class_of_an_older_version_goes_on_with_another_number_of_cpus(project: Project) -> None:
    """Its journal does not tell what the file set."""
    folder = Folder("class")
    folder.make()
    old = planned().model_dump() | {"limits": "cpus=96", "seat_limits": "cpus=96 memory=4g"}
    folder.journal().add(Event.PLANNED, plan=old, labs=[["mtu"]] * 3)
    assert verbs._opened(Terminal(), planned(), "class.toml", folder).events
    with pytest.raises(BadInput, match="has been changed since"):
        verbs._opened(Terminal(), planned(limits="cpus=1"), "class.toml", folder)


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(services.LIMITS, "cpus=0.5 memory=1g pids=512")
    own = {"image": "machine"}
    machines: dict[str, dict[str, Any]] = {name: {**own} for name in ("client", "web", "db")}
    for daemon, machine in (("nginx", "web"), ("mysql", "db")):  # so that these are needed
        machines[daemon] = {**own, "network_mode": f"service:{machine}"}
    parts: tuple[dict[str, Any], ...] = (
        {"services": machines, "networks": {"default": {}}},
        {"services": {"web": {"cpus": 0.2}, "db": {"mem_limit": "512m"}}},
    )
    documents = services.Plan(collection.ours(), parts).documents(
        "x", ["nginx", "mysql"], "198.18.7.0/24", {}
    )
    made = services.Plan(collection.ours(), tuple(documents)).services
    limits = {"cpus": 0.5, "mem_limit": "1g", "memswap_limit": "1g", "pids_limit": 512}
    assert limits.items() <= made["client"].items()
    # What a lab limits itself stays as it is, with what Docker makes of its swap.
    assert (made["web"]["cpus"], made["db"]["mem_limit"]) == (0.2, "512m")
    assert "memswap_limit" not in made["db"]


def test_one_cgroup_around_a_stack() -> None:
    """What the first process of a container prints stays within bounds in any case."""
    parts = ({"services": {"client": {"image": "machine"}}, "networks": {"default": {}}},)
    for parent in ("/faultlab/seat", ""):
        documents = services.Plan(collection.ours(), parts).documents(
            "x", [], "198.18.7.0/24", {}, parent=parent
        )
        client = documents[0]["services"]["client"]
        assert client.get("cgroup_parent", "") == parent
        assert client["logging"]["options"] == {"max-size": "5m", "max-file": "2"}
