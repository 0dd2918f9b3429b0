"""Runs that were recorded before are judged as they were: their readings stay readable.

Each is a run of `faultlab verify`, and docs/origins.md is made from them. `judged.json` holds what
`faultlab judge --json` said of each. Write it anew only when a limit was changed on purpose:
`python -m tests.unit.test_recorded`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from faultlab.lab import loader as labs
from tests.unit.conftest import REPO, Project, Run

RUNS = REPO / "tests/recorded/runs"
JUDGED = RUNS / "judged.json"
RECORDED = {run.name[16:-5]: run.name for run in RUNS.iterdir() if run.is_dir()}
# In the VM, where a walk takes ten minutes and more without KVM. The check of softirq asks for more
# than it did when it was last walked.
NOT_RECORDED: set[str] = set()


def test_every_lab_has_a_recorded_run() -> None:
    assert {*RECORDED} == {*labs.ids()} - NOT_RECORDED


@pytest.mark.parametrize("lab_id", RECORDED)
def test_it_is_judged_as_before(lab_id: str, project: Project, faultlab: Run) -> None:
    run = RECORDED[lab_id]
    shutil.copytree(RUNS / run, project.root / "runs" / run)
    got = faultlab("judge", run, "--json")
    assert got.code == 0, got.err
    assert json.loads(got.out) == json.loads(JUDGED.read_text())[lab_id]


def main() -> None:
    """Write what is said of each run today."""
    said: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as root:
        for name in ("collection.toml", "labs", "checks", "images"):
            Path(root, name).symlink_to(REPO / name)
        shutil.copytree(RUNS, Path(root, "runs"))
        for lab_id, run in sorted(RECORDED.items()):
            done = subprocess.run(
                [sys.executable, "-m", "faultlab", "judge", run, "--json"],
                env={**os.environ, "FAULTLAB_ROOT": root},
                capture_output=True,
                text=True,
                check=False,
            )
            said[lab_id] = json.loads(done.stdout)
    JUDGED.write_text(json.dumps(said, indent=0) + "\n")


if __name__ == "__main__":
    main()
