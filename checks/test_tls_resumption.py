"""tls-resumption: nginx remembers no TLS session, so each visit is a full handshake."""

from dataclasses import dataclass

from faultlab.check import Check, Measure, Sign, at_least_times, at_most_times, exactly
from faultlab.contract import Contract
from faultlab.probes import process, tls
from faultlab.stack import Stack

VISITORS = 8


@dataclass(frozen=True)
class Look:
    """Visitors who come back with a new connection for each page; `cpu`: seconds of nginx."""

    older: tls.Visits
    newer: tls.Visits
    cpu: float

    @property
    def milliseconds(self) -> float:
        """What a visit of today's browsers costs nginx, in milliseconds of processor time."""
        return 1000 * self.cpu / self.newer.visits if self.newer.visits else 1000.0


@dataclass(frozen=True)
class Watch:
    """How many of five reconnects found their session again."""

    reused: int


def look(at: Stack) -> Look:
    """Two seconds of visitors with TLS 1.2, and two with TLS 1.3."""
    seconds = at.pace.seconds(2)
    older = tls.visits(at["client"], "web", "tls1_2", visitors=VISITORS, seconds=seconds)
    before = process.cpu(at["web"], "nginx")
    newer = tls.visits(at["client"], "web", "tls1_3", visitors=VISITORS, seconds=seconds)
    return Look(older, newer, process.cpu(at["web"], "nginx") - before)


def watch(at: Stack) -> Watch:
    """Reconnect."""
    return Watch(tls.reused(at["client"], "web"))


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "visits with TLS 1.2",
            lambda r: r.older.per_second,
            at_least_times(0.5),
            at_most_times(0.25),
            "/s",
        ),
        Measure(
            "processor time of a visit with TLS 1.3",
            lambda r: r.milliseconds,
            at_most_times(2),
            at_least_times(4),
            "ms",
        ),
        Measure(
            "visitors who give up",
            lambda r: r.older.gave_up + r.newer.gave_up,
            exactly(0),
            exactly(0),
        ),
    ),
    evidence=(
        Sign(
            "sessions reused in five reconnects",
            lambda before, after: after.reused,  # before: workers from before a reload still answer
            exactly(0),
            at="client",
            command="openssl s_client -connect web:443 -tls1_2 -reconnect",
        ),
    ),
)


class TestTlsResumption(Contract):
    """The contract of every lab, with the limits above."""
