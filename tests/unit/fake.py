"""A fake engine: stacks in memory, whose machines print what real ones printed.

It keeps the contract of an engine (tests/engine.py), and knows the lab mtu: what its client and its
web print follows the MTU of web, as on a real one.
"""

from __future__ import annotations

import json
import queue
import re
import shlex
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pytest

from faultlab.core import lock, naming
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal as Console
from faultlab.engine.contract import (
    Engine,
    Images,
    Machine,
    Part,
    Process,
    Program,
    Say,
    Shelled,
    State,
)
from faultlab.engine.fact import Facts
from faultlab.engine.measure.cpu_interference import Observer
from faultlab.engine.shell import Done, Shell
from faultlab.lab.model import Lab
from faultlab.run import placement
from tests.unit.conftest import recorded

_MTU = re.compile(r"ip link set dev eth0 mtu (\d+)")
_BESIDE = re.compile(r"nsenter -t (\d+) -n -- sh -c (.*)", re.DOTALL)
_LIMITED = re.compile(r"exec bash -c (.*exec 3>&1.*)", re.DOTALL)  # a command of an agent
_CLAMP = "iptables -t mangle -A OUTPUT -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 60"


@dataclass
class Network:
    """The state of web's network that the fault and the fixes of mtu change."""

    mtu: int = 1500
    clamped: bool = False  # what client sends is small
    moved: bool = False  # the pages of nginx
    dropped: int = 0

    @property
    def fits(self) -> bool:
        """Whether a request of curl's usual size arrives."""
        return self.mtu >= 200 or self.clamped

    @property
    def fits_any(self) -> bool:
        """Whether requests of every size arrive, up to the segment of 256 bytes at least."""
        return self.mtu >= 292 or self.clamped

    def answer(self, command: str, machine: str) -> str | None:
        """Return what a command prints on a machine; None for one that is not known here."""
        set_to = _MTU.fullmatch(command)
        if set_to and machine == "web":
            self.mtu = int(set_to[1])
        self.clamped |= command == _CLAMP or "advmss 60" in command
        self.moved |= "root /srv;" in command
        out = None
        match command.split(maxsplit=2):
            case ["timeout", *_] if "tcpdump" in command:
                out = recorded("capture/healthy" if self.mtu == 1500 else "capture/mtu")
            case ["python3", "-", *_]:
                out = json.dumps([0.4, 0.5, 0.6, 0.8, 1.1])  # connections to web, five as a rule
            case ["perl", *_] | ["ss", *_]:  # processes and sockets: it has none
                out = ""
            case ["cd", *_] if "output" in command:  # an ask for a page, many times
                asked = command.count("output")
                well = "failed 404 0\n" if self.moved else "48bdcd2e9d7ffafd\n"
                out = (well if self.fits_any else "failed 000 28\n") * asked
            case ["curl", *_]:
                self.dropped += 0 if self.fits else 6
                out = recorded("curl/healthy" if self.fits else "curl/mtu")
            case ["ip", "-json", *_]:
                links, queues = recorded("interface/healthy").splitlines()
                read = json.loads(links)
                read[1]["mtu"] = self.mtu
                read[1]["stats64"]["rx"]["dropped"] = self.dropped
                out = f"{json.dumps(read)}\n{queues}\n"
            case ["for", *_]:  # visits of a shift
                out = ("good\n" if self.fits else "lost\n") * 5
            case ["echo", *words]:
                out = " ".join(words) + "\n"
            case ["ip" | "iptables" | "sed" | "kill", *_]:
                out = ""
        return out


@dataclass
class FakeStack:
    """One stack: its machines, and the network between them."""

    machines: dict[str, FakeMachine] = field(default_factory=dict)
    network: Network = field(default_factory=Network)


