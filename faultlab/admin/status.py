"""Status and sweep: what of ours is there, and how it goes away."""

import shutil
from dataclasses import dataclass
from typing import TypeVar

from faultlab.core import lock, naming, paths, scratch
from faultlab.core.errors import CannotRun
from faultlab.core.lock import Held
from faultlab.core.terminal import Terminal
from faultlab.engine import kernel
from faultlab.engine.contract import Engine, Machine
from faultlab.engine.stack import Stack
from faultlab.probes import interface, iptables
from faultlab.run import placement

_PER_INTERFACE = (".conf.eth0.", ".conf.lo.", ".neigh.eth0.", ".neigh.lo.")


_T = TypeVar("_T")


@dataclass(frozen=True)
class StackRow:
    """One stack: its engine, its lab, how much of it runs, and since when.

    `slot`: the CPUs that it has, as in `0-1`; empty if it has the whole machine.
    """

    engine: str
    stack: str
    lab: str
    state: str
    since: str
    slot: str = ""


@dataclass(frozen=True)
class Status:
    """The stacks that are there, and by machine what is not as it was when new."""

    stacks: list[StackRow]
    changes: dict[str, list[str]]


@dataclass(frozen=True)
class Swept:
    """The things that were removed, and why others were not."""

    removed: list[str]
    held: list[str]


def rows(engine: Engine) -> list[StackRow]:
    """Every stack of which anything is left."""
    found = []
    for name in engine.stacks():
        stack = Stack(engine, name)
        try:
            state = _state(stack)
        except CannotRun:  # a part of it went away
            state = "is being removed"
        created = [machine.created for machine in stack.values()]
        since = min(created, default="")
        found.append(StackRow(engine.name, name, stack.lab_id, state, since, stack.slot))
    return found


def _state(stack: Stack) -> str:
    stopped = stack.stopped()
    if not stack:
        state = "remains: " + ", ".join(stack.engine.leftovers(stack.name))
    elif stopped:
        state = "not running: " + ", ".join(stopped)
    else:
        state = "up: " + ", ".join(stack)
    return state if stack.owner in ("", naming.owner()) else f"{state}; of {stack.owner}"


def _said(row: StackRow) -> str:
    return f"{row.state}; on the CPUs {row.slot}" if row.slot else row.state


def show(term: Terminal, spoil: bool) -> Status:
    """Print the stacks; with `spoil` also what differs from a new machine."""
    found_engines, unreached = placement.everywhere()
    reached = {engine.name: engine for engine in found_engines}
    found = [row for engine in reached.values() for row in rows(engine)]
    if not found:
        term.say("Nothing of ours is up.")
    else:
        cells = [(row.stack, row.engine, row.since.replace("T", " "), _said(row)) for row in found]
        term.table(("stack", "engine", "since (UTC)", "state"), cells, whole=(0,))
    for engine in reached.values():
        if engine.stays and not any(row.engine == engine.name for row in found):
            term.say(engine.stays)
    changes: dict[str, list[str]] = {}
    if spoil and found:
        baselines = {name: _fresh_sysctls(engine) for name, engine in reached.items()}
        for row in found:
            for name, machine in Stack(reached[row.engine], row.stack).items():
                if not machine.joins and machine.state.running:
                    where = f"{row.stack} {name}"
                    try:
                        changes[where] = _changes(machine, baselines[row.engine])
                    except (CannotRun, LookupError, ValueError):  # its learner can rename eth0
                        changes[where] = ["could not be read"]
        term.say()
        for where, what in changes.items():
            term.say(f"{where}: {'; '.join(what) or 'as new'}")
    return _unless(unreached, Status(found, changes))


def _fresh_sysctls(engine: Engine) -> dict[str, str]:
    return _sysctls(engine.once("machine", f"{kernel.SYSCTLS} || true", naming.prefix() + "status"))


def _sysctls(out: str) -> dict[str, str]:
    return {
        key: value
        for key, value in kernel.sysctls(out).items()
        if key.startswith("net.") and not any(part in f"{key}." for part in _PER_INTERFACE)
    }


def _changes(machine: Machine, baseline: dict[str, str]) -> list[str]:
    link = interface.read(machine)
    filters = len(iptables.rules(machine))
    found = [f"mtu {link.mtu}"] if link.mtu != 1500 else []
    found += [f"qdisc {link.qdisc.kind}"] if link.qdisc.kind not in ("none", "noqueue") else []
    found += [f"{filters} iptables rules"] if filters else []
    now = _sysctls(machine.run(kernel.SYSCTLS).out)
    found += [f"{k}={v}" for k, v in now.items() if k in baseline and baseline[k] != v]
    return found


def sweep(term: Terminal, images_too: bool) -> Swept:
    """Remove every stack of ours that no command holds, and the images when asked.

    Raises CannotRun when a stack is held or something could not be removed.
    """
    held: dict[str, str] = {}  # what stopped us, by stack
    failed: dict[str, str] = {}
    removed: list[str] = []
    with term.step("sweep", "removing everything of ours") as step:
        removed += [f"files {path}" for path in scratch.sweep()]
        # A second look finds what Docker was still making when its client was killed.
        reached, unreached = placement.everywhere()
        for engine in [*reached, *reached]:
            for name in engine.stacks():
                step.note(f"removing {name}")
                held.pop(name, None)
                failed.pop(name, None)
                try:
                    lock.refuse_class(name)
                    with lock.hold(name, "sweep"):
                        left = engine.leftovers(name)
                        engine.down(name)
                        removed += left
                except Held as problem:
                    held[name] = problem.message
                except CannotRun as problem:
                    failed[name] = problem.message
        for engine in reached:
            try:
                removed += engine.tidy()
            except CannotRun as problem:
                failed[engine.name] = problem.message
        if images_too:
            removed += [*_sweep_images(reached[0]), *_sweep_box()]
        step.done(f"removed {len(removed)}" if removed else "nothing of ours was there")
    for thing in removed:
        term.say(f"  {thing}")
    swept = Swept(removed, sorted(set(held.values())))
    if failed:
        raise CannotRun([*failed.values()][-1], "docker ps -a", swept)
    if swept.held and unreached is None:
        unreached = CannotRun(swept.held[0], "faultlab status")
    return _unless(unreached, swept)


def _unless(problem: CannotRun | None, result: _T) -> _T:
    """Return the result, or raise the problem with it."""
    if problem is None:
        return result
    problem.result = result
    raise problem


def _sweep_images(engine: Engine) -> list[str]:
    """Only when asked: another copy of the project may use what is stale here."""
    return [f"image {tag}" for tag in engine.images.remove()]


def _sweep_box() -> list[str]:
    """Remove the box of the lab VM that is kept for other checkouts: images/vm/keep.sh."""
    kept = paths.cache() / "box"
    if not kept.is_dir():
        return []
    shutil.rmtree(kept)
    return [f"box of the lab VM {kept}"]
