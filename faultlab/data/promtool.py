"""Promtool: Prometheus' own program for rules, which Debian's package `prometheus` brings."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from faultlab.core import command
from faultlab.core.errors import CannotRun

_VARIABLE = "FAULTLAB_PROMTOOL"
_SECONDS = 300.0
_FIRED = re.compile(r"alertname: (\S+), time: ")


def find() -> str:
    """Return promtool's path: FAULTLAB_PROMTOOL, or that of PATH. Raises CannotRun."""
    chosen = os.environ.get(_VARIABLE, "promtool")
    if found := shutil.which(chosen):
        return found
    why = f"{_VARIABLE}={chosen} is no program." if _VARIABLE in os.environ else ""
    raise CannotRun(why or "promtool is not installed.", "apt-get install prometheus")


def mistakes(file: Path) -> list[str]:
    """Return what Prometheus says is wrong with a file of rules. Raises CannotRun."""
    done = _run(["check", "rules", "--lint=none", str(file)])
    said = [line.strip() for line in (done[1] + done[2]).splitlines() if line.strip()]
    wrong = [line.removeprefix(f"{file}: ") for line in said if line.startswith(f"{file}: ")]
    return (wrong or said[-1:] or ["promtool said no"]) if done[0] else []


def firing(test: Path) -> set[str]:
    """Return the alerts that fire at any time in a test that expects none. Raises CannotRun."""
    code, out, err = _run(["test", "rules", str(test)])
    fired = set(_FIRED.findall(out + err))
    if code and not fired:
        said = (out + err).strip().splitlines() or ["no word"]
        raise CannotRun(f"promtool could not test the rules: {said[-1].strip()}", f"less {test}")
    return fired


def _run(words: Sequence[str]) -> tuple[int, str, str]:
    done = command.run([find(), *words], timeout=_SECONDS)
    return done.returncode, done.stdout, done.stderr
