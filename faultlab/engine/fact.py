"""Fact: what an engine says about itself, and what was tried."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """A thing that was tried, whether it is as it should be, and the command to type if not."""

    name: str
    ok: bool
    text: str
    hint: str = ""


@dataclass(frozen=True)
class Facts:
    """Versions of an engine and of the kernel below it; `memory` in bytes.

    `tcp_mem`: this sysctl, which containers do not see; empty where it is not known.
    """

    version: str
    kernel: str
    system: str
    cgroup: str
    cpus: int
    memory: int
    tcp_mem: str = ""
