"""Doctor: what runs on this machine. It brings a stack up and tries, it does not guess."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from faultlab import engines
from faultlab.core import lock, paths
from faultlab.core.errors import CannotRun
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.engine import build, compose, libvirt, removal, stack, trial
from faultlab.engine.build import ensure_images
from faultlab.engine.docker import Engine, Machine
from faultlab.lab import check
from faultlab.lab import images as image_files
from faultlab.lab import load as labs
from faultlab.lab.model import Lab
from faultlab.record import Record

_TRIED_ON = "healthy"  # the lab whose stack is brought up for the trial
_DISK_GB = 3


@dataclass(frozen=True)
class Fact:
    """One thing that was tried, whether it is as it should be, and what to type if not."""

    name: str
    ok: bool
    text: str
    hint: str = ""


@dataclass(frozen=True)
class Outlook:
    """Where a lab runs: here, in the lab VM only, or not at all."""

    lab: str
    verdict: Literal["RUN", "VM", "SKIP"]
    reason: str


def examine(engine: Engine) -> tuple[list[Fact], dict[str, str]]:
    """Try Docker, Compose, the images and a real stack: facts, and the abilities that lack."""
    info = engine.info()
    kernel, cgroup = info.get("KernelVersion", "?"), info.get("CgroupVersion", "?")
    free = shutil.disk_usage(paths.root()).free / 1e9
    facts = [
        Fact("docker", True, f"{info.get('ServerVersion')}, kernel {kernel}, cgroup v{cgroup}"),
        Fact("compose", True, " ".join(compose.program())),
        Fact("disk", free >= _DISK_GB, f"{free:.0f} GB free, {_DISK_GB} wanted", "df -h"),
    ]
    lacking = build.missing(engine)
    text = f"to be built: {', '.join(lacking)}" if lacking else "all built"
    facts.append(Fact("images", not lacking, text, "make setup"))
    if lacking:
        return facts, {}
    tried, missing = _try_stack(engine)
    return facts + tried, missing


def _try_stack(engine: Engine) -> tuple[list[Fact], dict[str, str]]:
    lab = labs.load(_TRIED_ON)
    name = stack_name("doctor")
    with lock.hold(name, "doctor"):
        removal.down(engine, name)
        record = Record.create("doctor", name, {})
        try:
            place = stack.up(engine, lab, name, record.id, record.folder)
            web = place["web"]
            facts = [Fact("stack", True, f"came up: {', '.join(place)}"), sysctls(web)]
            return facts, trial.missing(web)
        finally:
            removal.down(engine, name)


def sysctls(machine: Machine) -> Fact:
    """Is exactly /proc/sys/net writable?"""
    net = machine.run("sysctl -w net.core.somaxconn=4096").code == 0
    closed = [
        key
        for key in ("kernel.panic", "vm.swappiness")
        if machine.run(f"sysctl -w {key}=$(sysctl -n {key})").code != 0
    ]
    ok = net and len(closed) == 2
    return Fact(
        "sysctls",
        ok,
        "net.* writable in a machine, kernel.* and vm.* not"
        if ok
        else f"net.* writable: {net}, closed: {', '.join(closed) or 'none'}",
        "docker info",
    )


def outlook(lab: Lab, lacking: dict[str, str]) -> Outlook:
    """Where this lab runs, with the reason."""
    why = engines.reason(lab, lacking)
    return Outlook(lab.id, "VM" if why else "RUN", why)


def _vm() -> list[Fact]:
    """The lab VM, and what a guest can be run with here: found by booting one."""
    found = libvirt.state()
    facts = [Fact("vm", True, f"{found}{'' if found == 'running' else '; make vm brings it up'}")]
    try:
        how, why = libvirt.acceleration()
    except CannotRun as problem:
        how, why = "not known yet", problem.message
    return [*facts, Fact("acceleration", True, f"{how}: {why}")]


def show(term: Terminal, lab_ids: Sequence[str]) -> None:
    """Print the facts and, per lab, RUN, VM or SKIP. Raises CannotRun when something is amiss."""
    chosen = [labs.load(lab_id) for lab_id in lab_ids or labs.ids()]
    for lab in chosen:
        check.load(lab.id)
    engine = Engine()
    with term.step("doctor", "bringing a stack up and trying") as step:
        facts, lacking = examine(engine)
        step.note("booting a guest")
        facts += _vm()
        step.done("tried")
    term.say()
    term.table(("", "what", "found"), [("ok" if f.ok else "NO", f.name, f.text) for f in facts])
    amiss = [fact for fact in facts if not fact.ok]
    found = [
        Outlook(lab.id, "SKIP", f"{amiss[0].name}: {amiss[0].text}")
        if amiss
        else outlook(lab, lacking)
        for lab in chosen
    ]
    term.say()
    term.table(("lab", "", "reason"), [(o.lab, o.verdict, o.reason) for o in found])
    term.json(
        {
            "facts": [asdict(fact) for fact in facts],
            "lacking": lacking,
            "labs": [asdict(o) for o in found],
        }
    )
    if amiss:
        raise CannotRun(f"{amiss[0].name}: {amiss[0].text}.", amiss[0].hint)


def images(term: Terminal) -> None:
    """Build what is missing."""
    engine = Engine()
    lacking = build.missing(engine)
    with term.step("images", "looking for what has to be built") as step:
        ensure_images(engine, step.note)
        step.done(f"built: {', '.join(lacking)}" if lacking else "ready")
    term.json({"built": lacking, "images": {n: image_files.tag(n) for n in image_files.names()}})
