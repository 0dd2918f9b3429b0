"""netem-loss: three of ten packets that web sends are lost behind its back."""

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.probes import ab, hping3, interface, qdisc
from faultlab.run.contract import Contract
from faultlab.run.readings import FAULTY, Measured


@dataclass(frozen=True)
class Look:
    """First tries to connect, and visits to the page."""

    syn: hping3.Handshakes
    visits: ab.Visits


@dataclass(frozen=True)
class Watch:
    """The counters of web's queueing discipline and of its interface."""

    qdisc: qdisc.Qdisc
    eth0: interface.Interface


def look(at: Stack) -> Look:
    """A hundred and sixty SYNs: with 30% lost, fewer than 24 lost are a one in 50,000.

    Few visits: each leaves a port in TIME_WAIT on web, where a SYN of hping3 from the same port is
    no new connection. After 15,000 of them one SYN in twelve was not answered, without any loss.
    """
    return Look(
        hping3.syn(at["client"], "web", count=160, gap=0.0125),
        ab.visits(at["client"], "http://web/", visitors=5, seconds=8, most=400),
    )


def watch(at: Stack) -> Watch:
    """Read both counters."""
    return Watch(qdisc.read(at["web"]), interface.read(at["web"]))


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "first SYNs lost or late",
            lambda r: 100 * r.syn.first_try_loss,
            at_most(4),
            at_least(15),
            "%",
        ),
        Measure(
            "slowest 1% of visits, mean",
            lambda r: r.visits.slowest_percent,
            at_most_times(3),
            at_least_times(10),
            "s",
        ),
    ),
    evidence=(
        Sign(
            "the qdisc drops, with room in its queue; the interface does not",
            lambda before, after: (
                (after.qdisc.dropped - before.qdisc.dropped)
                * (after.qdisc.overlimits == before.qdisc.overlimits)  # grows where a link is full
                * (after.eth0.tx_dropped == before.eth0.tx_dropped)
            ),
            at_least(20),
            at="web",
            command="tc -s qdisc show dev eth0",
            unit="packets",
        ),
    ),
)


def interval(packets: int, share: float, confidence: float) -> tuple[float, float]:
    """Where the lost share of so many packets lies, when each is lost with probability `share`."""
    half = NormalDist().inv_cdf((1 + confidence) / 2) * sqrt(share * (1 - share) / packets)
    return share - half, share + half


class TestNetemLoss(Contract):
    """The contract of every lab, with the limits above."""

    def test_the_loss_is_what_was_asked_for(self, run: Measured) -> None:
        """30% of at least 300 packets, within what chance allows once in ten thousand runs."""
        before, after = run.reading(FAULTY).before, run.reading(FAULTY).after
        assert before and after
        lost = after.qdisc.dropped - before.qdisc.dropped
        sent = lost + after.qdisc.sent - before.qdisc.sent
        low, high = interval(sent, 0.30, 0.9999)
        assert sent >= 300 and low <= lost / sent <= high, f"lost {lost} of {sent}"
