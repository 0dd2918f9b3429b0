"""The contract of an engine: all that the rest of the program can ask of it.

Nothing of the library of an engine leaves this folder. Every method raises CannotRun, with the
next command to type, if the engine does not respond or refuses.
"""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol

from faultlab.core import text
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.batch import Batch
from faultlab.engine.fact import Fact, Facts
from faultlab.engine.measure.cpu_interference import Observer
from faultlab.engine.shell import Shell
from faultlab.lab.model import Lab

Say = Callable[[str], None]
_END_SECONDS = 30.0  # between the end of the output of a program and its own
Part = tuple[bytes | None, bytes | None]  # of standard output and standard error


@dataclass(frozen=True)
class State:
    """The state of a machine or daemon; `started`: when, in UTC, as ISO 8601."""

    running: bool
    exit_code: int
    oom_killed: bool
    started: str = ""


class Shelled(Protocol):
    """A shell with a terminal in a machine or daemon, for a person."""

    first: bytes  # what it printed before its socket could be read

    def open(self) -> socket.socket:
        """Start the shell and return the socket, which does not block."""

    def resize(self, columns: int, rows: int) -> None:
        """Tell the shell the size of its window."""

    def ended(self) -> bool:
        """Return whether the shell is gone although its socket is still open."""

    def close(self) -> None:
        """Hang up the shell, as a terminal does, without waiting for the machine."""


class Process(Protocol):
    """A program in a container of its own, which prints and ends."""

    began: float  # when it was told to start, by time.monotonic
    output: Iterator[Part]  # in pieces as they arrive, until the program ends

    def wait(self, seconds: float) -> int:
        """Return the exit code when the program has ended."""


class Talk(Protocol):
    """A program in a machine that hears what it is sent. Its input ends with us, however we end."""

    output: Iterator[bytes]  # in pieces as they arrive, until the program ends

    def send(self, data: bytes) -> None:
        """Write to its standard input. Raises CannotRun if the machine is gone."""


class Machine(Shell):
    """A machine of a stack, or a daemon that has joined one. Probes run their commands in it."""

    engine: Engine
    joins: str  # the machine whose network and processes a daemon shares; empty for a machine
    stack: str  # the name of its stack
    lab_id: str
    run_id: str
    owner: str  # of the stack, from naming.owner; empty if an older faultlab started it
    slot: str = ""  # the CPUs of its stack, as in "0-1"; empty if it has all
    created: str  # in UTC, as ISO 8601
    mark: str  # the text in /proc/PID/cgroup that identifies its processes

    @property
    def prompt(self) -> str:
        """Return the variable with which a new bash in it names this place in its prompt.

        A daemon has the host name of its machine. bash reads PS1 from files as it starts, so the
        variable is a command that runs after that, once.
        """
        where = f"{self.joins}/{self.name}" if self.joins else self.name
        return rf"PROMPT_COMMAND=PS1='\u@{where}:\w\$ '; unset PROMPT_COMMAND"

    @property
    def link(self) -> tuple[str, str]:
        """Return its IPv4 address and its hardware address; empty where users keep theirs."""
        return "", ""

    @property
    @abstractmethod
    def pid(self) -> str:
        """Return the id of its first process in the kernel below; "0" while it does not run."""

    @property
    @abstractmethod
    def state(self) -> State:
        """Return its state now."""

    @property
    @abstractmethod
    def health(self) -> str:
        """Return the command that tells whether it is ready, or an empty text."""

    @abstractmethod
    def last_log_line(self) -> str:
        """Return the last line of its log; empty if the log is empty."""

    @abstractmethod
    def restart(self) -> None:
        """Stop and start it; the machine that a daemon has joined keeps its settings."""

    @abstractmethod
    def limit(self, cpus: float | None, memory: str | None, pids: int | None = None) -> None:
        """Change its limits while it runs, as model.Limit has them. Raises CannotRun."""

    @abstractmethod
    def put(self, folder: str, archive: bytes) -> None:
        """Unpack a tar archive into a folder of it."""

    @abstractmethod
    def talk(self, command: Sequence[str]) -> AbstractContextManager[Talk]:
        """Run a program in it while the body runs; the program must end when its input does."""

    @abstractmethod
    def terminal(self) -> Shelled:
        """Return a terminal in it that is not open yet."""

    @abstractmethod
    def log_in(self) -> NoReturn:
        """Replace this process by a shell in it."""

    @abstractmethod
    def typed(self, action: str) -> str:
        """Return the command that an engineer types for an action on it, such as "restart"."""


