"""redis-evict: Redis has room for a few hundred sessions, and a thousand users come."""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.stack import Stack
from faultlab.lab.asks import said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows

USERS = 1000
SIZE = 16 << 10  # bytes of a session
# All sessions are stored, then all are read. They are removed in the end, for the next look.
SESSIONS = f"""python3 - <<'_end_'
import os, socket
store = socket.create_connection(("store", 6379), 5)
store.settimeout(10)
file = store.makefile("rwb")
def ask(*words):
    parts = b"".join(b"$%d\\r\\n%s\\r\\n" % (len(word), word) for word in words)
    file.write(b"*%d\\r\\n" % len(words) + parts)
    file.flush()
    head = file.readline()
    if head[:1] != b"$" or head[1:2] == b"-":
        return head
    return file.read(int(head[1:]) + 2)[:-2]
sessions = {{os.urandom(8).hex().encode(): os.urandom({SIZE}) for _ in range({USERS})}}
for name, session in sessions.items():
    ask(b"SET", name, session, b"EX", b"86400")
print(sum(ask(b"GET", name) == session for name, session in sessions.items()))
ask(b"DEL", *sessions)
_end_"""
COUNTERS = r"printf 'info stats\r\nquit\r\n' | nc -w 2 127.0.0.1 6379"
SESSION = r"printf 'set ask-{n} {n} ex 60\r\nget ask-{n}\r\nquit\r\n' | nc -w 3 store 6379"


@dataclass(frozen=True)
class Look:
    """Users whose session was there after all of them had logged in, of `USERS`."""

    kept: int


@dataclass(frozen=True)
class Inspection:
    """Keys that Redis has evicted since it started."""

    evicted: int


def look(stack: Stack) -> Look:
    """Let all users log in, and then ask for the session of each."""
    return Look(int(stack.user().must(SESSIONS, timeout=120)))


def inspect(stack: Stack) -> Inspection:
    """Read the counter of Redis, from its own machine."""
    out = stack.sidecar("store").run(COUNTERS).out
    found = re.search(r"evicted_keys:(\d+)", out)
    if not found:
        raise CannotRun("Redis does not tell its counters.", "faultlab status")
    return Inspection(int(found[1]))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("users who stay logged in, of 1000", "kept", exactly(USERS), at_most(500)).says(
            "Each user stays logged in.", "Some users are logged out while they shop."
        ),
    ),
    evidence=(
        grows("keys that Redis evicts", "evicted", at_least(300)).seen(
            "store", f"{COUNTERS} | grep evicted_keys"
        ),
    ),
    asks=(said("a session", SESSION),),
)
