"""Pieces: a run of hours that is done in pieces, and the file that keeps what they have seen.

The file has a line of JSON for each thing that was seen, on disk before the next one begins. So a
run that was killed goes on with the same command; half a line at the end is dropped.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import docker

from faultlab.core import git
from faultlab.core.errors import BadInput, CannotRun, Problem
from faultlab.engine.docker.connection import docker_url

Row = dict[str, Any]
_SCHEMA = 1
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Rows:
    """What a run has seen so far, in its file."""

    def __init__(self, file: Path, facts: Mapping[str, Any]) -> None:
        """Open the file, or begin it. Raises BadInput for the file of another run.

        `facts`: what must be the same in each piece, such as the seed.
        """
        self.file = file
        wanted = {"schema": _SCHEMA, **json.loads(json.dumps(facts))}
        whole = file.read_bytes() if file.exists() else b""
        kept = whole[: whole.rfind(b"\n") + 1]
        if len(kept) != len(whole):
            os.truncate(file, len(kept))
        try:
            self.rows: list[Row] = [json.loads(line) for line in kept.splitlines()]
        except ValueError as error:
            raise BadInput(f"{file} is damaged: {error}.", f"mv {file} {file}.damaged") from error
        if not self.rows:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._write(wanted)
        elif differ := [key for key in wanted if self.rows[0].get(key) != wanted[key]]:
            old = ", ".join(f"{key} {self.rows[0].get(key)}" for key in differ)
            raise BadInput(
                f"{file} is of another run: {old}.",
                "type the command of that run, or name another --state",
            )

    @property
    def facts(self) -> Row:
        """Return what is the same in each piece."""
        return self.rows[0]

    def add(self, kind: str, **facts: Any) -> None:
        """Write a row down."""
        self._write({"kind": kind, "t": round(time.time(), 3), **facts})

    def of(self, kind: str) -> list[Row]:
        """Return the rows of a kind, oldest first."""
        return [row for row in self.rows[1:] if row["kind"] == kind]

    def _write(self, row: Row) -> None:
        with self.file.open("a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(row)


def seconds(text: str) -> float:
    """Read a time such as `20m`, `90s`, `1.5h`; a number alone is in seconds. Raises BadInput."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not found or not float(found[1]):
        raise BadInput(f"Expected a time such as 20m, 90s or 1.5h, got {text!r}.", "--help")
    return float(found[1]) * _UNITS[found[2] or "s"]


def here() -> Row:
    """Return on what a piece runs: the commit, the kernel, Docker, and since when it is up."""
    client = docker.DockerClient(base_url=docker_url())
    version = str(client.version()["Version"])
    client.close()
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": git.commit(),
        "kernel": platform.release(),
        "docker": version,
        "cpus": os.cpu_count() or 1,
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    }


def places(rows: Rows) -> list[Row]:
    """Return on what the pieces of a run have run, each place once, with their number."""
    keys = ("date", "commit", "kernel", "docker", "cpus")
    found = Counter(tuple(row[key] for key in keys) for row in rows.of("piece"))
    return [dict(zip(keys, place, strict=True), pieces=n) for place, n in sorted(found.items())]


def needs_root() -> None:
    """Raise CannotRun for a user who cannot read the packet filter."""
    if os.geteuid() != 0:
        raise CannotRun("Comparing the host needs root.", f"sudo {' '.join(sys.orig_argv)}")


def program(main: Callable[[], int]) -> int:
    """Run the body of a command, and print an error as `faultlab` does."""
    try:
        return main()
    except Problem as problem:
        print(f"{problem.message}\n  next: {problem.hint}", file=sys.stderr)
        return problem.exit_code
