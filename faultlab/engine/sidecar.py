"""Sidecar: a shell beside a machine, with programs that no user of the machine can change."""

import shlex

from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Machine
from faultlab.engine.shell import Done, Shell

RIGHTS = ("SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN", "NET_RAW")
# The client of the database finds the socket of the server by this variable.
_SOCKET = "export MYSQL_UNIX_PORT={root}/run/mysqld/mysqld.sock"
_INSIDE = _SOCKET + "; exec nsenter -t {pid} -n -- sh -c {0}"


class Sidecar(Shell):
    """The network and the files of a machine or daemon, as a helper container sees them.

    Programs are the helper's own. They see the interfaces, sockets, counters and rules of the
    machine. Its files are below `root`. Its processes have the numbers of the kernel below.
    """

    def __init__(self, helper: Machine, machine: Machine) -> None:
        self.name = machine.name
        self._helper = helper
        # A restarted daemon has another process id.
        if not machine.state.running:
            raise CannotRun(f"{machine.name} is not running.", machine.typed("start"))
        self.pid = machine.pid
        self.root = f"/proc/{self.pid}/root"

    def run(self, command: str, timeout: float = 30) -> Done:
        """Run a shell command in the network of the machine. Raises CannotRun."""
        inside = _INSIDE.format(shlex.quote(command), root=self.root, pid=self.pid)
        return self._helper.run(inside, timeout)
