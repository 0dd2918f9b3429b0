"""Users: the machines from which a check looks. Nobody else can enter them."""

from collections.abc import Callable
from random import Random

from faultlab.engine.contract import Machine
from faultlab.engine.shell import Done, Shell

_PREFIX = "ip -4 -o addr show dev eth0 | sed -nE '1s/.* inet ([0-9]+[.][0-9]+[.][0-9]+)[.].*/\\1/p'"
# Docker gives out addresses from below, so nobody else has these.
_FIRST, _LAST = 130, 250
# The address is the source of every route that there is, also of one that leads through a router.
_MOVE = (
    "{{ ip -4 addr replace {0}/24 dev eth0 && ip -4 route show dev eth0 |"
    " sed -E 's/ (src|proto) [^ ]+//g; s/^/route replace /; s/$/ dev eth0 src {0}/' |"
    " ip -4 -batch -; }} >/dev/null\n"
)


class Users(Shell):
    """The users of a stack. Each command comes from another address, which is drawn.

    `dice`: returns what draws the addresses of the look that is taken now.
    """

    def __init__(self, machine: Machine, dice: Callable[[], Random]) -> None:
        self.name = machine.name
        self._machine = machine
        self._dice = dice
        self._prefix = ""

    def run(self, command: str, timeout: float = 30) -> Done:
        """Run a shell command as root from an address of its own, and wait for its end."""
        return self._machine.run(self._moved() + command, timeout)

    def _moved(self) -> str:
        """Return the commands that take another address; earlier ones stay for open connections."""
        if not self._prefix:
            self._prefix = self._machine.must(_PREFIX).strip()
        return _MOVE.format(f"{self._prefix}.{self._dice().randint(_FIRST, _LAST)}")
