"""tls-resumption: nginx remembers no TLS session, so each visit is a full handshake."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check
from faultlab.lab.limits import exactly
from faultlab.lab.measures import delay, ends, rate, steady
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
class Inspection:
    """How many of five reconnects found their session again."""

    reused: int


def look(stack: Stack) -> Look:
    """A round of visitors with TLS 1.2, then some with TLS 1.3."""

    def visits(version: tls.Version, seconds: int) -> tls.Visits:
        seconds = stack.pace.seconds(seconds)
        return tls.visits(stack.user(), "web", version, visitors=8, seconds=seconds)

    older = visits("tls1_2", 1)
    before = cgroup.read(stack["nginx"]).cpu
    newer = visits("tls1_3", 1)
    return Look(older, newer, cgroup.read(stack["nginx"]).cpu - before)


def inspect(stack: Stack) -> Inspection:
    """Reconnect."""
    return Inspection(tls.reused(stack.user(), "web"))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("visits with TLS 1.2", "older.per_second", good=0.5, bad=0.25).says(
            "About as many visits with an older browser succeed as before.",
            "Far fewer visits with an older browser succeed than before.",
        ),
        delay(
            "processor time of a visit with TLS 1.3", "milliseconds", good=2, bad=4, unit="ms"
        ).says(
            "A visit with a newer browser costs the server about as much work as before.",
            "A visit with a newer browser costs the server several times as much work as before.",
        ),
        steady("visitors who give up", "gave_up", exactly(0)).says(
            "No visitor gives up.", "Some visitors give up."
        ),
    ),
    evidence=(
        ends(  # not before: workers from before a reload still answer then
            "sessions reused in five reconnects", "reused", exactly(0)
        ).seen("client", "openssl s_client -connect web:443 -tls1_2 -reconnect"),
    ),
    asks=(page("https://web/", times=10),),
)
