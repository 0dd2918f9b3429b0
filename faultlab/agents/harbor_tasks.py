"""Tasks for Harbor: a folder for each case. `harbor run -p FOLDER` runs an agent on all of them."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from faultlab.agents import cases
from faultlab.agents.cases import Case
from faultlab.core.errors import BadInput
from faultlab.lab import loader
from faultlab.lab.model import NO_FAULT
from faultlab.run import late

FACTS = "case.json"  # in the folder `environment`, which no container sees
_SLOW = 600  # seconds until a lab is up, or is measured
_MINUTE = 60
_TASK = """schema_version = "1.3"

[task]
name = "faultlab/{name}"
description = "Find out what is wrong, if anything is, and repair it."

[metadata]
difficulty = {lab.difficulty}
minutes = {lab.minutes}

[agent]
timeout_sec = {seconds}

[verifier]
timeout_sec = {judged}

[environment]
build_timeout_sec = {slow}
network_mode = "no-network"
"""
_REACH = """
You have a root shell on `client`. `on MACHINE COMMAND` runs a command on any other machine or
daemon, and on `host`. `diagnose COMPONENT RESOURCE CAUSE` says what is wrong; the last one counts.
"""
_TEST = """#!/bin/sh
# The result is measured outside of the machines: harbor run --verifier
# faultlab.agents.harbor_lab:Verifier. Without it there is no reward.
exit 1
"""


@dataclass(frozen=True)
class HarborTasks:
    """The folder of the tasks, and their names."""

    folder: str
    tasks: list[str]


def write(
    folder: Path,
    lab_ids: Sequence[str],
    phases: Sequence[str],
    seed: int,
    later: float = late.MINUTES,
) -> HarborTasks:
    """Write a folder for each case. Raises BadInput if the folder has something in it."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is not a folder.", f"ls -l {folder}")
    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"{folder} is not empty.", f"ls {folder}")
    dealt = cases.dealt(lab_ids, phases, seed, later)
    for case in dealt:
        _write(folder / case.name, case)
    return HarborTasks(str(folder), [case.name for case in dealt])


def _write(folder: Path, case: Case) -> None:
    lab = loader.load(case.lab)
    judged = round(2 * _SLOW + case.later * _MINUTE) if case.later else _SLOW
    seconds = lab.minutes * _MINUTE
    task = _TASK.format(name=case.name, lab=lab, seconds=seconds, slow=_SLOW, judged=judged)
    for name, text in (
        ("task.toml", task),
        ("instruction.md", case.instruction + _REACH),
        (f"environment/{FACTS}", json.dumps(case.model_dump(), indent=1) + "\n"),
        ("solution/solve.sh", _solution(case)),
        ("tests/test.sh", _TEST),
    ):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if file.suffix == ".sh" else 0o644)


def _solution(case: Case) -> str:
    """Return the documented fix as an agent types it, and the true diagnosis."""
    lab = loader.load(case.lab)
    steps = [cases.typed(step) for step in lab.fix] if case.faulty else []
    said = lab.truth.model_dump().values() if case.faulty else [NO_FAULT] * 3
    lines = [shlex.join(["on", *step]) for step in steps]
    return "\n".join(["#!/bin/sh", "set -eu", *lines, shlex.join(["diagnose", *said]), ""])
