"""ID: one line that says what is wrong and how users notice it.

Copy to checks/test_<id>.py. A `-` in the id is a `_` in the name of the file.
"""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, share
from faultlab.probes import connect, curl, iptables


@dataclass(frozen=True)
class Look:
    """What a user meets: measured in every phase, and by `faultlab check`."""

    syn: connect.Handshakes
    page: curl.Page


@dataclass(frozen=True)
class Inspection:
    """What an engineer can read (counters, logs, queues), before and after each Look."""

    rules: list[iptables.Rule]


def look(stack: Stack) -> Look:
    """Measure as a user would: connect, fetch a page, make load. Never judge here."""
    return Look(connect.tried(stack.user(), "web"), curl.get(stack.user(), "http://web/"))


def inspect(stack: Stack) -> Inspection:
    """Read the evidence. Never judge here."""
    return Inspection(iptables.rules(stack["web"]))


def rejected(now: Inspection) -> int:
    """Return how many packets the REJECT rules have counted."""
    return sum(rule.packets for rule in now.rules if rule.target == "REJECT")


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        # name, value in a Look, limit without the fault, limit with it, unit; then a sentence for
        # the learner while the first limit holds, and one while it does not: plain, no cause.
        Measure("page: curl's exit code", "page.exit_code", exactly(0), exactly(7)).says(
            "The request for the page succeeds.", "The request for the page fails."
        ),
        Measure("page: size", "page.bytes", at_least(100), at_most(0), "bytes").says(
            "The page arrives whole.", "The page does not arrive."
        ),
        # a share in percent: at most 5 without the fault, at least 90 with it
        share("SYNs that fail", "syn.first_try_loss", good=5, bad=90).says(
            "Nearly every connection opens.", "Hardly any connection opens."
        ),
    ),
    evidence=(
        # name, value in an Inspection that grows with the fault, by how much; then what shows it
        grows("REJECT rules take packets", rejected, at_least(1)).seen("web", "iptables -nvL"),
    ),
    # the page must be the one of the healthy phase, so that an error page does not count as one
    asks=(page("http://web/"),),
)
