"""Inspect: its own runner, with a scripted model, on real labs. It needs the extra `inspect`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from faultlab.agents import cases
from faultlab.core.naming import stack_name
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs
from faultlab.lab.model import Step
from tests.live.stacks import container

inspect_ai = pytest.importorskip(
    "inspect_ai", reason="the extra is not installed: pip install -e '.[inspect]'"
)

# What its packages say about each other is not our concern.
pytestmark = [pytest.mark.rotates(minutes=1), pytest.mark.filterwarnings("default")]
Call = tuple[str, dict[str, str]]
DONE: Call = ("submit", {"answer": "done"})
MORE = [
    *("certificate", "deleted-log", "descriptors", "fpm-backlog", "heap-oom", "id-exhausted"),
    *("inodes", "iptables-drop", "pmtu-black-hole", "regex", "reverse-dns", "session-lock"),
]
long = pytest.mark.skipif(not os.environ.get("LONG"), reason="twelve more labs take long: LONG=1")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    prefix = stack_name("case-")
    assert [name for name in LocalEngine().stacks() if name.startswith(prefix)] == []


def typed(steps: list[Step]) -> list[Call]:
    """The calls of an agent that types these steps."""
    pairs = [cases.typed(step) for step in steps]
    return [("run", {"machine": machine, "command": command}) for machine, command in pairs]


def calls(lab_id: str, agent: str) -> list[Call]:
    """What a reference agent does: the documented fix, nothing, or the first cheat."""
    lab = labs.load(lab_id)
    match agent:
        case "oracle":
            return [*typed([*lab.fix]), ("diagnose", lab.truth.model_dump()), DONE]
        case "cheater":
            return [*typed(lab.cheat[0].steps), DONE]
    return [DONE]


def evaluated(
    folder: Path, lab_id: str, script: list[Call], phase: str = "faulty", before: Any = None
) -> Any:
    """The log of one sample with a model that makes these calls; `before`: ahead of each call."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from faultlab.agents.inspect_task import repair

    def outputs() -> Iterator[Any]:
        for number, (tool, arguments) in enumerate(script):
            if before is not None:
                before(number)
            made = ModelOutput.for_tool_call("mockllm", tool, arguments)
            made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
            yield made

    (log,) = inspect_ai.eval(
        repair(labs=lab_id, phases=phase, later=0),
        model=get_model("mockllm/model", custom_outputs=outputs()),
        display="none",
        log_dir=str(folder),
    )
    return log


def values(log: Any) -> dict[str, float]:
    """What a sample scored, without the parts that do not apply."""
    assert log.status == "success", log.error
    (sample,) = log.samples
    scored = sample.scores["verdict"].value
    return {part: value for part, value in scored.items() if not isnan(value)}


@pytest.mark.parametrize(("agent", "score"), [("oracle", 1), ("nop", 0), ("cheater", 0)])
@pytest.mark.parametrize("lab_id", ["mtu", *(pytest.param(lab_id, marks=long) for lab_id in MORE)])
def test_reference_agents(tmp_path: Path, lab_id: str, agent: str, score: int) -> None:
    found = values(evaluated(tmp_path, lab_id, calls(lab_id, agent)))
    assert [found[part] for part in ("repaired", "cause", "component")] == [score] * 3
    assert {"false_alarm", "unharmed"}.isdisjoint(found)


@pytest.mark.parametrize("phase", ["healthy", "fixed"])
def test_a_false_alarm_is_scored_where_nothing_is_wrong(tmp_path: Path, phase: str) -> None:
    truth = labs.load("mtu").truth.model_dump()
    found = values(evaluated(tmp_path, "mtu", [("diagnose", truth), DONE], phase))
    assert (found["false_alarm"], found["unharmed"]) == (1, 1)
    assert {"repaired", "cause"}.isdisjoint(found)


def test_a_container_that_ends_is_a_failure_of_the_agent(tmp_path: Path) -> None:
    def kill(number: int) -> None:
        if number == 1:
            container(Stack(LocalEngine(), stack_name("case-01"))["web"]).kill()

    script = [*typed([*labs.load("mtu").fix]), *typed([*labs.load("mtu").fix]), DONE]
    log = evaluated(tmp_path, "mtu", script, before=kill)
    assert values(log)["repaired"] == 0
    assert log.samples[0].scores["verdict"].metadata["aborted"] == "by the agent"


# Three need a user who is not root. One prints exactly the MiB at which a session cuts off.
FAIL = {
    "test_exec_large_command",
    "test_read_file_not_allowed",
    "test_write_text_file_without_permissions",
    "test_write_binary_file_without_permissions",
}


def test_the_contract_of_a_sandbox(tmp_path: Path) -> None:
    """Inspect's own tests of a sandbox, all of them, on the machine web."""
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import Generate, TaskState, solver
    from inspect_ai.util import SandboxEnvironmentSpec, sandbox
    from inspect_ai.util._sandbox import self_check

    tests = {name: test for name, test in vars(self_check).items() if name.startswith("test_")}
    failed: dict[str, str] = {}

    @solver
    def checks() -> Callable[..., Any]:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            for name, test in tests.items():
                try:
                    await test(sandbox("web"))
                except Exception as error:
                    failed[name] = repr(error)[:300]
            return state

        return solve

    case = cases.Case(lab="mtu", phase="healthy", number=1)
    sample = Sample(input="x", sandbox=SandboxEnvironmentSpec("faultlab", case))
    task = Task(dataset=[sample], solver=checks())
    (log,) = inspect_ai.eval(task, model="mockllm/model", display="none", log_dir=str(tmp_path))
    assert log.status == "success", log.error
    assert len(tests) > 30 and set(failed) == FAIL, failed