class FakeMachine(Machine):
    """A machine or daemon that runs no program."""

    def __init__(self, engine: FakeEngine, stack: str, name: str, joins: str, run_id: str) -> None:
        self.engine = engine
        self.fake = engine
        self.name = name
        self.joins = joins
        self.lab_id = ""
        self.run_id = run_id
        self.owner = naming.owner()
        self.created = "2026-01-01T00:00:00"
        self.mark = f"{stack}/{name}"
        self.restarts = 0
        self.ended: int | None = None  # its exit code; a machine whose processes are gone
        self.limits: tuple[float | None, str | None, int | None] = (None, None, None)
        self.files: dict[str, bytes] = {}
        self.isolated = False
        self.stack = stack
        self.cpus = ""

    def run(self, command: str, timeout: float = 30) -> Done:
        """Answer as the stack's network is now. Raises CannotRun when the stack is gone."""
        if beside := _BESIDE.search(command):  # what a helper runs in the network of a machine
            every = (one for up in self.fake.stacks_up.values() for one in up.machines.values())
            machine = next(one for one in every if one.pid == beside[1])
            return machine.run(shlex.split(beside[2])[0], timeout)
        stack = self.fake.stacks_up.get(self.stack)
        self.fake.ran.append(command)
        if stack is None:
            raise CannotRun(f"{self.name} is not running any more.", "faultlab status")
        if wrapped := _LIMITED.fullmatch(command):
            command = shlex.split(shlex.split(wrapped[1])[0])[9]
        if command == "exit 3":
            return Done(command, 3, "", "", 0.0)
        if "| grep -q" in command:  # the sign of a public answer, which nobody has typed here
            return Done(command, 1, "", "", 0.0)
        if command == "nproc":
            return Done(command, 0, "1\n" if self.cpus else "2\n", "", 0.0)
        out = stack.network.answer(command, self.name)
        if out is None:
            return Done(command, 127, "", f"sh: {command.split(maxsplit=1)[0]}: not found", 0.0)
        return Done(command, 0, out, "", 0.0)

    @property
    def pid(self) -> str:
        """No process is behind it; the number tells which machine it is."""
        return str(zlib.crc32(self.mark.encode()))

    @property
    def state(self) -> State:
        """It runs since its last restart, unless a test has ended it."""
        began = f"2026-01-01T00:00:{self.restarts:02}"
        return State(self.ended is None, self.ended or 0, False, began)

    @property
    def health(self) -> str:
        """It is always ready."""
        return ""

    def last_log_line(self) -> str:
        """Its log has one line."""
        return "ready"

    def restart(self) -> None:
        """Count the restart."""
        self.restarts += 1

    def limit(self, cpus: float | None, memory: str | None, pids: int | None = None) -> None:
        """Keep the limits."""
        self.limits = (cpus, memory, pids)

    def put(self, folder: str, archive: bytes) -> None:
        """Keep the archive."""
        self.files[folder] = archive

    @contextmanager
    def talk(self, command: Sequence[str]) -> Iterator[FakeTalk]:
        """Talk with something that is `cat`, or visits as visitor.pl does."""
        talk = FakeTalk(self, is_cat=list(command) == ["cat"])
        try:
            yield talk
        finally:
            talk.said.put(b"")

    def terminal(self) -> Shelled:
        """It has none."""
        raise CannotRun("A fake machine has no terminal.")

    def log_in(self) -> NoReturn:
        """Raise CannotRun: a fake machine has no shell for people."""
        raise CannotRun("Nobody can log in to a fake machine.")

    def typed(self, action: str) -> str:
        """Return a command line for people, which would not work."""
        return f"fake {action} {self.name}"


class FakeTalk:
    """A program that answers each line; of a visit as the network is now."""

    def __init__(self, machine: FakeMachine, *, is_cat: bool) -> None:
        self.said: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.output: Iterator[bytes] = iter(self.said.get, b"")
        self.heard: list[bytes] = []
        self._machine = machine
        self._is_cat = is_cat

    def send(self, data: bytes) -> None:
        """Answer. Raises CannotRun when the stack is gone."""
        stack = self._machine.fake.stacks_up.get(self._machine.stack)
        if stack is None:
            self.said.put(b"")
            raise CannotRun("It is not running any more.", "faultlab status")
        self.heard.append(data)
        number, _, asked = data.partition(b"\t")
        if self._is_cat:
            self.said.put(data)
        elif asked:
            self._machine.fake.ran.append(asked.decode())
            self.said.put(number + (b" 200 0 0.0123\n" if stack.network.fits else b" 000 28 3\n"))


class FakeImages(Images):
    """Every image is there."""

    def missing(self, wanted: Collection[str] | None = None) -> list[str]:
        """None is missing."""
        return []

    def ensure(
        self, say: Say, wanted: Collection[str] | None = None, *, network: bool = False
    ) -> None:
        """There is nothing to build."""

    def save(self, tags: Sequence[str], to: Path, note: Say) -> None:
        """Write an empty archive."""
        to.write_bytes(b"")

    def remove(self) -> list[str]:
        """There is nothing to remove."""
        return []


