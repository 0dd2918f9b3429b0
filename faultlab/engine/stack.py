"""Stack: the machines and daemons of one lab, up on an engine under one name.

A stack is identified by its labels alone; there is no state file.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from random import Random

from faultlab.core import lock
from faultlab.core.command import meanwhile
from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Engine, Machine
from faultlab.engine.measure.load_scale import LoadScale
from faultlab.engine.shell import Shell
from faultlab.engine.sidecar import RIGHTS, Sidecar
from faultlab.engine.users import Users
from faultlab.lab.model import KERNEL
from faultlab.lab.services import CLIENT, USER

_HELPER_SECONDS = 1800  # after which Docker removes a helper, even if we were killed
_LONGEST_COMMAND = 300  # seconds
_READY_SECONDS = 180  # two Tomcats in the lab VM, without KVM on a busy machine, need more than 90


class Stack(Mapping[str, Machine]):
    """The machines of one stack, and after them its daemons, by their names.

    A check looks from the users' machine, which no learner can enter. `dice` draws what differs
    in each look, such as the addresses of the users.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.pace = LoadScale()
        self.dice = Random()
        self._apart: dict[str, Users] = {}
        self._helper: tuple[Machine, float] | None = None
        self._held = ExitStack()
        self._one_helper = threading.Lock()
        every = {machine.name: machine for machine in engine.machines(name)}
        self._users = {name: every.pop(name) for name in [*every] if name.endswith(USER)}
        self._all = every

    def __getitem__(self, name: str) -> Machine:
        """Return a machine or daemon. Raises CannotRun if it no longer exists."""
        if name not in self._all:
            raise CannotRun(f"{name} is not there any more in {self.name}.", "faultlab status")
        return self._all[name]

    def __contains__(self, name: object) -> bool:
        return name in self._all

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def client(self) -> str:
        """The machine whose users have a machine and addresses of their own."""
        apart = (name for name, user in self._users.items() if not user.joins)
        return next(apart, CLIENT + USER).removesuffix(USER)

    def user(self, machine: str = "") -> Shell:
        """Return where the users of a machine act, by default those of the client.

        Raises CannotRun.
        """
        its = self.users(machine)
        if its.joins or not its.link[0]:
            return its
        if its.name not in self._apart:
            self._apart[its.name] = Users(its, lambda: self.dice, self.machines)
        return self._apart[its.name]

    def users(self, machine: str = "") -> Machine:
        """Return the machine of the users of a machine, with the address that they had last.

        Raises CannotRun.
        """
        name = (machine or self.client) + USER
        if name not in self._users or not self._users[name].state.running:
            raise CannotRun(f"{name} is not there in {self.name}.", "faultlab status")
        return self._users[name]

    def sidecar(self, name: str) -> Sidecar:
        """Return a shell beside a machine or daemon, with programs that no user of it can change.

        Raises CannotRun if it does not run.
        """
        return Sidecar(self.helper(), self[name])

    def helper(self) -> Machine:
        """Return the helper container that sees the processes of all stacks. Raises CannotRun."""
        with self._one_helper:
            if self._helper is None or time.monotonic() > self._helper[1]:
                self._held.close()
                beside = self.engine.sidecar(self.name, _HELPER_SECONDS, whole=True, rights=RIGHTS)
                until = time.monotonic() + _HELPER_SECONDS - _LONGEST_COMMAND
                self._helper = self._held.enter_context(beside), until
            return self._helper[0]

    def release(self) -> None:
        """Remove the helper, if there is one."""
        with self._one_helper:
            self._helper = None
            self._held.close()

    @property
    def machines(self) -> list[Machine]:
        """Return the machines without the daemons that have joined them."""
        return [machine for machine in self.values() if not machine.joins]

    def shell(self, at: str) -> Shell:
        """Return where a step runs: a machine, a daemon, or the VM's own kernel."""
        return self[at] if at != KERNEL else self.engine.kernel(self.name)

    @property
    def lab_id(self) -> str:
        """Return the lab that this stack was started for; empty if nothing is up."""
        return next((machine.lab_id for machine in self.values()), "")

    @property
    def run_id(self) -> str:
        """Return the run that this stack belongs to; empty if nothing is up."""
        return next((machine.run_id for machine in self.values()), "")

    @property
    def slot(self) -> str:
        """Return the CPUs that it has, as in "0-1"; empty if it has the whole machine."""
        return next((machine.slot for machine in self.values()), "")

    @property
    def owner(self) -> str:
        """Return the user and checkout that started it; empty if nothing is up or it is unknown."""
        return next((machine.owner for machine in self.values()), "")

    def refuse_others(self) -> None:
        """Check that this user started it from this checkout. Raises Held with who did."""
        lock.refuse_others(self.name, [self.owner])

    def stopped(self) -> list[str]:
        """Return the machines and daemons that do not run, as `name (exit code N)`."""
        states = [(name, machine.state) for name, machine in self.items()]
        return [f"{name} (exit code {now.exit_code})" for name, now in states if not now.running]

    def make_ready(self) -> None:
        """Furnish the machines, and wait for the daemons meanwhile. Raises CannotRun."""
        apart = [user for user in self._users.values() if not user.joins]
        with meanwhile(partial(self.engine.isolate_network, [*self.machines, *apart])):
            self.wait_ready()

    def wait_ready(self, seconds: float = _READY_SECONDS) -> None:
        """Wait until every health check passes. Raises CannotRun with its output."""
        deadline = time.monotonic() + seconds
        for machine in self.values():
            while why := _unready(machine):
                if time.monotonic() > deadline:
                    raise CannotRun(
                        f"{machine.name} was not ready within {seconds:.0f} s: {why}",
                        machine.typed("logs"),
                    )
                time.sleep(0.03)


def _unready(machine: Machine) -> str:
    """Wait for a few seconds until it is ready; return why it is not, or an empty text.

    One command tries again and again. If each try were a command of its own, that would take more
    CPU time from a daemon that starts than the tries do. Raises CannotRun if the daemon has ended.
    """
    health = machine.health
    if not health:
        return ""
    tries = f"for _ in $(seq 20); do ({health}) >/dev/null 2>&1 && exit; sleep 0.1; done"
    try:
        done = machine.run(f"{tries}; {health}", timeout=5)
        why = (done.err or done.out).strip() or f"exit code {done.code}" if done.code else ""
    except CannotRun:
        why = "it does not respond"
    if why and not machine.state.running:
        tail = machine.last_log_line()
        raise CannotRun(
            f"{machine.name} ended while it started: {tail or 'no log line'}", machine.typed("logs")
        )
    return why
