"""Trial: which kernel abilities labs can use here, found by trying each one."""

from collections.abc import Sequence

from faultlab.engine.contract import Engine
from faultlab.engine.shell import Shell
from faultlab.lab.abilities import ABILITIES, ALWAYS


def missing(machine: Shell) -> dict[str, str]:
    """Return the abilities that the machine's kernel lacks, each with the kernel's message."""
    lacking = {}
    for name, command in ABILITIES.items():
        done = machine.run(command, timeout=10)
        if done.code != 0:
            said = (done.err or done.out).strip().splitlines()
            lacking[name] = said[-1] if said else f"exit code {done.code}"
        machine.run("tc qdisc del dev lo root", timeout=10)
    return lacking


def lacking(engine: Engine, image: str, names: Sequence[str], stack: str) -> list[str]:
    """List which of `names` the engine's kernel lacks, tried in one container without a network."""
    script = "ip link set lo up\n" + "".join(
        f"({ABILITIES[name]}) >/dev/null 2>&1 || echo lacks {name}\n"
        "tc qdisc del dev lo root 2>/dev/null || true\n"
        for name in names
        if name not in ALWAYS
    )
    said = engine.once(image, script, stack, rights=["NET_ADMIN"])
    return [line.split()[1] for line in said.splitlines() if line.startswith("lacks ")]