@dataclass(frozen=True)
class Program:
    """A program for a container of its own beside a stack.

    `inside`: the machine whose network, processes and volumes (read-only) it sees; without one it
    has no network. `memory` as in "512m", `processes`: the limits. `cpus`: those that it can use;
    empty for all. `files`: a tar archive that is unpacked in `/` before it starts in `folder`.
    `ours`: it is no foreign program; it has no capabilities but `rights`, and sees no volumes. Its
    container goes when it ends, so nothing can wait for its exit code.
    """

    image: str
    command: Sequence[str]
    stack: str
    inside: Machine | None = None
    rights: Sequence[str] = ()
    memory: str = ""
    processes: int = 0
    cpus: str = ""
    files: bytes | None = None
    folder: str = "/"
    ours: bool = False


class Images(ABC):
    """The images of an engine."""

    @abstractmethod
    def missing(self, wanted: Collection[str] | None = None) -> list[str]:
        """Return the wanted images (default: all) that are missing, in build order."""

    @abstractmethod
    def ensure(
        self, say: Say, wanted: Collection[str] | None = None, *, network: bool = False
    ) -> None:
        """Build what is missing; `say` gets a line for each step.

        `network`: let the build of a folder outside this project use a network too.
        """

    @abstractmethod
    def save(self, tags: Sequence[str], to: Path, note: Say) -> None:
        """Write images to a compressed archive."""

    @abstractmethod
    def remove(self) -> list[str]:
        """Remove all images of ours and return their tags."""


