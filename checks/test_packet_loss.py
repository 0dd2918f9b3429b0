"""packet-loss: a lossy qdisc, two lossy rules and a tiny MTU, one on top of the other.

Each fault has a number of its own, which the other two do not change. Pings are lost below TCP.
Port 80 loses more than ping does, because two rules look at the port. Pages never come, because
they are too large.
"""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import clicks, page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import grows, share
from faultlab.probes import connect, curl, interface, iptables, ping

PAGES = 12


@dataclass(frozen=True)
class Look:
    """Pings, SYNs to the port, and visits to the page."""

    echoes: ping.Echoes
    syn: connect.Handshakes
    pages: int

    @property
    def knocks_against_pings(self) -> float:
        """Share of SYNs with a prompt response, by the share of pings with a reply; 1: no worse."""
        answered = 1 - self.echoes.loss
        return (1 - self.syn.first_try_loss) / answered if answered else 0.0


@dataclass(frozen=True)
class Inspection:
    """The qdisc, the packet filter and the interface of web."""

    qdisc: interface.Qdisc
    rules: list[iptables.Rule]
    eth0: interface.Interface


def look(stack: Stack) -> Look:
    """Send 400 pings and 400 SYNs: the limits below are at least four standard deviations away.

    With both random losses a page comes within 6 s in two of three tries. That all of twelve tries
    fail has a chance of one in 300,000.
    """
    client = stack.user()
    return Look(
        ping.echoes(client, "web", count=400, gap=0.005),
        connect.tried(client, "web", count=400, gap=0.005),
        curl.arriving(client, "http://web/", tries=PAGES, max_time=6),
    )


def inspect(stack: Stack) -> Inspection:
    """Read the counters of all three."""
    web = stack.sidecar("web")
    eth0 = interface.read(web)
    return Inspection(eth0.qdisc, iptables.rules(web), eth0)


def dropped(rules: list[iptables.Rule]) -> int:
    """Return how many packets the DROP rules have counted."""
    return iptables.dropped(rules, "INPUT") + iptables.dropped(rules, "OUTPUT")


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share("pings lost", "echoes.loss", good=1, bad=15, stage=1).says(
            "Nearly every ping gets a reply.", "Some pings get no reply."
        ),
        Measure(
            "prompt answers at port 80, against pings",
            "knocks_against_pings",
            at_least(0.82),
            at_most(0.68),
            stage=2,
        ).says(
            "A connection to port 80 opens about as often as a ping gets a reply.",
            "A connection to port 80 opens less often than a ping gets a reply.",
        ),
        Measure(f"pages of {PAGES} that come", "pages", at_least(1), at_most(0), stage=3).says(
            "A page comes.", "No page comes."
        ),
    ),
    evidence=(
        grows("the qdisc drops", "qdisc.dropped", at_least(20), "packets", stage=1).seen(
            "web", "tc -s qdisc show dev eth0"
        ),
        grows(
            "DROP rules take packets",
            lambda now: dropped(now.rules),
            at_least(20),
            "packets",
            stage=2,
        ).seen("web", "iptables -nvL"),
        grows(
            "web drops what it receives on eth0", "eth0.rx_dropped", at_least(1), "packets", stage=3
        ).seen("web", "netstat -i"),
    ),
    asks=(page("http://web/"), clicks()),
)
