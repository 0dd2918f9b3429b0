"""Users: the machines from which a check looks. Only checks can enter them."""

from collections.abc import Callable, Iterable
from random import Random

from faultlab.engine.contract import Machine
from faultlab.engine.shell import Done, Shell
from faultlab.lab import browser

# Docker gives out addresses from below, and the shop of a lab moves to .250.
_FIRST, _LAST = 20, 249
_PARTS = 5  # of this range; each gives an address before one gives another
# The address is the source of every route that there is, also of one that leads through a router.
_MOVE = (
    "{{ ip -4 addr replace {0}/24 dev eth0 && ip -4 route show dev eth0 |"
    " sed -E 's/ (src|proto) [^ ]+//g; s/^/route replace /; s/$/ dev eth0 src {0}/' |"
    " ip -4 -batch -; }} >/dev/null\n"
)
_ADD = "ip -4 addr replace {}/24 dev eth0\n"
# curl sends these headers where a command names no others.
_BROWSE = "export CURL_HOME=$(mktemp -d); cat >$CURL_HOME/.curlrc <<'_end_'\n{}_end_\n"
# Another machine could say that it has the address of the one that is asked.
_PIN = "ip neigh replace {0} lladdr {1} dev eth0 nud permanent\n"


class Users(Shell):
    """The users of a stack. Each command comes from another address, which is drawn.

    curl sends the headers of a browser, of a version that is drawn.

    `dice`: returns what draws the addresses of the look that is taken now. `others`: the machines
    of the stack.
    """

    def __init__(
        self, machine: Machine, dice: Callable[[], Random], others: Iterable[Machine]
    ) -> None:
        self.name = machine.name
        self._machine = machine
        self._dice = dice
        self._prefix = machine.link[0].rpartition(".")[0]
        self._drawn: list[str] = []  # an address of each part, for the next commands
        self._pins = "".join(_PIN.format(*other.link) for other in others if other.link[0])

    def run(self, command: str, timeout: float = 30) -> Done:
        """Run a shell command as root from an address of its own, and wait for its end."""
        pins, self._pins = self._pins, ""
        # Earlier addresses stay, for connections that are still open.
        dice = self._dice()
        if not self._drawn:
            many = (_LAST - _FIRST + 1) // _PARTS
            firsts = dice.sample(range(_FIRST, _FIRST + _PARTS * many, many), _PARTS)
            self._drawn = [f"{self._prefix}.{first + dice.randrange(many)}" for first in firsts]
            pins += "".join(_ADD.format(address) for address in self._drawn)
        move = _MOVE.format(self._drawn.pop())
        browse = _BROWSE.format(browser.config(dice.randint(0, 29)))
        return self._machine.run(pins + move + browse + command, timeout)
