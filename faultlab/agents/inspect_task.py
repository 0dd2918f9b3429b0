"""The task for Inspect: `inspect eval faultlab/repair`. The agent gets a ticket and the machines.

A sample is a lab in a phase, under a neutral number. Repair, cause, component and false alarms are
scored apart.
"""

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from math import nan

from anyio import to_thread
from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool, ToolError, tool
from inspect_ai.util import SandboxEnvironmentSpec, sandbox

from faultlab.agents import cases, host
from faultlab.agents.cases import Case
from faultlab.agents.inspect_sandbox import Machine
from faultlab.core.errors import BadInput
from faultlab.lab import loader
from faultlab.lab.model import NO_FAULT
from faultlab.run import late
from faultlab.run.phase import PHASES

_PARTS = ("repaired", "cause", "component", "false_alarm", "unharmed", "commands", "seconds")
_LONGEST = 60  # seconds of a command


@task
def repair(
    labs: str | Sequence[str] = (),
    phases: str | Sequence[str] = PHASES,
    seed: int = 0,
    later: float = late.MINUTES,
) -> Task:
    """Let an agent find and repair what is wrong, if anything is.

    `labs`: all that run on this machine, unless some are named. `seed`: of the order. `later`:
    minutes after which a repair is looked at again; 0 for never.
    """
    dealt = cases.dealt(_words(labs), _words(phases), seed, later)
    return Task(
        dataset=[_sample(case) for case in dealt],
        setup=given(),
        solver=react(tools=[run(), diagnose()]),
        scorer=verdict(),
    )


def _words(given: str | Sequence[str]) -> list[str]:
    return given.split(",") if isinstance(given, str) else [*given]


def _sample(case: Case) -> Sample:
    """Return a sample. What it is comes with its score: a solver reads the metadata and target."""
    spec = SandboxEnvironmentSpec("faultlab", case)
    return Sample(id=case.name, input=case.instruction, sandbox=spec)


@solver
def given() -> Solver:
    """Return what is done before each solver: both tools are there, and no command counts yet."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.tools = [run(), diagnose()]
        _machine().session.commands.clear()  # Inspect has asked each sandbox for its user
        return state

    return solve


@tool
def run() -> Tool:
    """Return the tool that runs commands on any machine of the case."""

    async def execute(machine: str, command: str) -> str:
        """Run a shell command as root on a machine.

        Args:
            machine: The name of the machine, of a daemon, or host.
            command: The command, for bash.

        Returns:
            What it printed, and its exit code if that is not 0.
        """
        machines = _machine().session.machines
        if machine not in machines:
            raise ToolError(f"There is no {machine!r}; there are {', '.join(machines)}.")
        words = [command] if machine == host.NAME else ["bash", "-c", command]
        done = await sandbox(machine).exec(words, timeout=_LONGEST)
        end = "" if done.success else f"\nexit code {done.returncode}"
        return f"{done.stderr}{done.stdout}{end}"

    return execute


@tool
def diagnose() -> Tool:
    """Return the tool with which an agent says what is wrong."""

    async def execute(component: str, resource: str, cause: str) -> str:
        """Say what is wrong; the last diagnosis counts.

        Args:
            component: One of the components of the task, or none.
            resource: One of the resources of the task, or none.
            cause: One of the causes of the task, or none.

        Returns:
            The diagnosis as it is recorded.
        """
        try:
            said = _machine().session.diagnose(component, resource, cause)
        except BadInput as problem:
            raise ToolError(problem.message) from problem
        return shlex.join(said.values())

    return execute


@scorer(metrics={part: [mean(), stderr()] for part in _PARTS})
def verdict() -> Scorer:
    """Return the scorer that measures what the users meet, by the lab's own check."""

    async def score(state: TaskState, target: Target) -> Score:
        machine = _machine()
        found = await to_thread.run_sync(machine.session.finish)
        parts = dict.fromkeys(_PARTS, nan) | machine.case.scores(found)
        answer = machine.session.answer
        return Score(
            value={**parts},
            answer=answer and answer["cause"],
            metadata={**asdict(found), **_facts(machine.case), "run": machine.session.record},
        )

    return score


def _facts(case: Case) -> dict[str, str | int]:
    """Return what a sample was, for who reads the log."""
    lab = loader.load(case.lab)
    return {
        "lab": lab.id,
        "phase": case.phase,
        "truth": lab.truth.cause if case.faulty else NO_FAULT,
        "minutes": lab.minutes,
        "difficulty": lab.difficulty,
    }


def _machine() -> Machine:
    return sandbox().as_type(Machine)
