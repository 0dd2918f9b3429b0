"""packet-loss: a lossy qdisc, two lossy rules and a tiny MTU, one on top of the other.

Each fault has a number of its own, which the other two do not move: what pings lose is lost below
TCP; what port 80 loses on top of that asks for the port; what still never comes is too large.
"""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_most
from faultlab.probes import curl, hping3, interface, iptables, ping, qdisc

PAGES = 12


@dataclass(frozen=True)
class Look:
    """Pings, knocks at the port, and visits to the page at once."""

    echoes: ping.Echoes
    syn: hping3.Handshakes
    pages: int

    @property
    def knocks_against_pings(self) -> float:
        """Share of prompt answers at port 80 by the share of answered pings; 1: no worse."""
        answered = 1 - self.echoes.loss
        return (1 - self.syn.first_try_loss) / answered if answered else 0.0


@dataclass(frozen=True)
class Watch:
    """Qdisc, packet filter and interface of web."""

    qdisc: qdisc.Qdisc
    rules: list[iptables.Rule]
    eth0: interface.Interface


def look(at: Stack) -> Look:
    """Four hundred of each: the limits below are four standard deviations away or more.

    With both losses a page comes within 6 s two times in three: that none of twelve does is a one
    in 300,000.
    """
    client = at["client"]
    return Look(
        ping.echoes(client, "web", count=400, gap=0.005),
        hping3.syn(client, "web", count=400, gap=0.005),
        curl.arriving(client, "http://web/", tries=PAGES, max_time=6),
    )


def watch(at: Stack) -> Watch:
    """Read the counters of all three."""
    web = at["web"]
    return Watch(qdisc.read(web), iptables.rules(web), interface.read(web))


def dropped(rules: list[iptables.Rule]) -> int:
    """Packets that DROP rules have taken."""
    return iptables.dropped(rules, "INPUT") + iptables.dropped(rules, "OUTPUT")


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "pings lost",
            lambda r: 100 * r.echoes.loss,
            at_most(3),
            at_least(15),
            "%",
            stage=1,
        ),
        Measure(
            "prompt answers at port 80, against pings",
            lambda r: r.knocks_against_pings,
            at_least(0.82),
            at_most(0.68),
            stage=2,
        ),
        Measure(
            f"pages of {PAGES} that come",
            lambda r: r.pages,
            at_least(1),
            at_most(0),
            stage=3,
        ),
    ),
    evidence=(
        Sign(
            "the qdisc drops",
            lambda before, after: after.qdisc.dropped - before.qdisc.dropped,
            at_least(20),
            at="web",
            command="tc -s qdisc show dev eth0",
            unit="packets",
            stage=1,
        ),
        Sign(
            "DROP rules take packets",
            lambda before, after: dropped(after.rules) - dropped(before.rules),
            at_least(20),
            at="web",
            command="iptables -nvL",
            unit="packets",
            stage=2,
        ),
        Sign(
            "web drops what it receives on eth0",
            lambda before, after: after.eth0.rx_dropped - before.eth0.rx_dropped,
            at_least(1),
            at="web",
            command="netstat -i",
            unit="packets",
            stage=3,
        ),
    ),
)
