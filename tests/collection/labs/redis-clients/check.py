"""redis-clients: Redis takes twenty connections, and sixty shops come."""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.stack import Stack
from faultlab.lab.asks import said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows

SHOPS = 60
# Each shop opens its connection and keeps it, and then all of them ask, one after the other.
CROWD = f"""python3 - <<'_end_'
import socket
held = []
for _ in range({SHOPS}):
    try:
        held.append(socket.create_connection(("store", 6379), 5))
    except OSError:
        pass
served = 0
for one in held:
    try:
        one.settimeout(5)
        one.sendall(b"PING\\r\\n")
        served += one.recv(64).startswith(b"+PONG")
    except OSError:
        pass
print(served)
_end_"""
COUNTERS = r"printf 'info stats\r\nquit\r\n' | nc -w 2 127.0.0.1 6379"
SESSION = r"printf 'set ask-{n} {n} ex 60\r\nget ask-{n}\r\nquit\r\n' | nc -w 3 store 6379"


@dataclass(frozen=True)
class Look:
    """Shops that were served while all of them had a connection, of `SHOPS`."""

    served: int


@dataclass(frozen=True)
class Inspection:
    """Connections that Redis has rejected since it started."""

    rejected: int


def look(stack: Stack) -> Look:
    """Let all shops come at a time."""
    return Look(int(stack.user().must(CROWD, timeout=120)))


def inspect(stack: Stack) -> Inspection:
    """Read the counter of Redis, from its own machine."""
    out = stack.sidecar("store").run(COUNTERS).out
    found = re.search(r"rejected_connections:(\d+)", out)
    if not found:
        raise CannotRun("Redis does not tell its counters.", "faultlab status")
    return Inspection(int(found[1]))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("shops that are served, of 60", "served", exactly(SHOPS), at_most(30)).says(
            "Each shop of the crowd gets its answer.", "Some shops of the crowd get no answer."
        ),
    ),
    evidence=(
        grows("connections that Redis rejects", "rejected", at_least(20)).seen(
            "store", f"{COUNTERS} | grep rejected"
        ),
    ),
    asks=(said("a session", SESSION),),
)
