"""Kernel: the settings of a whole kernel, noted before a lab changes them and restored after it.

Only the kernel of a disposable machine is ever changed: the lab VM, or a marked node of a cluster.
The note is in its /run: it survives our end, and a reboot removes it together with the changes.
Restored values are read again.
"""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

# Counters and clocks among the sysctls, which change by themselves.
MOVING = re.compile(
    r"^(fs\.(dentry-state|file-nr|inode-nr|inode-state|quota)|kernel\.(ns_last_pid|random|pty\.nr)"
    r"|net\.netfilter\.nf_conntrack_count|kernel\.sched_domain|net\.ipv4\.tcp_.*mem_alloc)"
)
_OF_A_STACK = re.compile(r"^net\.(ipv4|ipv6)\.(conf|neigh)\.(veth|br-)")
_NOTES = "/run/faultlab"
_PART = "-- next --"
SYSCTLS = "sysctl -a 2>/dev/null"
_RULES = 'for t in raw mangle nat filter; do iptables -t $t -S | sed "s/^/-t $t /"; done'
# Rules that come and go with containers and pods.
_OF_OTHERS = re.compile(r"docker| br-|KUBE-|CNI-", re.IGNORECASE)
_READ = f"; echo {_PART}; ".join([SYSCTLS, "cat /proc/swaps", "tc qdisc show", _RULES])


@dataclass(frozen=True)
class Settings:
    """Sysctls by name, swap areas, and the root qdiscs of interfaces that belong to no stack.

    `rules`: those of the packet filter that are of no container or pod, as arguments of iptables.
    """

    sysctls: dict[str, str]
    swaps: list[str]
    qdiscs: list[str]
    rules: list[str]


def read(shell: Shell) -> Settings:
    """Read the settings now."""
    return parse(shell.must(_READ))


def parse(out: str) -> Settings:
    """Parse the output of sysctl, /proc/swaps, tc and iptables."""
    sysctl, swaps, qdiscs, rules = out.split(f"{_PART}\n")
    return Settings(
        sysctls=sysctls(sysctl),
        swaps=[line.split()[0] for line in swaps.splitlines()[1:]],
        qdiscs=sorted(
            line.strip()
            for line in qdiscs.splitlines()
            if " dev veth" not in line and " dev br-" not in line
        ),
        rules=[line for line in rules.splitlines() if not _OF_OTHERS.search(line)],
    )


def sysctls(out: str) -> dict[str, str]:
    """Parse `sysctl -a`, without values that change by themselves or belong to a stack."""
    pairs = (line.split(" = ", 1) for line in out.splitlines() if not MOVING.match(line))
    return {p[0]: p[1] for p in pairs if len(p) == 2 and not _OF_A_STACK.match(p[0])}


def differences(before: Settings, now: Settings) -> list[str]:
    """List the changes, one entry each, without sysctls that came or went with a module."""
    found = [
        f"{key} = {now.sysctls[key]} (was {value})"
        for key, value in before.sysctls.items()
        if now.sysctls.get(key, value) != value
    ]
    found += [f"swap {area} is on" for area in now.swaps if area not in before.swaps]
    found += [f"swap {area} is off" for area in before.swaps if area not in now.swaps]
    found += [f"new rule: iptables {rule}" for rule in now.rules if rule not in before.rules]
    found += [f"rule is gone: iptables {rule}" for rule in before.rules if rule not in now.rules]
    return found + [f"new {qdisc}" for qdisc in now.qdiscs if qdisc not in before.qdiscs]


def note(shell: Shell, name: str) -> None:
    """Note the settings before the stack `name` changes them; keep an older note of it."""
    file = f"{_NOTES}/{name}"
    shell.must(f"mkdir -p {_NOTES}; [ -s {file} ] || {{ {_READ}; }} >{file}.part")
    shell.must(f"[ -s {file} ] || mv {file}.part {file}")


def noted(shell: Shell) -> list[str]:
    """Return the stacks whose note is there."""
    names = shell.run(f"ls {_NOTES} 2>/dev/null").out.split()
    return [name for name in names if not name.endswith(".part")]


def put_back(shell: Shell, name: str, hint: str = "faultlab vm reset") -> None:
    """Undo the differences from the note of this stack, if there is one, and verify that.

    Raises CannotRun with the hint if a difference remains.
    """
    file = f"{_NOTES}/{name}"
    noted = shell.run(f"cat {file} 2>/dev/null").out
    if not noted:
        return
    before, now = parse(noted), read(shell)
    for area in now.swaps:
        if area not in before.swaps:
            shell.run(f"swapoff {area}", timeout=120)
    for key, value in before.sysctls.items():
        if now.sysctls.get(key, value) != value:
            shell.run(f"sysctl -w {key}='{value}'")
    _put_back_rules(shell, before.rules, now.rules)
    left = differences(before, read(shell))
    if left:
        raise CannotRun(f"The kernel was not restored: {left[0]}.", hint)
    shell.must(f"rm {file}")


def _put_back_rules(shell: Shell, before: list[str], now: list[str]) -> None:
    """Undo what happened to the packet filter: rules first, then the chains that they were in."""
    new = [rule for rule in now if rule not in before]
    for add, remove in ((" -A ", " -D "), (" -N ", " -X ")):
        for rule in new:
            if add in rule:
                shell.run(f"iptables {rule.replace(add, remove, 1)}")
    for rule in before:
        if rule not in now:
            shell.run(f"iptables {rule}")
