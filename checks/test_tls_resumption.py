"""tls-resumption: nginx keeps no TLS session, so each connection needs a full handshake."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import delay, ends, rate, steady
from faultlab.probes import cgroup, tls

USERS = 4  # of each version of TLS, who come back after all others


@dataclass(frozen=True)
class Look:
    """Users who come back with a new connection for each page.

    `older`: users with TLS 1.2; `newer`: users with TLS 1.3. `cpu`: the seconds of CPU time that
    nginx used for the newer ones. `lifetime`: for how many seconds a session is good, as the server
    says. `back`: users who came before all others, and are known after them.
    """

    older: tls.Visits
    newer: tls.Visits
    cpu: float
    lifetime: int = 86400
    back: int = 2 * USERS

    @property
    def gave_up(self) -> int:
        """Return how many users of both kinds could not connect."""
        return self.older.gave_up + self.newer.gave_up

    @property
    def milliseconds(self) -> float:
        """The CPU time that a visit with TLS 1.3 costs nginx, in milliseconds."""
        return 1000 * self.cpu / self.newer.visits if self.newer.visits else 1000.0

    @property
    def known_for(self) -> int:
        """The seconds within which a user can resume; 0 if some who return at once cannot."""
        always = min(self.older.resumed_share, self.newer.resumed_share) > 0.9
        return self.lifetime if always and self.back >= 2 * USERS else 0


@dataclass(frozen=True)
class Inspection:
    """How many of five reconnects resumed their session."""

    reused: int


def look(stack: Stack) -> Look:
    """Users with TLS 1.2, then users with TLS 1.3. Then read how long a session is good.

    Some users were there before all of these, and come back after them. What ends their sessions a
    minute later is for the late look to find.
    """

    def visits(version: tls.Version, seconds: int) -> tls.Visits:
        seconds = stack.pace.seconds(seconds)
        return tls.visits(stack.user(), "web", version, visitors=8, seconds=seconds)

    sessions = tls.begin(stack.user(), "web", users=USERS)
    older = visits("tls1_2", 1)
    before = cgroup.read(stack.sidecar("nginx")).cpu
    newer = visits("tls1_3", 1)
    cpu = cgroup.read(stack.sidecar("nginx")).cpu - before
    lifetime = tls.lifetime(stack.user(), "web")
    return Look(older, newer, cpu, lifetime, tls.resumed(stack.user(), "web", sessions))


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
            "A visit with a newer browser costs the server over twice as much work as before.",
        ),
        # The users of the ticket come back a minute later.
        Measure(
            "break after which a user is known", "known_for", at_least(60), at_most(30), "s"
        ).says(
            "A user who comes back after a minute is served as before.",
            "A user who comes back after a minute is not served as before.",
        ),
        steady("visitors who give up", "gave_up", exactly(0)).says(
            "No user gives up.", "Some users give up."
        ),
    ),
    evidence=(
        ends(  # not before: workers from before a reload still respond then
            "sessions reused in five reconnects", "reused", exactly(0)
        ).seen("client", "openssl s_client -connect web:443 -tls1_2 -reconnect"),
    ),
    asks=(page("https://web/", times=10),),
)
