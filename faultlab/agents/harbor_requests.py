"""Requests: the two programs on client with which an agent of Harbor reaches the rest of a case.

Harbor gives an agent one shell. `on MACHINE COMMAND` runs a command on another machine, and
`diagnose COMPONENT RESOURCE CAUSE` says what is wrong. Both leave a request in a folder of client,
write its name into a named pipe that we read, and print our response.
"""

import shlex
import threading
import time
from pathlib import PurePosixPath

from faultlab.agents import remote
from faultlab.agents.command import LONGEST, MOST, Output
from faultlab.agents.session import Session
from faultlab.core.errors import BadInput, Problem
from faultlab.lab.services import CLIENT

_FOLDER = "/run/requests"
_PIPE = f"{_FOLDER}/new"
_ON = "/usr/local/bin/on"
_PROGRAM = f"""#!/bin/sh
# Usage: on MACHINE COMMAND...
#        diagnose COMPONENT RESOURCE CAUSE
set -eu
request=$(mktemp -d {_FOLDER}/XXXXXXXX)
mkfifo "$request/code"
printf '%s\\0' "$0" "$@" >"$request/words"
echo "$request" >{_PIPE}
read -r code <"$request/code"
cat "$request/out"
cat "$request/err" >&2
rm -r "$request"
exit "$code"
"""
_SETUP = f"mkdir -p {_FOLDER} && mkfifo {_PIPE} && chmod +x {_ON} && ln {_ON} {_ON[:-2]}diagnose"
_LAST = 5  # seconds until the reader of the pipe has ended
_PAUSE = 1.0  # seconds after a pipe that cannot be read
_LOST = 125  # the exit code of a request that met a trouble of ours
_AT_ONCE = 16  # requests; an agent can write any number of names into the pipe


class Requests:
    """The requests of one session, which a thread reads until the session ends."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.problem: Problem | None = None  # of ours, which ended the session
        self._free = threading.Semaphore(_AT_ONCE)
        self._over = threading.Event()
        session.write_file(CLIENT, _ON, _PROGRAM.encode())
        made = session.run(CLIENT, _SETUP)
        if made.code:
            raise OSError(made.err.strip())
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        """Carry out requests until the session ends, or is lost, which is how its removal shows."""
        try:
            while not self._over.is_set():
                read = self._session.run(CLIENT, f"cat {_PIPE}", LONGEST)
                for name in filter(None, read.out.splitlines()):
                    self._free.acquire()
                    threading.Thread(target=self._carry_out, args=(name,), daemon=True).start()
                if read.code or not read.out:
                    time.sleep(_PAUSE)
        except Problem as problem:
            self.problem = problem

    def close(self) -> None:
        """Carry out no more requests, so that no program of ours is left on client."""
        self._over.set()
        self._session.run(CLIENT, f"timeout {_LAST} sh -c 'echo >{_PIPE}'", _LAST)
        self.thread.join(_LAST)

    def _carry_out(self, request: str) -> None:
        folder = str(PurePosixPath(_FOLDER, PurePosixPath(request).name))
        try:
            words = remote.read(self._session, CLIENT, f"{folder}/words", MOST).decode()
            done = self._answer(words.removesuffix("\0").split("\0"))
            for name, text in (("out", done.out), ("err", done.err)):
                self._session.write_file(CLIENT, f"{folder}/{name}", text.encode())
            self._session.run(CLIENT, f"echo {done.code} >{shlex.quote(folder)}/code")
        except Problem as problem:
            self.problem = problem
        except (OSError, UnicodeError):
            pass  # the agent has removed or spoiled its own request
        finally:
            self._free.release()

    def _answer(self, words: list[str]) -> Output:
        """Return the response to the words of a request."""
        try:
            match [PurePosixPath(words[0]).name, *words[1:]]:
                case ["on", machine, *command] if command:
                    return self._session.run(machine, " ".join(command), LONGEST)
                case ["diagnose", component, resource, cause]:
                    said = self._session.diagnose(component, resource, cause)
                    return Output(0, f"{' '.join(said.values())}\n", "")
        except BadInput as problem:
            return Output(2, "", f"{problem.message}\n")
        except Problem as problem:  # without a response the agent would wait for its time limit
            self.problem = problem
            return Output(_LOST, "", f"{problem.message}\n")
        usage = "Use: on MACHINE COMMAND..., or diagnose COMPONENT RESOURCE CAUSE\n"
        return Output(2, "", usage)