class FakeEngine(Engine):
    """Stacks in memory, for tests without Docker."""

    name = "fake"
    owns_kernel = False
    walk_seconds = 10
    images = FakeImages()
    one: ClassVar[FakeEngine | None] = None  # the one that all commands of a test reach

    @classmethod
    def absent(cls) -> str:
        """It is always there."""
        return ""

    @classmethod
    def might_host(cls, stack: str) -> bool:
        """It may have any stack."""
        return True

    @classmethod
    def reach(cls, patient: bool = False) -> FakeEngine:
        """Return the one of this test."""
        cls.one = cls.one or cls()
        return cls.one

    @classmethod
    def bring_up(cls, term: Console, images: Collection[str] | None = None) -> FakeEngine:
        """Return the one of this test."""
        return cls.reach()

    def __init__(self) -> None:
        self.stacks_up: dict[str, FakeStack] = {}
        self.sizes: dict[str, int] = {}
        self.launched = 0
        self.ran: list[str] = []  # on all machines
        self.largest: dict[str, Any] = {}  # limits of a stack as a whole
        self.paused: list[float] = []
        self.meanwhile: list[Callable[[], object]] = []  # what happens in the next pauses

    def kernel(self, stack: str) -> Shell:
        """Raise CannotRun: its kernel must not be changed."""
        raise CannotRun("This engine's kernel must not be changed.", "add --engine vm")

    def facts(self) -> Facts:
        """Say that nothing is below."""
        return Facts("0", "0", "none", "2", 1, 1 << 30)

    def unfit(self) -> str:
        """Say that labs can run here."""
        return ""

    def stacks(self) -> list[str]:
        """Return the stacks that are up."""
        return sorted(name for name in self.stacks_up if name.startswith(naming.prefix_of_all()))

    def all_stacks(self) -> Mapping[str, str]:
        """Return every stack with its lab."""
        return {
            name: machine.lab_id
            for name, up in self.stacks_up.items()
            for machine in up.machines.values()
        }

    def machines(self, stack: str) -> list[Machine]:
        """Return the machines of a stack and then its daemons."""
        up = self.stacks_up.get(stack, FakeStack())
        return sorted(up.machines.values(), key=lambda each: (bool(each.joins), each.name))

    def leftovers(self, stack: str) -> list[str]:
        """Return all machines of a stack that is up."""
        return [f"machine {name}" for name in self.stacks_up.get(stack, FakeStack()).machines]

    def launch(self, lab: Lab, stack: str, run_id: str, folder: Path, slot: str = "") -> None:
        """Put the machines of a lab up."""
        made = FakeStack()
        self.launched += 1
        for name in lab.services.needed(lab.daemons):
            joins = lab.services.daemons.get(name, "")
            made.machines[name] = FakeMachine(self, stack, name, joins, run_id)
        made.machines["client-user"] = FakeMachine(self, stack, "client-user", "client", run_id)
        for machine in made.machines.values():
            machine.lab_id = lab.alias
            machine.cpus = self.cpus
        (folder / "compose.yaml").write_text("services: {}\n")
        self.stacks_up[stack] = made

    def end(self, name: str, exit_code: int = 137) -> None:
        """Let a machine or daemon of each stack end."""
        for up in self.stacks_up.values():
            for machine in up.machines.values():
                if machine.name == name:
                    machine.ended = exit_code

    def isolate_network(self, machines: Sequence[Machine]) -> None:
        """Note that it was done."""
        for machine in machines:
            assert isinstance(machine, FakeMachine)
            machine.isolated = True

    def down(self, stack: str) -> None:
        """Forget a stack."""
        lock.refuse_others(stack, [machine.owner for machine in self.machines(stack)])
        self.stacks_up.pop(stack, None)

    def most(self) -> Mapping[str, Any]:
        """Return what a test says."""
        return self.largest

    def pause(self, seconds: float) -> None:
        """Take no time, and let happen what a test wants."""
        self.paused.append(seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def note_kernel(self, stack: str) -> None:
        """Nothing is noted."""

    def observer(self, stack: str) -> Observer:
        """Return one that sees no process."""
        return Observer(proc=Path("/nonexistent"))

    def on_disk(self) -> Mapping[str, int]:
        """Return what a test says."""
        return self.sizes

    @contextmanager
    def sidecar(
        self, stack: str, seconds: int, *, whole: bool = False, rights: Sequence[str] = ()
    ) -> Iterator[Machine]:
        """Give a machine that is in no stack."""
        helper = "helper of " + stack
        self.stacks_up[helper] = FakeStack()
        try:
            yield FakeMachine(self, helper, "a helper", "", "")
        finally:
            del self.stacks_up[helper]

    @contextmanager
    def process(self, program: Program) -> Iterator[Process]:
        """Run an `echo`, or a script, which is answered as by a machine."""
        match program.command:
            case ["sh", "-ec", script]:
                printed = Network().answer(script, "") or ""
            case [_, *words]:
                printed = " ".join(words) + "\n"
        yield FakeProcess(printed.encode())


class FakeProcess:
    """A program that has printed and ended."""

    def __init__(self, printed: bytes) -> None:
        self.began = time.monotonic()
        self.output: Iterator[Part] = iter([(printed, None)])

    def wait(self, seconds: float) -> int:
        """Return success."""
        return 0


def engines(monkeypatch: pytest.MonkeyPatch, **kinds: type[Engine]) -> None:
    """Let every command of a test have these kinds of engines; each is a line of placement."""
    monkeypatch.setattr(placement, "ENGINES", kinds)


def only_fake(monkeypatch: pytest.MonkeyPatch, engine: FakeEngine | None = None) -> FakeEngine:
    """Let every command of a test have a fake engine and no other."""
    engine = engine or FakeEngine()
    monkeypatch.setattr(FakeEngine, "one", engine)
    engines(monkeypatch, fake=FakeEngine)
    return engine
