"""Local: the engine that this user's `docker` talks to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine import helper, launch, removal
from faultlab.engine.build import DockerImages
from faultlab.engine.container import ROLE, DockerMachine
from faultlab.engine.contention import Observer
from faultlab.engine.contract import Facts, Machine
from faultlab.engine.docker import LAB_LABEL, STACK_LABEL, DockerEngine
from faultlab.engine.shell import Shell
from faultlab.lab import images
from faultlab.lab.model import Lab


class LocalEngine(DockerEngine):
    """Docker on this machine, whose kernel is not ours to change."""

    name = "local"
    owns_kernel = False
    walk_seconds = 900

    def __init__(self, url: str | None = None) -> None:
        super().__init__(url)
        self.images = DockerImages(self)

    @classmethod
    def absent(cls) -> str:
        """Return nothing: whether Docker answers is found out by reaching it."""
        return ""

    @classmethod
    def may_have(cls, stack: str) -> bool:
        """Tell that it may: to ask Docker on this machine costs little."""
        return True

    @classmethod
    def reach(cls, patient: bool = False) -> LocalEngine:
        """Return Docker on this machine. Raises CannotRun when it does not answer."""
        return cls()

    @classmethod
    def bring_up(cls, term: Terminal, images: Collection[str] | None = None) -> LocalEngine:
        """Build the images that are missing. Raises CannotRun."""
        engine = cls()
        with term.step("images", "looking for what has to be built") as step:
            engine.images.ensure(step.note, images)
            step.done("ready")
        return engine

    @property
    def kernel(self) -> Shell:
        """A root shell on the kernel below: there is none. Raises CannotRun."""
        raise CannotRun("This engine's kernel must not be changed.", "add --engine vm")

    def facts(self) -> Facts:
        """Return what `docker info` says."""
        with self.errors():
            info: dict[str, Any] = self.client.info()
        return Facts(
            version=info.get("ServerVersion", ""),
            kernel=info.get("KernelVersion", ""),
            system=info.get("OperatingSystem", ""),
            cgroup=info.get("CgroupVersion", ""),
            cpus=info.get("NCPU", 0),
            memory=info.get("MemTotal", 0),
        )

    def stacks(self) -> list[str]:
        """Return the stacks of ours of which anything is left; in a namespace, those in it."""
        return removal.names(self)

    def neighbours(self) -> Mapping[str, str]:
        """Return every stack of every namespace, with the id of its lab."""
        labels = [container.labels for container in self.containers()]
        return {its[STACK_LABEL]: its.get(LAB_LABEL, "") for its in labels}

    def machines(self, stack: str) -> list[Machine]:
        """Return the machines of a stack and then its daemons, running or not."""
        found = [
            DockerMachine(role, container, self)
            for container in self.containers(stack=stack)
            if (role := container.labels.get(ROLE))
        ]
        names = {machine.mark: machine.name for machine in found}
        for machine in found:
            home = removal.joined_id(machine.container)
            machine.joins = names.get(home, home)
        return sorted(found, key=lambda machine: (bool(machine.joins), machine.name))

    def leftovers(self, stack: str) -> list[str]:
        """Return the containers, networks and volumes that still carry this stack's label."""
        return removal.leftovers(self, stack)

    def launch(self, lab: Lab, stack: str, run_id: str, folder: Path) -> None:
        """Start the containers by Compose; the files that were run stay in `folder`."""
        launch.launch(self, lab, stack, run_id, folder)

    def furnish(self, machines: Sequence[Machine]) -> None:
        """Open /proc/sys/net of the machines, close their way out and to the host, by a helper."""
        rights = ("SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN")
        stack = machines[0].stack if machines else ""
        self.once(
            "machine",
            launch.furnishing(machines, removal.bridges(self, stack)),
            stack,
            rights,
            whole=True,
        )

    def down(self, stack: str) -> None:
        """Remove a stack, and read back that nothing is left."""
        removal.down(self, stack, self.interfaces)

    def interfaces(self) -> list[str]:
        """Return the network interfaces of the machine that Docker runs on."""
        return [path.name for path in Path("/sys/class/net").iterdir()]

    def note_kernel(self, stack: str) -> None:
        """Note nothing: no lab changes this kernel."""

    def observer(self, stack: str) -> Observer:
        """Return an observer to whom the stack's containers are no others."""
        return Observer([str(container.id) for container in self.containers(stack=stack)])

    def once(
        self, image: str, script: str, stack: str, rights: Sequence[str] = (), whole: bool = False
    ) -> str:
        """Run a script in a container without a network, and return what it printed.

        `whole`: it has the processes and the network of the machine that Docker runs on.
        """
        options: dict[str, Any] = {"pid_mode": "host", "network_mode": "host"} if whole else {}
        options |= helper.having(rights)
        return helper.once(self, images.tag(image), script, stack, **options)

    @contextmanager
    def beside(
        self,
        image: str,
        stack: str,
        seconds: int,
        *,
        whole: bool = False,
        rights: Sequence[str] = (),
    ) -> Iterator[Machine]:
        """Keep a helper container while the body runs commands in it.

        Docker itself ends and removes it after so many seconds, should we be killed before.
        """
        options = helper.having(rights)
        if whole:
            options |= {"pid_mode": "host", "read_only": True, "tmpfs": {"/tmp": ""}}
        command = ["sleep", str(seconds)]
        with helper.running(self, images.tag(image), command, stack, **options) as container:
            yield DockerMachine("a helper container", container, self)

    def lines(
        self, image: str, command: Sequence[str], inside: Machine, rights: Sequence[str] = ()
    ) -> AbstractContextManager[Iterator[str]]:
        """Run a program in a machine's namespaces and yield its lines while the body runs."""
        home = f"container:{inside.mark}"
        return helper.lines(
            self,
            images.tag(image),
            command,
            inside.stack,
            network_mode=home,
            pid_mode=home,
            cap_drop=["ALL"],
            cap_add=list(rights),
            security_opt=helper.UNCONFINED,
        )

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
    ) -> AbstractContextManager[helper.DockerProcess]:
        """Run a program of others in a container of its own, for as long as the body takes."""
        options: dict[str, Any] = {"network_mode": "none", "working_dir": folder}
        if inside is not None:
            home = f"container:{inside.mark}"
            files_of = [f"{inside.mark}:ro"]  # the sockets in them can be used all the same
            options = {"network_mode": home, "pid_mode": home, "volumes_from": files_of}
        return helper.process(
            self,
            images.tag(image),
            command,
            stack,
            files,
            cap_add=list(rights),
            mem_limit=memory or None,
            pids_limit=processes or None,
            **options,
        )
