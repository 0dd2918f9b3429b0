"""Use: the USE table of a running stack: utilisation, saturation and errors of each resource.

It only reads, with one shell command in each machine and daemon, all at the same time.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Annotated

from pydantic import Field

from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Machine
from faultlab.engine.stack import Stack
from faultlab.lab.model import KERNEL, Lab
from faultlab.observe.use import rows
from faultlab.observe.use.cells import Row
from faultlab.observe.use.limits import crossed
from faultlab.observe.use.sections import Sections, read
from faultlab.probes import (
    cgroup,
    conntrack,
    descriptors,
    fpm,
    host,
    interface,
    iptables,
    mysql,
    nstat,
    sockets,
)
from faultlab.run import placement

_SHORTEST, _LONGEST = 0.1, 300  # seconds of one reading
_MARK = "LOOK"

CONTAINER = {"cgroup": cgroup.COMMAND}
MACHINE = {
    **CONTAINER,
    "network": interface.COMMAND,
    "sockets": sockets.COMMAND,
    "counters": nstat.COMMAND,
    "conntrack": conntrack.COMMAND,
    "filter": iptables.COMMAND,
    "files": descriptors.COMMAND,
}
HOST = {
    "host_cpu": host.CPU,
    "host_memory": host.MEMORY,
    "host_disks": host.DISKS,
    "host_space": host.SPACE,
}
# Only for daemons whose daemon.toml names this probe.
OF_PROBE = {"fpm": {"pool": fpm.COMMAND}, "mysql": {"database": mysql.COMMAND}}


@dataclass(frozen=True)
class Wrong:
    """A limit that a value has crossed."""

    part: str
    why: str
    from_: Annotated[float, Field(alias="from")]
    source: str


@dataclass(frozen=True)
class JudgedRow(Row):
    """A resource, the command that shows it on its machine, and the limits that it has crossed."""

    wrong: list[Wrong]


@dataclass(frozen=True)
class Table:
    """The rows of one machine, or of the whole host."""

    name: str
    title: str
    rows: tuple[JudgedRow, ...]


@dataclass(frozen=True)
class Used:
    """The tables of a lab, read over an interval of some seconds."""

    lab: str
    seconds: float
    tables: list[Table]


def show(term: Terminal, lab_id: str, machine: str | None, seconds: float) -> Used:
    """Read the stack of a lab that is up and print its tables. Raises BadInput, CannotRun."""
    lab = placement.standing(lab_id)
    if not _SHORTEST <= seconds <= _LONGEST:
        raise BadInput(
            f"--seconds takes {_SHORTEST} to {_LONGEST}, got {seconds:g}.", "faultlab use --help"
        )
    stack = placement.up(lab.alias)
    chosen = _machines(lab, stack, machine)
    with term.alive("use", f"reading for {seconds:g} s"):
        found = tables(lab, stack, chosen, seconds)
    for table in found:
        print_table(term, table)
    return Used(lab.alias, seconds, found)


def _machines(lab: Lab, stack: Stack, machine: str | None) -> list[str]:
    """Return the machines to read. Raises CannotRun if the stack is not up, BadInput for others."""
    if not stack:
        raise CannotRun(f"{lab.alias} is not up.", lab.to_start)
    daemons = lab.services.daemons
    there = [name for name in stack if name not in daemons]
    if machine is not None and machine not in there:
        on = daemons.get(machine)
        what = f"{machine} is a daemon of {on}" if on else f"{lab.alias} has no machine {machine!r}"
        raise BadInput(
            f"{what}; its machines: {', '.join(there)}.",
            f"faultlab use {lab.alias} {on or there[0]}",
        )
    chosen = [machine] if machine else there
    for name in chosen:
        if not stack[name].state.running:
            raise CannotRun(f"{name} is not running.", f"make reset-{lab.alias}")
    return chosen


def tables(lab: Lab, stack: Stack, machines: list[str], seconds: float) -> list[Table]:
    """Read these machines with their daemons, and the kernel below them, at the same time."""
    plan = lab.services
    on = {name: m for name, m in plan.daemons.items() if name in stack and m in machines}
    probe = {name: plan.facts(name).probe for name in on}
    stopped = {name: _stopped(stack[name]) for name in on if not stack[name].state.running}
    commands: dict[str, Mapping[str, str]] = dict.fromkeys(machines, MACHINE)
    for name in on:
        if name not in stopped:
            commands[name] = {**CONTAINER, **OF_PROBE.get(probe[name], {})}
    below = KERNEL if stack.engine.owns_kernel else machines[0]
    commands[below] = {**commands.get(below, {}), **HOST}
    looks = _all(stack, commands, seconds)
    found = []
    for machine in machines:
        its = {name: probe[name] for name in on if on[name] == machine}
        title = f"{machine}: {', '.join(its)}" if its else machine
        found.append(Table(machine, title, judged(rows_of(machine, its, looks, stopped))))
    title = "the lab VM's kernel" if below == KERNEL else f"whole host, as seen from {below}"
    return [*found, Table("host", title, judged(rows.whole_host(below, looks[below])))]


def judged(found: Iterable[Row]) -> tuple[JudgedRow, ...]:
    """Return these rows with the limits that they have crossed."""
    return tuple(JudgedRow(**vars(row), wrong=_wrong(row)) for row in found)


def _wrong(row: Row) -> list[Wrong]:
    return [Wrong(limit.part, why, limit.at_least, limit.source) for limit, why in crossed(row)]


def _all(
    stack: Stack, commands: Mapping[str, Mapping[str, str]], seconds: float
) -> dict[str, Sections]:
    """Enter every place once, all at the same time."""
    shells = [stack.shell(name) for name in commands]
    with ThreadPoolExecutor(max_workers=len(shells)) as pool:
        looks = pool.map(read, shells, commands.values(), repeat(seconds))
        return dict(zip(commands, looks, strict=True))


def rows_of(
    machine: str,
    probe: Mapping[str, str],
    looks: Mapping[str, Sections],
    stopped: Mapping[str, Row],
) -> Iterator[Row]:
    """Yield the rows of one machine and its daemons; `probe`: the probes of each daemon."""
    for name in (machine, *probe):
        if name in stopped:
            yield stopped[name]
        else:
            yield from rows.container(name, looks[name])
    yield from rows.namespace(machine, looks[machine])
    for name in probe:
        if name not in stopped and probe[name] == "fpm":
            yield rows.pool(name, machine, looks[name].pair("pool", fpm.parse))
        if name not in stopped and probe[name] == "mysql":
            yield from rows.database(name, looks[name])


def _stopped(daemon: Machine) -> Row:
    return rows.stopped(daemon.name, daemon.typed("logs --tail 5"), daemon.state)


def print_table(term: Terminal, table: Table) -> None:
    """Print the values, then what looks wrong, then the command that shows each row."""
    wrong = {i for i, row in enumerate(table.rows, 1) if row.wrong}
    term.heading(table.title)
    cells = [
        (_MARK if i in wrong else "", str(i), row.resource, *(v.text for _, v in row.values))
        for i, row in enumerate(table.rows, 1)
    ]
    columns = ("", "", "resource", "utilisation", "saturation", "errors")
    term.table(columns, cells, strong={i - 1 for i in wrong})
    term.say()
    for i, row in enumerate(table.rows, 1):
        for each in row.wrong:
            term.say(f"{_MARK} {i}: {row.resource}: {each.why}")
        if row.unread:
            term.say(f"{i}: {row.resource}: not read: {row.unread}")
    unread = sum(bool(row.unread) for row in table.rows)
    if not wrong:
        rest = f"; {unread} of {len(table.rows)} rows could not be read" if unread else ""
        term.say(f"{table.name}: nothing looks wrong{rest}.")
    for i, row in enumerate(table.rows, 1):
        prompt = "$" if row.at == "$" else f"{row.at}#"
        term.command(f"{i:>2} {prompt} {row.command}")
    term.say()
