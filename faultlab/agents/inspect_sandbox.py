"""The sandbox provider for Inspect: the machines of a case, as sandboxes with their names.

Once the agent has ended a machine, each of its commands fails, and the score is that of no repair.
A trouble of ours raises an error, which ends the sample without a score. Inspect's own
SandboxUnavailableError would go on and look like the output of a tool.
"""

import errno
import os
import shlex
import time
from contextlib import ExitStack
from typing import Any, Literal, overload
from uuid import uuid4

from anyio import to_thread
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    sandboxenv,
)
from pydantic import BaseModel

from faultlab.agents import cases, host, remote
from faultlab.agents.cases import Case
from faultlab.agents.command import LONGEST, MOST, TIMED_OUT, Output
from faultlab.agents.session import Session

_INLINE = 20_000  # characters of a command that is not put into a file first
_KILLED = 128 + 9

_open: dict[str, ExitStack] = {}  # the sessions of this process, by their cases


@sandboxenv(name="faultlab")
class Machine(SandboxEnvironment):
    """A machine or daemon of a case, or the host."""

    def __init__(self, case: Case, session: Session, name: str) -> None:
        super().__init__()
        self.case = case
        self.session = session
        self.name = name

    @classmethod
    async def sample_init(
        cls, task_name: str, config: BaseModel | str | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Bring the case up; the first machine is the client. Raises CannotRun, SaidNo."""
        if not isinstance(config, Case):
            raise ValueError("This sandbox needs a case as its configuration.")
        stack = ExitStack()
        session = await to_thread.run_sync(stack.enter_context, config.begin())
        _open[session.case] = stack
        return {name: cls(config, session, name) for name in session.machines}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: BaseModel | str | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Remove the stack."""
        if isinstance(config, Case) and (stack := _open.pop(config.name, None)):
            await to_thread.run_sync(stack.close)

    @classmethod
    async def task_cleanup(
        cls, task_name: str, config: BaseModel | str | None, cleanup: bool
    ) -> None:
        """Remove what an interruption has left, unless the user wants to keep it."""
        while cleanup and _open:
            _, stack = _open.popitem()
            await to_thread.run_sync(stack.close)

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Remove the stacks of processes that were killed."""
        for name in await to_thread.run_sync(cases.sweep, id):
            print(f"removed {name}")

    @classmethod
    def default_concurrency(cls) -> int | None:
        """One at a time: the load of another case would change what is measured."""
        return 1

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """Return the case of a log."""
        return Case(**config)

    async def exec(  # noqa: PLR0917
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command. The session allows it ten minutes and a MiB of each output."""
        if self.name == host.NAME:
            command = cmd[0] if len(cmd) == 1 else shlex.join(cmd)
        else:
            command = remote.script(cmd, cwd, env, user)
            if input is not None:
                path = await self._put(input)
                command = f"exec <{path} && rm {path} && {command}"
            if len(command) > _INLINE:
                path = await self._put(f'rm "$0"; {command}')
                command = f"exec bash {path}"
        seconds = LONGEST if timeout is None else timeout
        began = time.monotonic()
        done = await to_thread.run_sync(self.session.run, self.name, command, seconds)
        if done.code in (TIMED_OUT, _KILLED) and time.monotonic() - began >= seconds:
            late = TimeoutError(f"It did not end within {seconds:g} s.")
            late.truncated_output = done.out + done.err  # type: ignore[attr-defined]
            raise late
        _within_limits(done)
        if done.code == 126 and done.err.startswith(("env: ", "runuser: ")) and not done.out:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), cmd[0])
        return ExecResult(done.code == 0, done.code, done.out, done.err)

    async def _put(self, text: str | bytes) -> str:
        """Write a temporary file and return its path."""
        path = f"/tmp/.{uuid4().hex}"
        await self.write_file(path, text)
        return path

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file, and create its folder."""
        content = contents.encode() if isinstance(contents, str) else contents
        await to_thread.run_sync(
            remote.write, self.session, self.name, remote.absolute(file), content
        )

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Return the content of a file."""
        most = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            content = await to_thread.run_sync(
                remote.read, self.session, self.name, remote.absolute(file), most
            )
        except remote.TooLarge as error:
            limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR
            raise OutputLimitExceededError(limit, None) from error
        return content.decode() if text else content


def _within_limits(done: Output) -> None:
    """Raise OutputLimitExceededError if the session may have cut an output off."""
    if max(len(done.out.encode()), len(done.err.encode())) >= MOST:
        raise OutputLimitExceededError(f"{MOST >> 20} MiB", done.out + done.err)
