"""Leftovers: what runs beside a stack since its fault, and what of it is allowed to a person."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from faultlab.lab import leftover
from faultlab.lab.leftover import Leftover
from faultlab.run import leftovers
from faultlab.run.leftovers import Leftovers, Noted
from faultlab.run.process import Process, _parsed

INIT, NGINX = 10, 20  # the first processes of web and of nginx
BEFORE: Noted = {
    "web": [[INIT, 1, "/sbin/docker-init -- sleep infinity"], [11, 1, "sleep infinity"]],
    "nginx": [[NGINX, 1, "nginx: master process"], [21, 1, "nginx: worker process"]],
}


def process(pid: int, command: str, parent: int = INIT, **more: Any) -> Process:
    """A process of web without a terminal; `command` is what was given to a shell, or words."""
    words = ("sh", "-c", command[6:]) if command.startswith("sh -c ") else tuple(command.split())
    facts: dict[str, Any] = {"at": "web", "group": pid, "session": pid, "terminal": 0}
    facts |= {"foreground": -1, "start": 5, "sleeps": words[0] == "sleep", "listens": False}
    facts |= {"shows": False, "program": f"/usr/bin/{words[0]}", "words": words}
    return Process(pid=pid, parent=parent, **{**facts, **more})


def own() -> list[Process]:
    return [
        process(INIT, "/sbin/docker-init -- sleep infinity", 1, start=1),
        process(11, "sleep infinity", start=1),
        process(NGINX, "nginx: master process", 1, start=1, at="nginx"),
        process(21, "nginx: worker process", NGINX, start=1, at="nginx"),
    ]


def machine(name: str, pid: int, joins: str) -> Any:
    return SimpleNamespace(name=name, pid=str(pid), joins=joins, mark=name)


class Stack(dict[str, Any]):
    """What of a stack is asked for."""

    def __init__(self, nginx: int = NGINX) -> None:
        every = machine("web", INIT, ""), machine("nginx", nginx, "web")
        super().__init__({each.name: each for each in every})
        self.machines = [self["web"]]
        self.ran: list[str] = []

    def helper(self) -> Any:
        def must(command: str) -> str:
            self.ran.append(command)
            return ""

        return SimpleNamespace(must=must)


def left(*samples: list[Process], nginx: int = NGINX) -> Leftovers:
    return Leftovers(Stack(nginx), [[*own(), *some] for some in samples], BEFORE)  # type: ignore[arg-type]


def waiting(*samples: list[Process]) -> list[str]:
    return [each.command for each in left(*samples).found if each.waits]


def terminal(pid: int, parent: int = 1, foreground: int | None = None) -> Process:
    return process(pid, "bash", parent, terminal=34816, foreground=foreground or pid)


def job(pid: int, command: str, shell: int, **more: Any) -> Process:
    return process(pid, command, shell, terminal=34816, foreground=pid, **more)


def test_the_processes_of_the_lab_are_no_leftovers() -> None:
    assert left([]).found == []


UNDO = "sh -c sleep 180; iptables-restore </tmp/faulty"
LOOP = "sh -c while sleep 0.4; do mysql -e 'KILL 7'; done"


@pytest.mark.parametrize(
    ("samples", "named"),
    [
        ([[process(30, UNDO), process(31, "sleep 180", 30)]], [UNDO]),
        # The processes within a loop change, and the loop stays.
        ([[process(30, LOOP), process(3, "sleep 0.4", 30)], [process(30, LOOP)]], [LOOP]),
        ([[process(30, "perl /tmp/undo", sleeps=True)]], ["perl /tmp/undo"]),
        ([[process(30, "watch -n 5 undo")]], ["watch -n 5 undo"]),
        ([[process(30, "sh -c ping -c 180 client; undo"), process(31, "ping", 30)]],
         ["sh -c ping -c 180 client; undo"]),
        # In a terminal: the shell goes on by itself when its command has ended.
        ([[terminal(40, foreground=41), job(41, "sleep 180", 40)]], ["sleep 180"]),
        ([[terminal(40, foreground=41), job(41, "sleep 0.4", 40)],
          [terminal(40, foreground=42), job(42, "sleep 0.4", 40)]], ["sleep 0.4"]),
        # The same in a daemon's container, whose orphans the machine adopts.
        ([[process(30, LOOP, at="nginx")]], [LOOP]),
        # A name that only shows things, but another program.
        ([[process(30, "sleep 9", program="/usr/bin/vmstat", sleeps=True)]], ["sleep 9"]),
    ],
)  # fmt: skip
def test_a_command_that_waits_is_named(samples: list[list[Process]], named: list[str]) -> None:
    assert waiting(*samples) == named


@pytest.mark.parametrize(
    "some",
    [
        [terminal(40)],
        [terminal(40, foreground=41), job(41, "top", 40, shows=True)],
        [terminal(40, foreground=41), job(41, "vmstat 1", 40, shows=True, sleeps=True)],
        [terminal(40, foreground=41), job(41, "vi /etc/hosts", 40, shows=True)],
        [process(39, "sh -c bash || true", 1), terminal(40, 39)],
        [process(30, "tcpdump -w /tmp/a", shows=True)],
        [process(30, "sh -c tcpdump -ni eth0"), process(31, "tcpdump", 30, shows=True)],
        [process(30, "nginx: worker process", NGINX, at="nginx")],
    ],
)
def test_a_person_may_look_on(some: list[Process]) -> None:
    """Neither named nor frozen: nothing of it can undo or mask anything."""
    found = left(some)
    assert (found.found, found.can_be_frozen) == ([], False)


def test_a_resolver_that_was_started_by_hand_serves() -> None:
    by_hand = process(30, "unbound -d", listens=True)
    script = [process(40, "sh -c unbound -d; true"), process(41, "unbound -d", 40, listens=True)]
    for some in ([by_hand], script):
        found = left(some)
        assert [(each.waits, each.serves) for each in found.found] == [(False, True)]
        assert not found.can_be_frozen


def test_what_a_daemon_started_again_has_is_its_own() -> None:
    """By the first process of its container, or by the same words as before."""
    some = [process(50, "nginx: master process", 1, at="nginx"), process(51, "x", 50, at="nginx")]
    assert left(some, nginx=50).found == []
    assert left([process(60, "nginx: master process", at="nginx")]).found == []


def test_a_command_that_ends_soon_was_not_left_over() -> None:
    assert left([process(30, UNDO)], []).found == []
    again = process(30, UNDO, start=6)  # its number was given again
    assert left([process(30, UNDO)], [again]).found == []


def test_what_keeps_the_output_of_an_agent_is_ours() -> None:
    """A program in the background holds the pipes, and the shell around them waits."""
    ours = process(30, "sh -c exec 3>&1 4>&2; timeout -k 1 60 bash -c 'perl loop &'")
    some = [ours, process(31, "head -c 1048576", 30, shows=True), process(32, "perl loop")]
    assert [(each.command, each.waits) for each in left(some).found] == [("perl loop", False)]
    assert waiting([ours, process(31, "undo", 30)]) == [ours.command]


def test_parents_are_frozen_first_and_thawed_last() -> None:
    """A shell that sees its child stop would take its terminal away from it."""
    some = [terminal(40, foreground=41), job(41, "ping client", 40), process(30, "perl", INIT)]
    found = left(some)
    stack: Any = found._stack
    with pytest.raises(KeyboardInterrupt), found.frozen():
        assert len(stack.ran) == 1
        raise KeyboardInterrupt
    frozen, thawed = (command.split()[-4:] for command in stack.ran)
    assert frozen[0] == "STOP" and frozen.index("40:5") < frozen.index("41:5")
    assert thawed == ["CONT", *reversed(frozen[1:])]
    assert f"sleep {leftovers._THAW}" in stack.ran[0], "the helper thaws them if we are killed"


def test_what_the_helper_prints_is_parsed() -> None:
    words = "736800002d6300746f2000"  # sh, an empty word, -c, "to "
    line = f"m1 7 1 7 7 0 -1 99 1 0 0 {b'/usr/bin/dash'.hex()} {words}"
    found = _parsed(line, {"m1": "web"})
    assert (found.at, found.key, found.sleeps, found.listens) == ("web", (7, 99), True, False)
    assert (found.name, found.words) == ("dash", ("sh", "-c", "to "))
    assert _parsed(f"m1 7 1 7 7 0 -1 99 0 0 0 {b'/a'.hex()} -", {"m1": "web"}).words == ()


def test_its_sentences() -> None:
    [said] = leftover.findings([Leftover("web", UNDO, waits=True), Leftover("web", "top")])
    assert said.says == (
        f"On web a command still waits in the background: {UNDO}. End it, then check again."
    )
    assert not said.holds
    held = leftover.without([Leftover("db", "perl  loop"), Leftover("db", "x", serves=True)], [])
    assert (held.holds, held.says) == (True, "")
    masked = leftover.without([Leftover("db", "perl  loop")], [said])
    assert (masked.holds, masked.says) == (False, "It holds only while `perl loop` runs on db.")
    assert len(Leftover("db", "x" * 900).short) == 120
