"""Agent protocol: the Unix socket on which an agent's program asks for commands, as lines of JSON.

A line has one key: run, diagnose, check or usage. The answer is one line, too. A line that is
wrong is answered with {"error": …}, and the agent can go on.
"""

import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from faultlab.agents.ticket import Talk
from faultlab.core.document import Strict
from faultlab.core.errors import BadInput, CannotRun, Problem

_LONGEST_LINE = 1 << 20  # bytes
_MOST_LINES = 10_000  # of one agent
_Text = Annotated[str, Field(max_length=_LONGEST_LINE)]


class Run(Strict):
    """A command on a machine; `timeout` in seconds."""

    machine: str
    command: _Text
    timeout: Annotated[float, Field(gt=0, strict=False)] = 60


class Diagnose(Strict):
    """A diagnosis, in the words that the agent was given."""

    component: str
    resource: str
    cause: str


class Nothing(Strict):
    """A request without facts."""


class Usage(Strict):
    """The tokens and dollars that the agent has used so far, as far as it knows them.

    `model`: the name and version of the model that has answered it.
    """

    tokens: Annotated[int, Field(ge=0)] | None = None
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)] | None = None
    model: Annotated[str, Field(max_length=200)] | None = None


class Request(Strict):
    """One line of an agent."""

    run: Run | None = None
    diagnose: Diagnose | None = None
    check: Nothing | None = None
    usage: Usage | None = None


@dataclass
class Wire:
    """The requests of one agent in one session."""

    session: Talk
    until: float  # of time.monotonic: when its time is up
    usage: Usage = field(default_factory=Usage)
    trouble: Problem | None = None  # of ours, which ends the session without a result
    over: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Lock = field(default_factory=threading.Lock)  # one request at a time
    _lines: int = 0

    def answer(self, line: bytes) -> dict[str, Any]:
        """Return the answer to a line; an error if the session is over."""
        with self._turn:
            self._lines += 1
            if self._lines > _MOST_LINES:
                return {"error": f"more than {_MOST_LINES} requests"}
            try:
                if not self.over.is_set():
                    reply = self._do(_read(line))
                    if self.session.aborted:
                        self.over.set()
                    return reply
            except BadInput as problem:
                return {"error": problem.message}
            except Problem as problem:
                self.trouble = problem
            except Exception as error:  # the agent must not see a traceback of ours
                self.trouble = CannotRun(f"{self.session.case}: {error!r}")
            self.over.set()
            return {"error": "the session is over"}

    def close(self) -> None:
        """Refuse further requests, and wait for the end of the last one."""
        self.over.set()
        with self._turn:
            pass

    def _do(self, asked: Request) -> dict[str, Any]:
        session = self.session
        if run := asked.run:
            left = min(run.timeout, self.until - time.monotonic())
            return asdict(session.run(run.machine, run.command, left))
        if asked.diagnose:
            return {"diagnosis": session.diagnose(**asked.diagnose.model_dump())}
        if asked.check:
            return asdict(session.check())
        if asked.usage:
            said = asked.usage.model_dump(exclude_none=True)
            self.usage = self.usage.model_copy(update=said)
            session.trajectory.add("usage", **said)
        return {}


def _read(line: bytes) -> Request:
    """Return the request in a line. Raises BadInput."""
    if not line.endswith(b"\n"):
        raise BadInput(f"a line has at most {_LONGEST_LINE} bytes and ends with a line feed")
    try:
        asked = Request.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"{where}: {first['msg']}" if where else first["msg"]) from error
    if sum(fact is not None for _, fact in asked) != 1:
        raise BadInput("a line has exactly one of run, diagnose, check, usage")
    return asked


@contextmanager
def listening(file: Path, answer: Callable[[bytes], dict[str, Any]]) -> Iterator[None]:
    """Answer the lines that arrive at a Unix socket while the body runs."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # the agent has closed or reset the connection
                while line := self.rfile.readline(_LONGEST_LINE):
                    reply = json.dumps(answer(line), ensure_ascii=False, allow_nan=False)
                    self.wfile.write(reply.encode(errors="replace") + b"\n")
                    if not line.endswith(b"\n"):
                        return

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True
        block_on_close = False

    with Server(str(file), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
