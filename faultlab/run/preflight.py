"""Preflight: what this machine can run, found by bringing a stack up and trying."""

import shutil

from faultlab.core import lock, paths
from faultlab.core.naming import stack_name
from faultlab.engine import trial
from faultlab.engine.contract import Engine, Machine
from faultlab.engine.fact import Fact
from faultlab.engine.stack import Stack
from faultlab.lab import collection, release
from faultlab.lab import loader as labs
from faultlab.run.record import Record

_DISK_GB = 3


def examine(engine: Engine) -> tuple[list[Fact], dict[str, str]]:
    """Try the engine, the images and a real stack. Return facts and missing abilities."""
    facts = ready(engine)
    if not all(fact.ok for fact in facts):
        return facts, {}
    tried, missing = _try_stack(engine)
    return facts + tried, missing


def ready(engine: Engine) -> list[Fact]:
    """Return what a stack needs before it can start: the engine, room and images."""
    now, unfit = engine.facts(), engine.unfit()
    about = f"{now.version}, kernel {now.kernel}"
    about += f", cgroup v{now.cgroup}" if now.cgroup else ""
    to_engine, to_images = engine.setup_hints
    state = paths.state()
    there = next(folder for folder in (state, *state.parents) if folder.is_dir())
    free = shutil.disk_usage(there).free / 1e9
    facts = [
        Fact(to_engine.split()[0], not unfit, unfit or about, to_engine),
        *([] if unfit else engine.trials()),
        Fact("disk", free >= _DISK_GB, f"{free:.0f} GB free, {_DISK_GB} wanted", "df -h"),
    ]
    made_of = Fact("release", True, release.now().title)
    lacking = engine.images.missing()
    text = f"to be built: {', '.join(lacking)}" if lacking else "all built"
    return [*facts, made_of, *_slots(engine), Fact("images", not lacking, text, to_images)]


def _slots(engine: Engine) -> list[Fact]:
    """Return the CPUs of each slot, if a stack does not have the whole machine."""
    slots = engine.slots()
    text = f"{len(slots)} for stacks, with the CPUs {'; '.join(slots)}"
    return [Fact("slots", True, text)] if slots else []


def _try_stack(engine: Engine) -> tuple[list[Fact], dict[str, str]]:
    lab = labs.load(collection.ours().control)
    name = stack_name("doctor")
    with lock.hold(name, "doctor", wait=True):  # another command may be trying the same
        engine.down(name)
        record = Record.create("doctor", name, {})
        try:
            with engine.slot(name) as slot:
                engine.launch(lab, name, record.id, record.folder, slot)
                stack = Stack(engine, name)
                stack.make_ready()
            server = next(each for each in stack.machines if each.name != lab.collection.client)
            facts = [Fact("stack", True, f"came up: {', '.join(stack)}"), sysctls(server)]
            return facts, trial.missing(server)
        finally:
            engine.down(name)


def sysctls(machine: Machine) -> Fact:
    """Test that exactly /proc/sys/net is writable."""
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
