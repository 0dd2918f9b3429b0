"""Adapter: a program that reads a ticket on standard input and runs commands through a socket.

It runs on this machine with the user's rights, in a process group of its own. When its time is up,
when it has ended, and when we are killed, the whole group ends.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from faultlab.agents import host
from faultlab.agents.agent import Agent
from faultlab.agents.agent_protocol import Usage, Wire, listening
from faultlab.agents.ticket import Talk
from faultlab.core import scratch
from faultlab.core.errors import CannotRun

SOCKET = "FAULTLAB_SOCKET"
LOG = "agent.log"  # in the folder of the run
_MOST_OUTPUT = 1 << 20  # bytes that are kept
_POLL = 0.05  # seconds
# The reader of the pipe waits until we have ended, however that came, and then ends the group.
_WITH_US = '(cat <"$1" >/dev/null; kill -KILL 0) >/dev/null 2>&1 & exec sh -c "$2"'


def work(agent: Agent, session: Talk, log: Path) -> tuple[Usage, str]:
    """Let the agent work until it ends or its time is up.

    Return what it has used, and how it ended: empty if by itself and with success. Raises Lost or
    CannotRun if a trouble of ours ended the session.
    """
    wire = Wire(session, time.monotonic() + agent.seconds)
    with scratch.folder("fl-") as folder:
        socket = Path(folder, "s")
        with listening(socket, wire.answer), _running(agent, socket, log) as program:
            feeder = threading.Thread(
                target=_tell, args=(program.stdin, session, agent.seconds), daemon=True
            )
            feeder.start()
            ended = _ended(program, wire)
        wire.close()
    if wire.trouble:
        raise wire.trouble
    return wire.usage, ended


def _ended(program: subprocess.Popen[bytes], wire: Wire) -> str:
    """Wait for the end of a program, and return why it was no success."""
    while program.poll() is None:
        if wire.over.wait(_POLL):
            return wire.session.aborted or "the session was lost"
        if time.monotonic() > wire.until:
            return "its time was up"
    return f"it ended with exit code {program.returncode}" if program.returncode else ""


def _tell(stdin: IO[bytes] | None, session: Talk, seconds: float) -> None:
    """Write the ticket, as JSON. A program that does not read it has made its choice."""
    told = {
        "case": session.case,
        "ticket": session.ticket,
        "machines": session.machines,
        "daemons": session.daemons,
        "host": host.USAGE if session.machines else "",
        "terms": session.terms,
        "seconds": seconds,
    }
    assert stdin is not None
    with suppress(OSError), stdin:
        stdin.write(json.dumps(told, ensure_ascii=False).encode() + b"\n")


@contextmanager
def _running(agent: Agent, socket: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program of an agent while the body runs, and then end its process group."""
    alive, ours = os.pipe()
    try:
        program = subprocess.Popen(
            ["sh", "-c", _WITH_US, agent.id, f"/dev/fd/{alive}", agent.command],
            cwd=agent.folder,
            env={**os.environ, SOCKET: str(socket)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(alive,),
            start_new_session=True,
        )
    except OSError as error:
        os.close(ours)
        raise CannotRun(f"{agent.id} cannot be started: {error.strerror}.") from error
    finally:
        os.close(alive)
    assert program.stdout is not None
    reader = threading.Thread(target=_keep, args=(program.stdout, log), daemon=True)
    reader.start()
    try:
        yield program
    finally:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        os.close(ours)
        program.wait()
        reader.join(timeout=5)


def _keep(output: IO[bytes], log: Path) -> None:
    """Write the first part of an output to a file, and read the rest."""
    left = _MOST_OUTPUT
    with output, log.open("wb") as file:
        while some := os.read(output.fileno(), 1 << 16):
            file.write(some[:left])
            file.flush()
            left -= min(left, len(some))
