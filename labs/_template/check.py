"""ID: one line that says what is wrong and how it shows.

Copy to checks/test_<id>.py (a `-` in the id is a `_` in the file's name).
"""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.probes import curl, hping3, iptables


@dataclass(frozen=True)
class Look:
    """What a user meets. Taken in every phase, and by `faultlab check`."""

    syn: hping3.Handshakes
    page: curl.Page


@dataclass(frozen=True)
class Watch:
    """What an engineer can read: counters, logs, queues. Taken before and after each Look."""

    rules: list[iptables.Rule]


def look(at: Stack) -> Look:
    """Look as a user would: knock, fetch a page, put on load. Never judge here."""
    return Look(hping3.syn(at["client"], "web"), curl.get(at["client"], "http://web/"))


def watch(at: Stack) -> Watch:
    """Read the traces. Never judge here."""
    return Watch(iptables.rules(at["web"]))


def rejected(before: Watch, after: Watch) -> int:
    """Packets that REJECT rules took while the symptom was measured."""
    count = [sum(r.packets for r in w.rules if r.target == "REJECT") for w in (before, after)]
    return count[1] - count[0]


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        # name, value of a Look, limit without the fault, limit with it, unit
        Measure("page: curl's exit code", lambda r: r.page.exit_code, exactly(0), exactly(7)),
        Measure("page: size", lambda r: r.page.bytes, at_least(100), at_most(0), "bytes"),
        Measure(
            "SYNs that fail", lambda r: 100 * r.syn.first_try_loss, at_most(5), at_least(90), "%"
        ),
    ),
    evidence=(
        # name, value of the Watches before and after, limit with the fault, where to see it
        Sign("REJECT rules take packets", rejected, at_least(1), at="web", command="iptables -nvL"),
    ),
)
