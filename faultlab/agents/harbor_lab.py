"""The environment and the verifier for Harbor: `harbor run -e …:Environment --verifier …:Verifier`.

The agent's shell is on client. Its result is measured outside of the machines, so that an agent
with root rights cannot write its own reward.
"""

import json
import os
import shlex
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anyio import to_thread
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.models.verifier.result import VerifierResult
from harbor.verifier.base import BaseVerifier

from faultlab.agents import remote
from faultlab.agents.cases import Case
from faultlab.agents.command import LONGEST, Output
from faultlab.agents.harbor_requests import Requests
from faultlab.agents.harbor_tasks import FACTS
from faultlab.agents.session import Session, Verdict
from faultlab.core.errors import CannotRun
from faultlab.lab.services import CLIENT

_LOGS = "/logs/agent /logs/verifier /logs/artifacts"  # where Harbor and its agents write
_LARGEST = 100 << 20  # bytes of a file that is copied


class Environment(BaseEnvironment):
    """A case, seen from client."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._stack = ExitStack()
        self._session: Session | None = None
        self._requests: Requests | None = None
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        """Return the name of this kind."""
        return "faultlab"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        """Return what it can do beside running commands: no packet can leave a lab."""
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        _ = self.case

    @property
    def case(self) -> Case:
        """Return the case of this task."""
        return Case(**json.loads((self.environment_dir / FACTS).read_text()))

    @property
    def session(self) -> Session:
        """Return the session. Raises CannotRun before its start and after a trouble of ours."""
        if self._session is None or self._requests is None:
            raise CannotRun(f"{self.case.name} is not up.")
        if self._requests.problem is not None:
            raise self._requests.problem
        return self._session

    def finish(self) -> Verdict:
        """Measure the result. An error of ours is raised and is no reward."""
        session = self.session
        if self._requests is not None:
            self._requests.close()
        return session.finish()

    async def start(self, force_build: bool) -> None:
        """Bring the case up, with the programs that reach its other machines."""
        await to_thread.run_sync(self._start)

    def _start(self) -> None:
        with ExitStack() as stack:
            session = stack.enter_context(self.case.begin())
            session.run(CLIENT, f"mkdir -p {_LOGS}")
            self._requests = Requests(session)
            self._session = session
            self._stack = stack.pop_all()

    async def stop(self, delete: bool) -> None:
        """Remove the stack, whatever Harbor wants to keep: a case has a name only once."""
        await to_thread.run_sync(self._stack.close)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run a command on client."""
        words = ["bash", "-c", command]
        script = remote.script(words, cwd, self._merge_env(env), self._resolve_user(user))
        done = await self._run(script, timeout_sec or LONGEST)
        return ExecResult(stdout=done.out, stderr=done.err, return_code=done.code)

    async def _run(self, command: str, timeout: float = LONGEST) -> Output:
        return await to_thread.run_sync(self.session.run, CLIENT, command, timeout)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file to client, with its right to be executed."""
        source = Path(source_path)
        target = remote.absolute(str(target_path))
        await to_thread.run_sync(remote.write, self.session, CLIENT, target, source.read_bytes())
        if os.access(source, os.X_OK):
            await self._run(f"chmod +x {shlex.quote(target)}")

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copy the files of a folder to client."""
        for file in sorted(Path(source_dir).rglob("*")):
            if file.is_file():
                name = file.relative_to(source_dir).as_posix()
                await self.upload_file(file, f"{target_dir}/{name}")

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy a file from client."""
        source = remote.absolute(str(source_path))
        content = await to_thread.run_sync(remote.read, self.session, CLIENT, source, _LARGEST)
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        Path(target_path).write_bytes(content)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy the files of a folder from client."""
        folder = remote.absolute(str(source_dir))
        found = await self._run(f"cd {shlex.quote(folder)} && find . -type f -print0")
        if found.code:
            raise FileNotFoundError(found.err.strip())
        Path(target_dir).mkdir(parents=True, exist_ok=True)
        for name in found.out.split("\0")[:-1]:  # no other end is safe: the agent chooses names
            await self.download_file(f"{folder}/{name}", remote.within(Path(target_dir), name))


class Verifier(BaseVerifier):
    """The lab's own check, from containers that an agent cannot reach."""

    async def verify(self) -> VerifierResult:
        """Return the parts of the result. An error of ours is raised and is no reward."""
        environment = self.environment
        if not isinstance(environment, Environment):
            raise CannotRun("This verifier needs the environment of faultlab.")
        found = await to_thread.run_sync(environment.finish)
        (self.trial_paths.verifier_dir / "verdict.json").write_text(json.dumps(asdict(found)))
        return VerifierResult(rewards=_rewards(environment.case.faulty, found))


def _rewards(faulty: bool, found: Verdict) -> dict[str, float]:
    """Return the parts of a verdict that apply, 1 or 0; 1 is always good.

    Harbor shows the name that sorts first as the result, so all others begin with it.
    """
    if faulty:
        parts = {
            "": found.repaired,
            "_cause": found.cause,
            "_component": found.component,
            "_repaired": found.repaired,
        }
    else:
        calm = not found.false_alarm
        parts = {"": calm and found.repaired, "_no_false_alarm": calm, "_unharmed": found.repaired}
    return {f"reward{part}": float(good) for part, good in parts.items()}
