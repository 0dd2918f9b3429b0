"""Harbor: its own command, with reference agents, on real labs. It needs the extra `harbor`."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultlab.agents import cases, harbor_tasks
from faultlab.core.naming import stack_name
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs
from tests.live.stacks import container

pytest.importorskip(
    "harbor", reason="the extra is not installed (Python 3.12): pip install -e '.[harbor]'"
)

pytestmark = pytest.mark.rotates(minutes=1)
PARTS = ("reward", "reward_repaired", "reward_cause", "reward_component")
MORE = [
    *("certificate", "deleted-log", "descriptors", "fpm-backlog", "heap-oom", "id-exhausted"),
    *("inodes", "iptables-drop", "pmtu-black-hole", "regex", "reverse-dns", "session-lock"),
]
long = pytest.mark.skipif(not os.environ.get("LONG"), reason="twelve more labs take long: LONG=1")
# A solution that tells when it has begun, and asks for another machine after a while.
SLOW = "#!/bin/sh\ntouch /tmp/begun\nsleep 20\non web true\n"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    prefix = stack_name("case-")
    assert [name for name in LocalEngine().stacks() if name.startswith(prefix)] == []


class Job:
    """A job of Harbor with one task, which an agent of Harbor's takes."""

    def __init__(self, folder: Path, lab_id: str, agent: str, phase: str = "faulty") -> None:
        self.folder, self.agent = folder, agent
        (self.task,) = harbor_tasks.write(folder / "tasks", [lab_id], [phase], 0, 0).tasks
        self.solution = folder / "tasks" / self.task / "solution/solve.sh"

    def start(self) -> subprocess.Popen[str]:
        """Start Harbor as a user types it."""
        where = "faultlab.agents.harbor_lab"
        words = f"run -n 1 -q -y -a {self.agent} -e {where}:Environment --verifier {where}:Verifier"
        return subprocess.Popen(
            ["harbor", *words.split(), "-p", self.folder / "tasks", "-o", self.folder / "jobs"],
            executable=Path(sys.executable).parent / "harbor",
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def result(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Wait for Harbor, and return the result of its trial."""
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, said
        (file,) = (self.folder / "jobs").glob(f"*/{self.task}__*/result.json")
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def rewards(self) -> dict[str, float]:
        """Return the rewards of a trial that had no error."""
        found = self.result(self.start())
        assert found["exception_info"] is None, found["exception_info"]
        rewards: dict[str, float] = found["verifier_result"]["rewards"]
        return rewards


def cheats(lab_id: str) -> str:
    """A solution that applies the first cheat of a lab."""
    pairs = [cases.typed(step) for step in labs.load(lab_id).cheat[0].steps]
    lines = [f"on {machine} {shlex.quote(command)}" for machine, command in pairs]
    return "\n".join(["#!/bin/sh", *lines, ""])


@pytest.mark.parametrize(("agent", "score"), [("oracle", 1), ("nop", 0), ("cheater", 0)])
@pytest.mark.parametrize("lab_id", ["mtu", *(pytest.param(lab_id, marks=long) for lab_id in MORE)])
def test_reference_agents(tmp_path: Path, lab_id: str, agent: str, score: int) -> None:
    # Harbor has no agent that cheats. Its `oracle` types what the folder `solution` has.
    job = Job(tmp_path, lab_id, "nop" if agent == "nop" else "oracle")
    if agent == "cheater":
        job.solution.write_text(cheats(lab_id))
    assert job.rewards() == dict.fromkeys(PARTS, score)


@pytest.mark.parametrize("phase", ["healthy", "fixed"])
def test_nothing_is_wrong(tmp_path: Path, phase: str) -> None:
    good = {"reward": 1, "reward_no_false_alarm": 1, "reward_unharmed": 1}
    assert Job(tmp_path / "calm", "mtu", "oracle", phase).rewards() == good
    job = Job(tmp_path / "alarm", "mtu", "oracle", phase)
    job.solution.write_text("#!/bin/sh\ndiagnose web network mtu\n")
    assert job.rewards() == good | {"reward": 0, "reward_no_false_alarm": 0}


def test_a_container_that_ends_is_a_failure_of_the_agent(tmp_path: Path) -> None:
    job = Job(tmp_path, "mtu", "oracle")
    job.solution.write_text(SLOW)
    process = job.start()
    deadline = time.monotonic() + 300
    while not begun(job.task):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(1)
    container(stack(job.task)["web"]).kill()
    found = job.result(process)
    assert found["verifier_result"]["rewards"]["reward"] == 0


def stack(task: str) -> Stack:
    """The machines of a task that are there now."""
    return Stack(LocalEngine(), stack_name(task))


def begun(task: str) -> bool:
    """Whether the solution has begun on client."""
    there = stack(task)
    if "client" not in there:
        return False
    ran = container(there["client"]).exec_run(["test", "-e", "/tmp/begun"])
    return bool(ran.exit_code == 0)
