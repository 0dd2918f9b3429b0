"""The contract of an engine: all that the rest of the program may ask of what stacks run on.

Docker on this machine (`local`), Docker in the lab VM (`vm`) and the fake engine of the unit tests
keep it. No object, id or error of Docker's is above this folder. Every verb raises CannotRun, with
the next command to type, when the engine does not answer or refuses.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NoReturn, Protocol

from faultlab.core.terminal import Terminal
from faultlab.engine.contention import Observer
from faultlab.engine.shell import Shell
from faultlab.lab.model import Lab

Say = Callable[[str], None]
Part = tuple[bytes | None, bytes | None]  # of standard output and standard error


@dataclass(frozen=True)
class State:
    """How a machine or daemon is now; `started`: when, in UTC, as ISO 8601."""

    running: bool
    exit_code: int
    oom_killed: bool
    restarts: int
    started: str = ""


@dataclass(frozen=True)
class Facts:
    """Versions of an engine and of the kernel below it; `memory` in bytes."""

    version: str
    kernel: str
    system: str
    cgroup: str
    cpus: int
    memory: int


class Shelled(Protocol):
    """A shell with a terminal in a machine or daemon, for somebody who types."""

    first: bytes  # what it printed before its socket could be read

    def open(self) -> socket.socket:
        """Start the shell and return the socket, which does not block."""

    def resize(self, columns: int, rows: int) -> None:
        """Tell the shell how large its window is."""

    def close(self) -> None:
        """Hang the shell up, as a terminal does; it waits for nothing in the machine."""


class Process(Protocol):
    """A program in a container of its own, which prints and ends."""

    began: float  # when it was told to start, by time.monotonic
    output: Iterator[Part]  # in pieces as they come, to the end of the program

    def wait(self, seconds: float) -> int:
        """Return the exit code when the program has ended."""


class Machine(Shell):
    """A machine of a stack, or a daemon that has joined one. Probes run their commands in it."""

    engine: Engine
    joins: str  # the machine whose network and processes a daemon shares; empty for a machine
    stack: str  # the name of the stack that it belongs to
    lab_id: str
    run_id: str
    owner: str  # of its stack, as naming.owner says it; empty where an older faultlab started it
    created: str  # in UTC, as ISO 8601
    mark: str  # the text in /proc/PID/cgroup by which its processes are known

    @property
    @abstractmethod
    def pid(self) -> str:
        """The id of its first process, as the kernel below counts; "0" while it does not run."""

    @property
    @abstractmethod
    def state(self) -> State:
        """How it is now."""

    @abstractmethod
    def unready(self) -> str:
        """Return why its own health check does not pass; empty when it passes or has none."""

    @abstractmethod
    def last_log_line(self) -> str:
        """Return the last line of its log, or nothing."""

    @abstractmethod
    def restart(self) -> None:
        """Stop and start it; the machine that a daemon has joined keeps its settings."""

    @abstractmethod
    def limit(self, cpus: float | None, memory: str | None) -> None:
        """Change its limits while it runs; `cpus` in cores, `memory` as in "512m"."""

    @abstractmethod
    def put(self, folder: str, archive: bytes) -> None:
        """Unpack a tar archive into a folder of it."""

    @abstractmethod
    def terminal(self) -> Shelled:
        """Return a terminal in it that is not open yet."""

    @abstractmethod
    def log_in(self) -> NoReturn:
        """Become a shell in it, in place of this program."""

    @abstractmethod
    def typed(self, action: str) -> str:
        """Return the command line of an engineer for an action on it, such as "restart"."""


class Images(ABC):
    """The images that an engine has."""

    @abstractmethod
    def missing(self, wanted: Collection[str] | None = None) -> list[str]:
        """Return those of the wanted images (all) that are not there, in the order to build."""

    @abstractmethod
    def ensure(
        self, say: Say, wanted: Collection[str] | None = None, *, network: bool = False
    ) -> None:
        """Build what is missing; `say` gets a line for each step.

        `network`: the build of a folder that is not of this project may use a network, too.
        """

    @abstractmethod
    def save(self, tags: Sequence[str], to: Path, note: Say) -> None:
        """Write images into a compressed archive."""

    @abstractmethod
    def remove(self) -> list[str]:
        """Remove all images of ours and return their tags."""


class Engine(ABC):
    """An engine: stacks run on it. Each kind is a line in `faultlab/run/placement.py`."""

    name: ClassVar[str]
    owns_kernel: ClassVar[bool]  # the kernel below is ours to change: it is a disposable VM's
    walk_seconds: ClassVar[int]  # that one walk through a lab may take at most
    images: Images

    @classmethod
    @abstractmethod
    def absent(cls) -> str:
        """Return in words why there is none to be reached now; empty when there is one."""

    @classmethod
    @abstractmethod
    def may_have(cls, stack: str) -> bool:
        """Tell, without asking it, whether this stack of this user may be on it."""

    @classmethod
    @abstractmethod
    def reach(cls, patient: bool = False) -> Engine:
        """Return one that is there; `patient`: wait for one that is just coming up."""

    @classmethod
    @abstractmethod
    def bring_up(cls, term: Terminal, images: Collection[str] | None = None) -> Engine:
        """Bring one up, with these images (all), and say what takes time."""

    @property
    @abstractmethod
    def kernel(self) -> Shell:
        """A root shell on the kernel below. Raises CannotRun where that must not be changed."""

    @abstractmethod
    def facts(self) -> Facts:
        """Return what the engine says of itself."""

    @abstractmethod
    def unfit(self) -> str:
        """Return why labs cannot run on it, though it answers; empty where they can."""

    @abstractmethod
    def stacks(self) -> list[str]:
        """Return the stacks of ours of which anything is left; in a namespace, those in it."""

    @abstractmethod
    def neighbours(self) -> Mapping[str, str]:
        """Return every stack of every namespace, with the id of its lab."""

    @abstractmethod
    def machines(self, stack: str) -> list[Machine]:
        """Return the machines of a stack and then its daemons, running or not."""

    @abstractmethod
    def leftovers(self, stack: str) -> list[str]:
        """Return all that is left of a stack, in words."""

    @abstractmethod
    def launch(self, lab: Lab, stack: str, run_id: str, folder: Path) -> None:
        """Start the containers of a lab; none of them need be ready.

        What was run stays in `folder`, to be read.
        """

    @abstractmethod
    def furnish(self, machines: Sequence[Machine]) -> None:
        """Give machines what makes them machines: sysctls of their own, no way out."""

    @abstractmethod
    def down(self, stack: str) -> None:
        """Remove a stack, put a kernel that it changed back, and read back that nothing is left.

        Raises Held where another user or checkout started it.
        """

    @abstractmethod
    def note_kernel(self, stack: str) -> None:
        """Note the settings of the kernel before this stack changes them."""

    @abstractmethod
    def observer(self, stack: str) -> Observer:
        """Return what measures how much others take of the CPUs while this stack is looked at."""

    @abstractmethod
    def on_disk(self) -> Mapping[str, int]:
        """Return the bytes that the containers and volumes of each stack have on the disk."""

    @abstractmethod
    def once(self, image: str, script: str, stack: str, rights: Sequence[str] = ()) -> str:
        """Run a script in a container without a network, and return what it printed."""

    @abstractmethod
    def beside(
        self,
        image: str,
        stack: str,
        seconds: int,
        *,
        whole: bool = False,
        rights: Sequence[str] = (),
    ) -> AbstractContextManager[Machine]:
        """Keep a helper while the body runs commands in it, at most so many seconds.

        `whole`: it sees the processes of all stacks, and no process of a stack sees it. A helper
        with rights that a machine has not must be such a one: who sees it can change its files.
        """

    @abstractmethod
    def lines(
        self, image: str, command: Sequence[str], inside: Machine, rights: Sequence[str] = ()
    ) -> AbstractContextManager[Iterator[str]]:
        """Run a program in a machine's namespaces and yield its lines while the body runs."""

    @abstractmethod
    def process(
        self,
        image: str,
        command: Sequence[str],
        stack: str,
        *,
        inside: Machine | None = None,
        rights: Sequence[str] = (),
        memory: str = "",
        processes: int = 0,
        files: bytes | None = None,
        folder: str = "/",
    ) -> AbstractContextManager[Process]:
        """Run a program of others in a container of its own, for as long as the body takes.

        `inside`: the machine whose network, processes and volumes (read-only) it sees; without one
        it has no network. `memory` as in "512m", `processes` at most; `files`: a tar archive that
        is unpacked in `/` before it starts, in `folder`.
        """
