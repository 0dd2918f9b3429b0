"""The MCP server: one session for an agent that calls tools over standard input and output.

It responds at once. The stack starts meanwhile, and the first calls wait for it with progress. An
error of ours, such as a container that ended, is an error of the protocol: it never looks like the
output of a command.
"""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import TypeVar

import anyio
from anyio import to_thread
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from faultlab.agents.cases import Case
from faultlab.agents.command import Output
from faultlab.agents.session import Checked, Session
from faultlab.core.errors import BadInput, CannotRun, Problem

_ERROR = -32000  # the first code that JSON-RPC leaves to servers
_BEAT = 2.0  # seconds between two reports of progress
_UNSAID = ("later", "aborted", "decoys")  # of a verdict, where it is empty
_IN_ITS_RECORD = ("waited", "visits", "visits_lost")

T = TypeVar("T")


@dataclass
class _Work:
    """The session while it starts, runs and ends."""

    case: Case
    stack: ExitStack = field(default_factory=ExitStack)
    ready: anyio.Event = field(default_factory=anyio.Event)
    session: Session | None = None
    problem: Problem = field(default_factory=lambda: CannotRun("The session did not start."))

    async def start(self) -> None:
        """Start the session in a thread of its own."""
        try:
            begun = self.case.begin()
            self.session = await to_thread.run_sync(self.stack.enter_context, begun)
        except Exception as error:
            self.problem = _problem(error)
            _say(f"{self.case.name}: {self.problem}")
        finally:
            self.ready.set()

    def tried(self, act: Callable[[Session], T]) -> T | Problem:
        """Do something in the session and return its result, or the problem that it met."""
        if self.session is None:
            return self.problem
        try:
            return act(self.session)
        except Exception as error:
            return _problem(error)

    def end(self) -> None:
        """Measure the result, print it for the person who started the server, and clean up."""
        heard: list[str] = []

        def note(text: str) -> None:
            if not heard:
                _say(f"{self.case.name}: repaired; {text}")
            heard.append(text)

        with self.stack:
            verdict = self.tried(lambda session: session.finish(note))
            if isinstance(verdict, Problem):
                _say(f"{self.case.name}: no result: {verdict}")
            else:
                facts = {k: v for k, v in asdict(verdict).items() if k not in _IN_ITS_RECORD}
                said = (f"{p} {its}" for p, its in facts.items() if its or p not in _UNSAID)
                _say(f"{self.case.name}: {', '.join(said)}")


def _problem(error: Exception) -> Problem:
    return error if isinstance(error, Problem) else CannotRun(f"faultlab itself failed: {error!r}")


def _say(text: str) -> None:
    print(f"faultlab: {text}", file=sys.stderr, flush=True)


async def _call(ctx: Context[_Work], act: Callable[[Session], T]) -> T:
    """Do something in the session, in a thread of its own, and report progress meanwhile."""
    work = ctx.request_context.lifespan_context
    async with anyio.create_task_group() as group:
        group.start_soon(_report, ctx)
        await work.ready.wait()
        result = await to_thread.run_sync(work.tried, act)
        group.cancel_scope.cancel()
    if isinstance(result, BadInput):
        raise ToolError(result.message)
    if isinstance(result, Problem):
        raise MCPError(_ERROR, f"This case cannot go on: {result}")
    return result


async def _report(ctx: Context[_Work]) -> None:
    seconds = 0.0
    while True:
        await anyio.sleep(_BEAT)
        seconds += _BEAT
        await ctx.report_progress(seconds, message=f"{seconds:.0f} s")


def server(case: Case) -> MCPServer[_Work]:
    """Return a server with a session on this case, which starts and ends with the server."""

    @asynccontextmanager
    async def life(_server: MCPServer[_Work]) -> AsyncIterator[_Work]:
        work = _Work(case)
        async with anyio.create_task_group() as group:
            group.start_soon(work.start)
            try:
                yield work
            finally:
                with anyio.CancelScope(shield=True):
                    await work.ready.wait()
                    await to_thread.run_sync(work.end)

    made = MCPServer("faultlab", lifespan=life, log_level="WARNING")
    for tool in (ticket, run, diagnose, check):
        made.add_tool(tool)
    return made


async def ticket(ctx: Context[_Work]) -> str:
    """Return the incident as its users report it, and what to do. Call this first."""
    return await _call(ctx, lambda _: ctx.request_context.lifespan_context.case.instruction)


async def run(machine: str, command: str, ctx: Context[_Work], timeout: float = 60) -> Output:
    """Run a shell command as root on a machine. Return its exit code and its output."""
    return await _call(ctx, lambda session: session.run(machine, command, timeout))


async def diagnose(
    component: str, resource: str, cause: str, ctx: Context[_Work]
) -> dict[str, str]:
    """Say what is wrong, in the words of the ticket. The last diagnosis before a check counts."""
    return await _call(ctx, lambda session: session.diagnose(component, resource, cause))


async def check(ctx: Context[_Work]) -> Checked:
    """Measure what the users meet now. Diagnose first: a check makes the diagnosis final."""
    return await _call(ctx, lambda session: session.check())
