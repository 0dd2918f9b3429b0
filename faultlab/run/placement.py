"""Engines: which one a lab runs on, and which one has it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from faultlab.core import naming
from faultlab.core.defaults import MYSTERY, Wanted
from faultlab.core.errors import CannotRun
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.engine import boot, launch, libvirt, trial, vm
from faultlab.engine.contract import Engine
from faultlab.engine.local import LocalEngine
from faultlab.engine.stack import Stack
from faultlab.lab import load as labs
from faultlab.lab.model import Lab
from faultlab.run import preflight
from faultlab.run.record import Record


def choose(term: Terminal, lab: Lab, wanted: Wanted) -> Engine:
    """The engine for a lab, ready and with every image. Raises CannotRun.

    `auto` takes the local engine unless the lab changes a whole kernel or the local kernel lacks
    what it requires, and says so.
    """
    why = "asked for" if wanted == "vm" else ""
    local = LocalEngine()
    if not why:
        with term.step("images", "looking for what has to be built") as step:
            local.images.ensure(step.note, lab.services.images(lab.daemons))
            step.done("ready")
        why = needs_vm(local, lab)
    if not why:
        return local
    if wanted == "local":
        raise CannotRun(f"{lab.id} cannot run here: {why}.", f"faultlab start {lab.id} --engine vm")
    term.say(f"engine    vm: {why}")
    boot.bring_up(term)
    return vm.connect()


def at_hand(lab: Lab) -> Engine:
    """Return an engine that is up and can run the lab. Raises CannotRun: it needs the VM."""
    local = LocalEngine()
    local.images.ensure(lambda _: None)
    why = needs_vm(local, lab)
    if not why:
        return local
    if libvirt.state() != "running":
        raise CannotRun(f"{lab.id} needs the lab VM, which is {libvirt.state()}: {why}.", "make vm")
    return vm.connect()


def needs_vm(engine: Engine, lab: Lab) -> str:
    """Why the lab cannot run on this engine, found by trying; empty when it can."""
    if engine.owns_kernel:
        return ""
    if lab.scope == "kernel" or not lab.requires:
        return reason(lab, [])
    return reason(lab, trial.lacking(engine, "machine", lab.requires, naming.prefix() + "trial"))


def reason(lab: Lab, lacking: Collection[str]) -> str:
    """Why the lab needs the VM where the local kernel lacks these abilities; empty: it does not."""
    if lab.scope == "kernel":
        return "the fault belongs to a whole kernel"
    return next((f"this kernel has no {name}" for name in lab.requires if name in lacking), "")


def named(lab_id: str) -> Lab:
    """A lab; for `mystery` the one that is up under this name. Raises BadInput, CannotRun."""
    if lab_id != MYSTERY:
        return labs.load(lab_id)
    place = Stack(having(MYSTERY), stack_name(MYSTERY))
    record = Record.open(place.run_id) if place else None
    if record is None:
        what = "The record of the mystery is lost." if place else "No mystery is up."
        raise CannotRun(what, f"make down-{MYSTERY} {MYSTERY}" if place else f"make {MYSTERY}")
    return labs.load(record.facts["lab"]).called(MYSTERY)


def everywhere() -> tuple[list[Engine], CannotRun | None]:
    """The local engine, and the VM's when it is running; and why that one cannot be reached."""
    found: list[Engine] = [LocalEngine()]
    try:
        return ([*found, vm.connect()] if libvirt.state() == "running" else found), None
    except CannotRun as problem:
        return found, problem


def having(lab_id: str, patience: float = 0) -> Engine:
    """The engine where this lab is up; the local one when it is up nowhere.

    `patience`: seconds for a running VM to answer, which may just be booting.
    """
    place = here(lab_id)
    if not place and (inside := vm.if_running(patience)) and Stack(inside, stack_name(lab_id)):
        return inside
    return place.engine


def local() -> Engine:
    """Return the engine of this machine. Raises CannotRun when Docker does not answer."""
    return LocalEngine()


def may_be_in_vm(stack: str) -> bool:
    """Tell whether this user has started a stack of this name in the VM and not removed it."""
    return launch.may_be_in_vm(stack)


def here(lab_id: str) -> Stack:
    """This lab's stack on the local engine; empty when it is not up there."""
    return Stack(LocalEngine(), stack_name(lab_id))


@dataclass(frozen=True)
class Outlook:
    """Where a lab runs: here, in the lab VM only, or not at all."""

    lab: str
    verdict: Literal["RUN", "VM", "SKIP"]
    reason: str


def outlook(lab: Lab, lacking: dict[str, str]) -> Outlook:
    """Where this lab runs, with the reason."""
    why = reason(lab, lacking)
    return Outlook(lab.id, "VM" if why else "RUN", why)


def engines_of(
    term: Terminal, chosen: Sequence[Lab], wanted: Wanted
) -> tuple[dict[str, Engine], dict[str, str]]:
    """The engine of each lab, ready; and why those have none that `wanted` does not allow."""
    places: dict[str, Engine] = {}
    cannot: dict[str, str] = {}
    local, lacking = (None, {}) if wanted == "vm" else _local(term)
    inside: Engine | None = None
    for lab in chosen:
        here_or_not = outlook(lab, lacking)
        if local is not None and here_or_not.verdict == "RUN":
            places[lab.id] = local
        elif wanted == "local":
            cannot[lab.id] = (
                f"needs the lab VM ({here_or_not.reason}): faultlab verify {lab.id} --engine vm"
            )
        else:
            if inside is None:
                boot.bring_up(term)
                inside = vm.connect()
            places[lab.id] = inside
    return places, cannot


def _local(term: Terminal) -> tuple[Engine, dict[str, str]]:
    """The local engine with every image, and what its kernel lacks. Raises CannotRun."""
    engine = LocalEngine()
    with term.step("images", "looking for what has to be built") as step:
        engine.images.ensure(step.note)
        step.done("ready")
    with term.step("doctor", "trying what this machine can run") as step:
        facts, lacking = preflight.examine(engine)
        step.done("tried")
    amiss = [fact for fact in facts if not fact.ok]
    if amiss:
        raise CannotRun(f"{amiss[0].name}: {amiss[0].text}.", "faultlab doctor")
    return engine, lacking
