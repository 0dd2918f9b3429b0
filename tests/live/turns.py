"""Turns: the labs that a run of the tests walks, and which of them are walked beside others."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

import pytest

from faultlab.core import git, paths
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.vm import libvirt
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run import placement, rotation
from faultlab.verify import walks
from tests.live.stacks import needs_vm

# Of the labs in the VM quick runs walk the one that they can afford: without KVM the others take
# four minutes and more. Every run has tests that use a lab there.
AFFORDED = "conntrack"
# These take long. Within ten commits they have several turns, with a part of their remedies each.
# Labs that are walked alone have one: each turn has looks of its own before and after the fault.
TURNS = {
    **dict.fromkeys(("cache-connections", "keepalive-race", "max-connections"), 2),
    **dict.fromkeys(("metadata-lock", "pool-leak", "stampede", "syn-flood", "thread-limit"), 2),
    **dict.fromkeys(("heap-leak", "idle-drop", "retry-storm"), 5),
}
# The minutes of a turn. The other labs take two. The labs of the first lines are walked alone on
# this machine: a minute is their looks, and five seconds for each fresh stack. Those of the last
# lines are walked beside others, which takes 1.6 times as long.
MINUTES = {
    **dict.fromkeys(("busy", "healthy"), 0.6),
    "latent": 0.9,
    **dict.fromkeys(("gzip", "port-range", "repeat-queries", "slow-join", "somaxconn"), 1.5),
    **dict.fromkeys(("bandwidth", "scale-out"), 2.4),
    **dict.fromkeys(("query-cache", "time-wait"), 3.1),
    "php-workers": 3.5,
    "cpu-quota": 5.5,
    **dict.fromkeys(("slow-log", AFFORDED), 7.0),
    **dict.fromkeys(("certificate", "deleted-log", "mtu", "nagle"), 1.1),
    **dict.fromkeys(("inodes", "metadata-lock", "pmtu-black-hole", "regex"), 1.5),
    **dict.fromkeys(("descriptors", "heap-oom", "thread-limit"), 2.2),
    **dict.fromkeys(("heap-leak", "keepalive-race", "pool-leak"), 2.4),
    **dict.fromkeys(("reverse-dns", "silent-dependency"), 2.4),
    **dict.fromkeys(("cache-connections", "dead-resolver", "max-connections", "syn-flood"), 2.8),
    **dict.fromkeys(("retry-storm", "stampede"), 3.4),
    "idle-drop": 4.2,
}
# The minutes of tests in the VM that are long, and have the first turns by their marks.
IN_VM = (6.0, 3.0, 3.0)
_NOT_HERE = "FAULTLAB_TESTS_NOT_HERE"


@dataclass(frozen=True)
class Plan:
    """The labs to walk, each with the commits within which it has one turn, and the others."""

    turns: dict[str, int]
    left_out: dict[str, str]

    @property
    def words(self) -> str:
        """Return the value of FAULTLAB_QUICK; empty if everything runs."""
        if not rotation.quick():
            return ""
        return " ".join(["1", *(f"{lab_id}={turns}" for lab_id, turns in self.turns.items())])


@cache
def all_labs() -> dict[str, Lab]:
    """Return the labs by their ids."""
    return {lab_id: labs.load(lab_id) for lab_id in labs.ids()}


def proven() -> dict[str, float]:
    """Return the labs that passed as they are now, with the seconds of a recorded walk."""
    kept = walks.read(paths.root() / "docs" / "reliability.json")
    passed = {
        lab_id: [w.seconds for w in kept.of(lab_id) if w.verdict == "pass"] for lab_id in all_labs()
    }
    return {lab_id: median(seconds) for lab_id, seconds in passed.items() if seconds}


def mark(lab_id: str) -> list[pytest.MarkDecorator]:
    """Return the mark of a lab that is walked beside others; none if its loads take turns."""
    alone = needs_vm(all_labs()[lab_id]) or checks.load(labs.load(lab_id)).relative
    return [] if alone else [pytest.mark.beside]


@cache
def plan() -> Plan:
    """Choose the labs of this run.

    A turn depends on the list of labs alone. If it depended on the records, a lab could miss its
    turn whenever a record is added.
    """
    why = not_here()
    out: dict[str, str] = {}
    if libvirt.state() != "running":
        out = {lab_id: f"{why[lab_id]}, and the lab VM is {libvirt.state()}" for lab_id in why}
    passed = proven()
    # The longest walks begin first, so that none of them is left over at the end.
    long_first = sorted(all_labs(), key=lambda lab_id: -passed.get(lab_id, math.inf))
    if not rotation.quick():
        return Plan({lab_id: 1 for lab_id in long_first if lab_id not in out}, out)
    number = git.commits()
    turns = {}
    for lab_id, turn in (rota(beside=True)[0] | rota(beside=False)[0]).items():
        commits = _commits(lab_id)
        turns[lab_id] = commits if lab_id in passed else 1
        if turn != number % commits and lab_id in passed:
            out[lab_id] = f"it passed as it is now, and is walked once in {commits} commits"
    resting = [lab_id for lab_id in why if lab_id not in {*turns, *out}]
    out |= dict.fromkeys(resting, f"quick runs walk {AFFORDED} in the VM: make test-all")
    return Plan({lab_id: turns[lab_id] for lab_id in long_first if lab_id not in out}, out)


@cache
def rota(*, beside: bool) -> tuple[dict[str, int], list[float]]:
    """Return the turn of each lab that is walked, and the minutes of ten runs with them.

    `beside`: the labs that are walked beside others; else those that are walked alone, and what is
    in the VM.
    """
    rest = not_here().keys() - {AFFORDED}
    group = [i for i in all_labs() if i not in rest and bool(mark(i)) is beside]
    minutes, every = [MINUTES.get(i, 2.0) for i in group], [_commits(i) for i in group]
    in_vm = [*IN_VM, *[0.0] * (rotation.EVERY - len(IN_VM))]
    shared, load = shared_out(minutes, every, () if beside else in_vm)
    return dict(zip(group, shared, strict=True)), load


def of_tests(
    minutes: Mapping[str, float], in_vm: Collection[str], *, beside: bool
) -> dict[str, int]:
    """Return the turn of each test that rotates, by its minutes.

    `in_vm`: the tests that one worker takes, one after the other. They are shared out first, so
    that no run gets many.
    """
    vm = [name for name in minutes if name in in_vm]
    others = [name for name in minutes if name not in in_vm]
    first, load = shared_out([minutes[name] for name in vm])
    busy = [sum(each) for each in zip(load, rota(beside=beside)[1], strict=True)]
    then, _ = shared_out([minutes[name] for name in others], busy=busy)
    return dict(zip([*vm, *others], [*first, *then], strict=True))


def shared_out(
    minutes: Sequence[float], every: Sequence[int] = (), busy: Sequence[float] = ()
) -> tuple[list[int], list[float]]:
    """Return for each thing, by the minutes that a run of it takes, its turn, from 0.

    A thing is next in one run of ten, or in one of `every`, which divide ten. `busy`: the minutes
    that the ten runs take without these things; those with them are returned too. The longest ones
    are assigned first, each to the runs with the least work, so that all runs take about the same
    time.
    """
    load = list(busy) or [0.0] * rotation.EVERY
    found = [0] * len(minutes)
    for i in sorted(range(len(minutes)), key=lambda i: -minutes[i]):
        apart = every[i] if every else rotation.EVERY
        found[i] = min(range(apart), key=lambda turn: max(load[turn::apart]))
        for run in range(found[i], rotation.EVERY, apart):
            load[run] += minutes[i]
    return found, load


def _commits(lab_id: str) -> int:
    """Return the number of commits within which a lab has one turn."""
    return rotation.EVERY // TURNS.get(lab_id, 1)


@cache
def not_here() -> dict[str, str]:
    """Return the labs that this machine's kernel cannot run, with the reason.

    It is found once, before pytest-xdist starts its workers.
    """
    if found := os.environ.get(_NOT_HERE):
        return dict(json.loads(found))
    engine = LocalEngine()
    engine.images.ensure(lambda _: None)
    every = all_labs()
    lacking = placement.lacking_for(engine, every.values())
    why = {lab_id: placement.reason(lab, lacking) for lab_id, lab in every.items()}
    lacks = {lab_id: reason for lab_id, reason in why.items() if reason}
    os.environ[_NOT_HERE] = json.dumps(lacks)
    return lacks
