"""Surroundings: what a stack was given that differs between machines.

No code judges by it. It is in the record for the person who compares two machines.
"""

from collections.abc import Mapping

from faultlab.core.errors import CannotRun
from faultlab.engine.fact import Facts
from faultlab.engine.shell import Shell

_SYSCTLS = ("core/somaxconn", "ipv4/tcp_mem", "netfilter/nf_conntrack_max")
_READ = (
    "cd /proc/sys/net; echo cpus $(nproc);"
    f" for f in {' '.join(_SYSCTLS)}; do echo ${{f##*/}} $(cat $f 2>/dev/null); done;"
    r" sed -n 's/^Max open files *\([^ ]*\) .*/open_files \1/p;"
    r" s/^Max processes *\([^ ]*\) .*/processes \1/p' /proc/self/limits"
)


def read(machine: Shell, below: Facts) -> Mapping[str, str]:
    """Return the CPUs, sysctls and ulimits as text; without what cannot be read.

    `below`: what the engine says of its kernel, which a container does not see.
    """
    try:
        done = machine.run(_READ)
    except CannotRun:  # the walk will say what is wrong
        return {}
    return parse(done.out) | ({"tcp_mem": below.tcp_mem} if below.tcp_mem else {})


def parse(out: str) -> dict[str, str]:
    """Parse lines of a name and a value, which is missing where the kernel has none."""
    pairs = (line.partition(" ") for line in out.splitlines())
    return {name: " ".join(value.split()) for name, _, value in pairs if value.strip()}
