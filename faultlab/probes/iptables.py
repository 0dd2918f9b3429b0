"""Probe: packet filter rules and their counters, by iptables. Source: iptables(8), `-nvxL`."""

from dataclasses import dataclass

from faultlab.engine.shell import Shell

COMMAND = "iptables -w 5 -nvxL"


@dataclass(frozen=True)
class Rule:
    """A rule of the filter table and the packets that matched it."""

    chain: str
    target: str  # empty for a rule that only counts
    packets: int


def rules(machine: Shell) -> list[Rule]:
    """Return all rules of the filter table."""
    return parse(machine.must(COMMAND))


def parse(out: str) -> list[Rule]:
    """Parse the chains and their rules."""
    found = []
    chain = ""
    for line in out.splitlines():
        words = line.split()
        if line.startswith("Chain "):
            chain = words[1]
        elif words and words[0].isdigit():
            # The fourth column is `opt` (`--`) if the rule has no target.
            target = "" if words[3].startswith("-") else words[2]
            found.append(Rule(chain, target, int(words[0])))
    return found


def dropped(found: list[Rule], chain: str) -> int:
    """Return the packets that DROP rules of a chain have dropped."""
    return sum(rule.packets for rule in found if rule.chain == chain and rule.target == "DROP")
