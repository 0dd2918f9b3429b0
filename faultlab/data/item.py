"""Item: a recorded stack: metrics, logs, its machines, and how they are set up."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Any

from faultlab.data import otlp, scrape
from faultlab.data.scrape import Span
from faultlab.data.truth import METRICS
from faultlab.engine.contract import Machine
from faultlab.run.run import Run

LOGS = "logs.jsonl"
TOPOLOGY, CONFIGURATION = "topology.json", "configuration.json"
_MOST = 2_000_000  # bytes of a log
# What a person asks a machine about its network; each line of output is a name and base64.
_SETTINGS = {
    "addresses": "ip -d address",
    "routes": "ip route",
    "queues": "tc -d qdisc",
    "packet filter": "iptables-save",
    "kernel": "sysctl net 2>/dev/null",
    "resolver": "cat /etc/resolv.conf",
}
_FILES = """find {} -type f -size -64k 2>/dev/null | sort | while read -r file; do
  printf '%s ' "$file"; base64 -w 0 "$file"; echo; done"""


@dataclass(frozen=True)
class Item:
    """The files of an item by their names, all of them text."""

    files: dict[str, str]


def of(run: Run, span: Span) -> Item:
    """Record a stack for some seconds. Raises CannotRun."""
    sizes = {machine.name: _sizes(run, machine) for machine in run.stack.machines}
    metrics = scrape.scrape(run, span)
    logs = [line for machine in run.stack.machines for line in _new(run, machine, sizes)]
    return Item(
        {
            METRICS: metrics.text(),
            LOGS: "".join(f"{line}\n" for line in logs),
            TOPOLOGY: _text(topology(run)),
            CONFIGURATION: _text(_configuration(run)),
        }
    )


def topology(run: Run) -> dict[str, Any]:
    """Return the machines of a stack, and the daemons and the users that each of them has."""
    return {
        "machines": [
            {
                "name": machine.name,
                "address": machine.link[0],
                "daemons": [each.name for each in run.stack.values() if each.joins == machine.name],
                "users": machine.name == run.stack.client,
            }
            for machine in run.stack.machines
        ]
    }


def _configuration(run: Run) -> dict[str, Any]:
    return {machine.name: _settings(run, machine) for machine in run.stack.machines}


def _settings(run: Run, machine: Machine) -> dict[str, Any]:
    asked = "\n".join(
        f"printf '%s ' {quote(name.replace(' ', '_'))}; {{ {command}; }} | base64 -w 0; echo"
        for name, command in _SETTINGS.items()
    )
    folders = sorted(_folders(run, machine))
    files = machine.run(_FILES.format(" ".join(map(quote, folders)))).out if folders else ""
    return {"settings": _opened(machine.run(asked).out), "files": _opened(files)}


def _folders(run: Run, machine: Machine) -> set[str]:
    """Return the folders below /etc that a machine shares with its daemons."""
    its = run.lab.services.services.get(machine.name, {}).get("volumes") or []
    targets = (str(mount).split(":")[1] for mount in its)
    return {target for target in targets if target.startswith("/etc/")}


def _opened(out: str) -> dict[str, str]:
    """Read lines of a name and base64."""
    rows = (line.split(" ", 1) for line in out.splitlines() if " " in line)
    return {name: _plain(packed) for name, packed in rows}


def _plain(packed: str) -> str:
    return base64.b64decode(packed).decode(errors="replace")


def _sizes(run: Run, machine: Machine) -> dict[str, int]:
    """Return each log of a machine's daemons with its size."""
    facts = run.lab.services.facts
    mine = [each.name for each in run.stack.values() if each.joins == machine.name]
    folders = sorted({facts(name).log for name in mine} - {""})
    if not folders:
        return {}
    out = machine.run(f"find {' '.join(folders)} -type f -printf '%s %p\\n' 2>/dev/null").out
    rows = (line.split(" ", 1) for line in out.splitlines())
    return {file: int(size) for size, file in rows}


def _new(run: Run, machine: Machine, sizes: dict[str, dict[str, int]]) -> Iterator[str]:
    """Yield what was written to the logs of a machine since they had these sizes."""
    before = sizes[machine.name]
    for file, size in sorted(_sizes(run, machine).items()):
        old = before.get(file, 0)
        begin = old if size >= old else 0  # it was emptied meanwhile
        if size == begin:
            continue
        read = f"tail -c +{begin + 1} {quote(file)} | head -c {_MOST} | base64 -w 0"
        yield from otlp.lines(machine.name, file, _plain(machine.run(read).out), time.time())


def _text(document: object) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
