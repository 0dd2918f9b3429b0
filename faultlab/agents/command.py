"""Command: one command of an agent on a machine, its limits, and its result."""

import time
from dataclasses import dataclass
from shlex import quote

from faultlab.engine.contract import Machine
from faultlab.engine.shell import GRACE, Done

LONGEST = 600.0  # seconds of one command
MOST = 1 << 20  # bytes of each output of a command
TIMED_OUT = 124  # the exit code of timeout(1)
NOT_RUNNING = 126
_KILLED = 137
_LEARNS = 2.0  # seconds within which Docker learns of the end of a container
# `head` keeps the beginning and `cat` reads the rest, so that a long output does not end a command.
# Nothing waits for `head` if a process in the background keeps the output open, so it must not hold
# anything in a buffer.
_LIMITED = (
    "exec 3>&1 4>&2; timeout -k 1 {seconds:g} bash -c {command} </dev/null"
    " > >(stdbuf -o0 head -c {most} >&3; exec cat >/dev/null)"
    " 2> >(stdbuf -o0 head -c {most} >&4; exec cat >/dev/null) 3>&- 4>&-"
)


@dataclass(frozen=True)
class Output:
    """The result of one command; `code` as a shell gives it, 124 if it did not end in time."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Command:
    """A command in the record of a session; `size`: bytes of both outputs."""

    machine: str
    command: str
    code: int
    seconds: float
    size: int


def limited(command: str, seconds: float) -> str:
    """Return a command for bash that ends in time, with at most a MiB of each of its outputs."""
    script = _LIMITED.format(seconds=seconds, command=quote(command), most=MOST)
    return f"exec bash -c {quote(script)}"


def in_limits(machine: Machine, command: str, seconds: float) -> Done:
    """Run a command within its limits. Raises CannotRun as `Machine.run`.

    If it was killed, its container may have been. Docker learns of that a moment later, so this
    returns when the state of the machine can be trusted.
    """
    done = machine.run(limited(command, seconds), seconds + GRACE)
    until = time.monotonic() + _LEARNS
    while done.code == _KILLED and time.monotonic() < until and machine.state.running:
        time.sleep(0.05)
    return done
