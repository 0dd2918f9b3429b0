"""tls-resumption: nginx remembers no TLS session, so each visit is a full handshake."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least_times, at_most_times, exactly
from faultlab.probes import cgroup, tls


@dataclass(frozen=True)
class Look:
    """Visitors who come back with a new connection for each page.

    `older`: visitors with TLS 1.2; `newer`: with TLS 1.3, for whom nginx used so many seconds of
    processor time (`cpu`).
    """

    older: tls.Visits
    newer: tls.Visits
    cpu: float

    @property
    def gave_up(self) -> int:
        """Return how many visitors of both could not connect."""
        return self.older.gave_up + self.newer.gave_up

    @property
    def milliseconds(self) -> float:
        """The processor time that a visit of today's browsers costs nginx, in milliseconds."""
        return 1000 * self.cpu / self.newer.visits if self.newer.visits else 1000.0


@dataclass(frozen=True)
class Watch:
    """How many of five reconnects found their session again."""

    reused: int


def look(at: Stack) -> Look:
    """A round of visitors with TLS 1.2, then some with TLS 1.3."""

    def visits(version: tls.Version, seconds: int) -> tls.Visits:
        seconds = at.pace.seconds(seconds)
        return tls.visits(at["client"], "web", version, visitors=8, seconds=seconds)

    older = visits("tls1_2", 1)
    before = cgroup.read(at["nginx"]).cpu
    newer = visits("tls1_3", 1)
    return Look(older, newer, cgroup.read(at["nginx"]).cpu - before)


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
            lambda r: r.gave_up,
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
