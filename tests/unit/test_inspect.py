"""Inspect, on a fake engine: what an own solver can do. It needs the extra `inspect`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faultlab.agents import command, remote
from faultlab.lab import loader as labs
from faultlab.run import placement
from faultlab.run import run as runs
from tests.unit.conftest import Project
from tests.unit.fake import FakeEngine

inspect_ai = pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")

# What its packages say about each other is not our concern.
pytestmark = pytest.mark.filterwarnings("default")
FIX = "ip link set dev eth0 mtu 1500"
TRUTH = labs.load("mtu").truth.model_dump()
CALLS = [("run", {"machine": "web", "command": FIX}), ("diagnose", TRUTH)]


@pytest.fixture(autouse=True)
def on_a_fake_engine(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runs, "_TAKES_EFFECT", 0.0)
    monkeypatch.setattr(command, "limited", lambda words, _seconds: words)
    monkeypatch.setattr(
        remote, "script", lambda words, *_: words[-1] if "-c" in words else shlex.join(words)
    )
    monkeypatch.setattr(placement, "at_hand", lambda _lab: FakeEngine())
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def scored(folder: Path, script: list[Any], **how: Any) -> dict[str, float]:
    """What a sample scored, with a model that makes these calls."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from faultlab.agents.inspect_task import repair

    def outputs() -> Iterator[Any]:
        for tool, arguments in script:
            made = ModelOutput.for_tool_call("mockllm", tool, arguments)
            made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
            yield made

    (log,) = inspect_ai.eval(
        repair(labs="mtu", phases="faulty", later=0),
        model=get_model("mockllm/model", custom_outputs=outputs()),
        display="none",
        log_dir=str(folder),
        **how,
    )
    assert log.status == "success", log.error
    (sample,) = log.samples
    assert (sample.metadata, sample.target) == ({}, "")  # a solver reads both
    told = sample.scores["verdict"]
    assert (told.metadata["lab"], told.metadata["phase"]) == ("mtu", "faulty")
    return dict(told.value)


def test_the_usual_solver(tmp_path: Path) -> None:
    found = scored(tmp_path, [*CALLS, ("submit", {"answer": "done"})])
    assert (found["repaired"], found["cause"], found["commands"]) == (1, 1, 1)


def test_another_solver_has_the_tools(tmp_path: Path) -> None:
    """Such as `--solver generate`, which calls what the task gives it."""
    from inspect_ai.solver import generate

    found = scored(tmp_path, CALLS, solver=generate(), message_limit=5)
    assert (found["repaired"], found["cause"], found["commands"]) == (1, 1, 1)


def test_a_solver_that_is_a_program_is_counted_and_can_diagnose(tmp_path: Path) -> None:
    from inspect_ai.solver import Generate, TaskState, solver
    from inspect_ai.util import sandbox

    from faultlab.agents.inspect_task import diagnose

    @solver
    def script() -> Callable[..., Any]:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            await sandbox("web").exec(["echo", "well"])
            await sandbox("web").exec(FIX.split())
            await diagnose()(**TRUTH)
            return state

        return solve

    found = scored(tmp_path, [], solver=script())
    assert (found["repaired"], found["cause"], found["commands"]) == (1, 1, 2)