class Engine(ABC):
    """An engine that stacks run on. Each kind is a line in `faultlab/run/placement.py`."""

    name: ClassVar[str]
    owns_kernel: ClassVar[bool]  # labs can change the kernel below: its machine is disposable
    part_of: ClassVar[str] = ""  # another engine: for that name, both are taken in their order
    auto_eligible: ClassVar[bool] = True  # `auto` can choose it
    stays: ClassVar[str] = ""  # what of it stays up without a stack, and what removes that
    prompt: ClassVar[str] = "$"  # where a person types the commands for its containers
    # What a person types where the engine is missing, and where an image of it is.
    setup_hints: ClassVar[tuple[str, str]] = ("docker context ls", "make setup")
    walk_seconds: ClassVar[int]  # the longest time for one walk through a lab
    images: Images
    cpus: str = ""  # that the stacks which it launches can use, as in "0" or "0-2"; empty: all

    @classmethod
    @abstractmethod
    def absent(cls) -> str:
        """Return why no such engine can be reached now; empty if one can."""

    @classmethod
    @abstractmethod
    def might_host(cls, stack: str) -> bool:
        """Return, without asking it, whether it can have this stack of this user."""

    @classmethod
    def require_reachable(cls) -> None:
        """Raise CannotRun if an absent engine can have stacks of this user all the same."""
        return

    @classmethod
    @abstractmethod
    def reach(cls, patient: bool = False) -> Engine:
        """Return an engine that is up; `patient`: wait for one that is just starting."""

    @classmethod
    @abstractmethod
    def bring_up(cls, term: Terminal, images: Collection[str] | None = None) -> Engine:
        """Start an engine with these images (default: all), and print what takes time."""

    @abstractmethod
    def kernel(self, stack: str) -> Shell:
        """Return a root shell on the kernel below a stack. Raises CannotRun if it has none."""

    @abstractmethod
    def facts(self) -> Facts:
        """Return what the engine says about itself."""

    @abstractmethod
    def unfit(self) -> str:
        """Return why labs cannot run on it although it responds; empty if they can."""

    def cannot(self, lab: Lab) -> str:
        """Return what a lab asks for that such an engine never has; empty if it has all."""
        return ""

    def trials(self) -> list[Fact]:
        """Return what it needs beside images and a stack, found by trying."""
        return []

    def batch(self, name: str) -> Batch | None:
        """Return a batch of tasks on the machines of the engine; None if it has none but this."""
        return None

    @abstractmethod
    def stacks(self) -> list[str]:
        """Return our stacks of which anything is left; in a namespace, only its own."""

    @abstractmethod
    def all_stacks(self) -> Mapping[str, str]:
        """Return every stack of every namespace, with the id of its lab."""

    @abstractmethod
    def machines(self, stack: str) -> list[Machine]:
        """Return the machines of a stack and then its daemons, running or not."""

    @abstractmethod
    def leftovers(self, stack: str) -> list[str]:
        """Return all that is left of a stack, as text."""

    def slots(self) -> list[str]:
        """Return the CPUs of each slot, as in "0-1"; empty if a stack has the whole machine."""
        return []

    @contextmanager
    def slot(self, stack: str) -> Iterator[str]:
        """Choose the slot of a stack that is launched in the body; empty for the whole machine."""
        yield ""

    @abstractmethod
    def launch(self, lab: Lab, stack: str, run_id: str, folder: Path, slot: str = "") -> None:
        """Start the containers of a lab, without waiting until they are ready.

        The compose files are stored in `folder`. `slot`: the CPUs of the stack, from `slot`.
        """

    @abstractmethod
    def isolate_network(self, machines: Sequence[Machine]) -> None:
        """Turn containers into machines: with sysctls of their own and without a way out."""

    @abstractmethod
    def down(self, stack: str) -> None:
        """Remove a stack, restore a kernel that it changed, and verify that nothing is left.

        Raises Held if another user or checkout started it.
        """

    def most(self) -> Mapping[str, Any]:
        """Return the limits of a stack as a whole, as services.limits has them; empty for none."""
        return {}

    def tidy(self) -> list[str]:
        """Remove what a `down` that was killed left beside its stack, and return it."""
        return []

    def pause(self, seconds: float) -> None:
        """Let time pass in which something happens on it."""
        time.sleep(seconds)

    @abstractmethod
    def note_kernel(self, stack: str) -> None:
        """Note the settings of the kernel before this stack changes them."""

    @abstractmethod
    def observer(self, stack: str) -> Observer:
        """Return an observer of the CPU time that others take while this stack is measured."""

    @abstractmethod
    def on_disk(self) -> Mapping[str, int]:
        """Return the disk usage of each stack's containers and volumes in bytes.

        An engine that limits it (services.DISK) returns only the stacks that have written more.
        """

    def once(self, image: str, script: str, stack: str, rights: Sequence[str] = ()) -> str:
        """Run a script in a container without a network, and return its output."""
        program = Program(image, ["sh", "-ec", script], stack, rights=rights)
        with self.process(program) as process:
            return output_of(process)

    @abstractmethod
    def sidecar(
        self, stack: str, seconds: int, *, whole: bool = False, rights: Sequence[str] = ()
    ) -> AbstractContextManager[Machine]:
        """Keep a helper for at most `seconds` while the body runs commands in it.

        `whole`: it sees the processes of all stacks, and no process of a stack sees it. A helper
        with rights that a machine does not have must be such a one, because a process that sees it
        can change its files.
        """

    @contextmanager
    def lines(
        self, image: str, command: Sequence[str], inside: Machine, rights: Sequence[str] = ()
    ) -> Iterator[Iterator[str]]:
        """Run a program of ours in a machine's namespaces; yield its lines while the body runs."""
        program = Program(image, command, inside.stack, inside=inside, rights=rights, ours=True)
        with self.process(program) as process:
            yield text.lines(out for out, _ in process.output if out)

    @abstractmethod
    def process(self, program: Program) -> AbstractContextManager[Process]:
        """Run a program in a container of its own while the body runs."""


def output_of(process: Process) -> str:
    """Return all that a program prints, which must succeed. Raises CannotRun."""
    pieces = (piece for part in process.output for piece in part if piece)
    out = b"".join(pieces).decode(errors="replace")
    if code := process.wait(_END_SECONDS):
        last = (out.strip().splitlines() or [f"exit code {code}"])[-1]
        raise CannotRun(f"A helper failed: {last}", "faultlab doctor")
    return out
