"""Leftovers: programs that run beside a stack and were not there when its fault was injected.

One that waits can bring the fault back later. One that works can mask it, so a late look is taken
again while it is frozen. What belongs to a daemon is no leftover. Neither is an idle shell, or a
program that only shows things.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from faultlab.core.command import uninterrupted
from faultlab.engine.stack import Stack
from faultlab.lab.leftover import Leftover
from faultlab.run.process import Process, processes

Noted = dict[
    str, list[list[Any]]
]  # by machine or daemon: number, start and command of each process

_SAMPLES, _PAUSE = 4, 0.4  # a command that ends sooner was not left over
_THAW = 900  # seconds after which the helper thaws what is frozen, even if we were killed
_WAIT = ("sleep", "timeout", "watch", "at", "atd", "cron", "crond")
_AND_MORE = re.compile(r"[;&|`$(){}\n]")  # in the words of a shell that does more than one thing
# How an agent's command is run: this shell goes on while a program keeps its output open.
_OF_AGENT = "exec 3>&1 4>&2; timeout "
# Sends a signal to processes, if they are still the same ones.
_SIGNAL = r"""
my $signal = shift;
for (@ARGV) {
  my ($pid, $start) = split /:/;
  open my $file, "<", "/proc/$pid/stat" or next;
  my ($stat) = join("", <$file>) =~ /.*\) (.*)/s;
  kill $signal, $pid if (split / /, $stat)[19] eq $start;
}
"""


def noted(stack: Stack) -> Noted:
    """Return the processes of a stack as they are now, for its record. Raises CannotRun."""
    found: Noted = {}
    for each in processes(stack):
        found.setdefault(each.at, []).append([each.pid, each.start, each.command])
    return found


def find(stack: Stack, before: Noted) -> Leftovers:
    """Return what has been left over since `before`. It takes a second. Raises CannotRun."""
    samples = []
    for number in range(_SAMPLES):
        time.sleep(_PAUSE if number else 0)
        samples.append(processes(stack))
    return Leftovers(stack, samples, before)


class Leftovers:
    """The processes that were left over at a stack, from several samples of its processes."""

    def __init__(self, stack: Stack, samples: Sequence[Sequence[Process]], before: Noted) -> None:
        """Prepare. `before`: the processes that were there when the fault was injected."""
        self._stack = stack
        self._before = {(pid, start) for its in before.values() for pid, start, _ in its}
        self._commands = {(at, words) for at, its in before.items() for _, _, words in its}
        # The first process of a machine adopts all orphans, so not each child is its own.
        self._adopts = {int(machine.pid) for machine in stack.machines}
        self._firsts = {int(machine.pid) for machine in stack.values()} - self._adopts
        every = {each.key: each for sample in samples for each in sample}
        self._by_pid = {each.pid: each for each in every.values()}
        self._children: dict[int, list[Process]] = {}
        for each in every.values():
            self._children.setdefault(each.parent, []).append(each)
        lasting = set.intersection(*({each.key for each in sample} for sample in samples))
        asleep = {each.key for sample in samples for each in sample if each.sleeps}
        self._lasting = [
            replace(each, sleeps=key in asleep) for key, each in every.items() if key in lasting
        ]

    @cached_property
    def found(self) -> list[Leftover]:
        """Return them, and first those that wait. Of a tree only the uppermost is named."""
        waiting = [each for each in self._working if self._waits(each)]
        others = [each for each in self._working if each not in waiting]
        return [
            Leftover(each.at, self._told(each), each in waiting, self._serves(each))
            for each in (*_uppermost(waiting, waiting), *_uppermost(others, self._working))
        ]

    @property
    def can_be_frozen(self) -> bool:
        """Return whether something is left over that serves no user."""
        return bool(self._frozen)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze them while the body runs, but not what serves users. Raises CannotRun."""
        keys = [f"{each.pid}:{each.start}" for each in self._frozen]
        helper = self._stack.helper()
        thaw = _signal("CONT", reversed(keys))
        try:
            helper.must(
                f"(sleep {_THAW}; {thaw}) >/dev/null 2>&1 </dev/null & {_signal('STOP', keys)}"
            )
            yield
        finally:
            with uninterrupted():
                helper.must(thaw)

    @cached_property
    def _working(self) -> list[Process]:
        """Return those that can change something."""
        left = (each for each in self._lasting if not each.shows and not self._is_own(each))
        return [each for each in left if not self._only_waits_for_others(each)]

    @cached_property
    def _frozen(self) -> list[Process]:
        """Return those to freeze, parents first, so that no shell sees that its child stopped."""
        named = [each for each in self._working if not self._serves(each)]
        shells = [self._by_pid[each.parent] for each in named if each.parent in self._by_pid]
        keys = {each.key: each for each in (*(one for one in shells if one.terminal), *named)}
        return sorted(keys.values(), key=lambda each: len(list(self._ancestors(each))))

    def _ancestors(self, each: Process) -> Iterator[Process]:
        while (parent := self._by_pid.get(each.parent)) is not None:
            yield parent
            each = parent

    def _descendants(self, each: Process) -> Iterator[Process]:
        for child in self._children.get(each.pid, ()):
            yield child
            yield from self._descendants(child)

    def _is_own(self, each: Process) -> bool:
        """Return whether a process belongs to the machine or daemon that it runs on."""
        for one in (each, *self._ancestors(each)):
            if one.pid in self._adopts and one is not each:
                return False
            same = (one.at, one.command) in self._commands
            if one.key in self._before or one.pid in self._firsts or same:
                return True
        return False

    def _only_waits_for_others(self, each: Process) -> bool:
        """Return whether it is a shell that does nothing more itself: others are judged themselves.

        It has one command and ends with it, it keeps an agent's output, or a person types in it.
        """
        children = self._children.get(each.pid, [])
        if not each.is_shell:
            return False
        if not each.is_for_a_person:
            given = " ".join(each.words[2:3]) if each.words[1:2] == ("-c",) else ";"
            of_agent = given.startswith(_OF_AGENT) and all(child.shows for child in children)
            others = children and all(child.is_for_a_person for child in children)
            return not _AND_MORE.search(given) or bool(children and of_agent) or bool(others)
        lasting = {one.key for one in self._lasting}
        inside = [child for child in children if child.group == each.foreground]
        if each.group == each.foreground:
            return not inside
        return any(child.key in lasting for child in inside)

    def _serves(self, each: Process) -> bool:
        """Return whether it listens, or has started what does."""
        return each.listens or any(one.listens for one in self._descendants(each))

    def _waits(self, each: Process) -> bool:
        """Return whether it sleeps, or is a shell that has not ended its work."""
        if self._serves(each):
            return False
        if each.sleeps or each.name in _WAIT:
            return True
        return each.is_shell

    def _told(self, each: Process) -> str:
        """Return its command; of a shell that a person types in, what it runs now."""
        children = self._children.get(each.pid, [])
        return children[-1].command if each.is_for_a_person and children else each.command


def _uppermost(some: Sequence[Process], every: Iterable[Process]) -> list[Process]:
    """Return those that were started by none of `every`."""
    known = {each.pid for each in every}
    return [each for each in some if each.parent not in known]


def _signal(name: str, keys: Iterable[str]) -> str:
    return shlex.join(["perl", "-e", _SIGNAL, name, *keys])
