"""iptables-drop: web drops three of ten packets on the way in, and three of ten on the way out."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import clicks, page
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import grows, share
from faultlab.probes import connect, iptables


@dataclass(frozen=True)
class Look:
    """The first SYN of many connections, as a user meets them."""

    syn: connect.Handshakes


@dataclass(frozen=True)
class Inspection:
    """The packet filter of web."""

    rules: list[iptables.Rule]


def look(stack: Stack) -> Look:
    """Send 400 SYNs, so that a tenth of the fault shows too: 3% lost each way are 6% of them."""
    return Look(connect.tried(stack.user(), "web", count=400, gap=0.005))


def inspect(stack: Stack) -> Inspection:
    """Read the rules and their counters."""
    return Inspection(iptables.rules(stack.sidecar("web")))


def dropped(chain: str) -> Evidence[Inspection]:
    """Return the evidence that a DROP rule of the chain counts packets during the measurement."""
    name = f"DROP rules in {chain} take packets"
    packets = grows(name, lambda now: iptables.dropped(now.rules, chain), at_least(5), "packets")
    return packets.seen("web", f"iptables -nvL {chain}")


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share("first SYNs lost or late", "syn.first_try_loss", good=2, bad=25).says(
            "Nearly every connection opens at once.", "Some connections do not open at once."
        ),
        Measure("answers to a SYN, p95", "syn.rtt_p95", at_most(500), at_least(900), "ms").says(
            "Hardly any connection opens late.", "Some connections open very late."
        ),
    ),
    evidence=(dropped("INPUT"), dropped("OUTPUT")),
    asks=(page("http://web/"), clicks()),
)
