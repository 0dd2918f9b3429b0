"""netem-loss: three of ten packets that web sends are lost in its own qdisc."""

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from faultlab.engine.stack import Stack
from faultlab.lab.asks import clicks, page
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least
from faultlab.lab.measures import delay, share
from faultlab.probes import ab, connect, interface
from faultlab.run.contract import Contract
from faultlab.run.phase import FAULTY
from faultlab.run.readings import Measured


@dataclass(frozen=True)
class Look:
    """The first SYN of many connections, and visits to the page."""

    syn: connect.Handshakes
    visits: ab.Visits


@dataclass(frozen=True)
class Inspection:
    """The counters of the queueing discipline and of the interface of web."""

    qdisc: interface.Qdisc
    eth0: interface.Interface


def look(stack: Stack) -> Look:
    """Send 160 SYNs: with a loss of 30%, one run in 50,000 loses fewer than 24. Then a few visits.

    Each visit leaves a connection in TIME_WAIT on web. A SYN of hping3 from the same port is then
    no new connection. After 15,000 visits one SYN in twelve got no response, without any loss.
    """
    return Look(
        connect.tried(stack.user(), "web", count=160, gap=0.0125),
        ab.visits(stack.user(), "http://web/", visitors=5, seconds=8, most=400),
    )


def inspect(stack: Stack) -> Inspection:
    """Read both counters."""
    eth0 = interface.read(stack.sidecar("web"))
    return Inspection(eth0.qdisc, eth0)


def lost_in_the_qdisc(before: Inspection, after: Inspection) -> int:
    """Return the drops of the qdisc; 0 if its queue was full or the interface dropped some."""
    full = after.qdisc.overlimits != before.qdisc.overlimits  # grows where a link is full
    dropped = after.eth0.tx_dropped != before.eth0.tx_dropped
    return 0 if full or dropped else after.qdisc.dropped - before.qdisc.dropped


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share("first SYNs lost or late", "syn.first_try_loss", good=4, bad=15).says(
            "Nearly every connection opens at once.", "Some connections do not open at once."
        ),
        delay("slowest 1% of visits, mean", "visits.slowest_percent", good=3, bad=10).says(
            "Even the slowest visits are about as quick as before.",
            "The slowest visits take far longer than before.",
        ),
    ),
    evidence=(
        Evidence(
            "the qdisc drops, with room in its queue; the interface does not",
            lost_in_the_qdisc,
            at_least(20),
            unit="packets",
        ).seen("web", "tc -s qdisc show dev eth0"),
    ),
    asks=(page("http://web/"), clicks()),
)


def interval(packets: int, share: float, confidence: float) -> tuple[float, float]:
    """Return the limits of the lost share, when each packet is lost with probability `share`."""
    half = NormalDist().inv_cdf((1 + confidence) / 2) * sqrt(share * (1 - share) / packets)
    return share - half, share + half


class TestNetemLoss(Contract):
    """The tests of every lab, and one for the share that is lost."""

    def test_the_loss_is_what_was_asked_for(self, run: Measured) -> None:
        """The loss is 30% of 300 packets or more; chance alone fails one run in 10,000."""
        before, after = run.reading(FAULTY).before, run.reading(FAULTY).after
        assert before and after
        lost = after.qdisc.dropped - before.qdisc.dropped
        sent = lost + after.qdisc.sent - before.qdisc.sent
        low, high = interval(sent, 0.30, 0.9999)
        assert sent >= 300 and low <= lost / sent <= high, f"lost {lost} of {sent}"
