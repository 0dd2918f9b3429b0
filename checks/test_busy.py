"""busy: nothing is wrong; the CPUs are busy, and no user waits longer or is turned away."""

from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, php
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least
from faultlab.lab.measures import delay, inspect_nothing, rate, share
from faultlab.probes import host, wrk

MOST = 32


@dataclass(frozen=True)
class Look:
    """The users of an evening, and what the CPUs of the host did meanwhile."""

    load: wrk.Load
    before: host.Processors
    after: host.Processors

    @property
    def busy_percent(self) -> float:
        """Share of the time in which the CPUs worked, in percent."""
        return self.after.busy_percent_since(self.before)


def look(stack: Stack) -> Look:
    """Let six users for each CPU click without a pause, which keeps all CPUs busy.

    Raises CannotRun where the 24 workers of PHP-FPM are too few for that.
    """
    web = stack.sidecar("web")
    processors = host.processors(web).count
    if processors > MOST:
        raise CannotRun(f"{processors} processors are too many to keep busy.", "make list")
    users = 6 * processors
    before = host.processors(web)
    load = wrk.load(stack.user(), "http://web/index.php", connections=users, seconds=1)
    return Look(load, before, host.processors(web))


CHECK = Check(
    look=look,
    inspect=inspect_nothing,
    symptom=(
        Measure("processors busy", "busy_percent", at_least(60), unit="%").says(
            "The CPUs work nearly all the time.", "The CPUs are idle for a good part of the time."
        ),
        share("requests that fail", "load.failed_share", good=0).says(
            "Every request succeeds.", "Some requests fail."
        ),
        delay("median latency", "load.p50", good=3).says(
            "Responses come about as quickly as before.", "Responses take far longer than before."
        ),
        rate("good requests", "load.good_per_second", good=0.5).says(
            "About as many pages come as before.", "Far fewer pages come than before."
        ),
    ),
    asks=(
        *php(),
        # PHP's other page waits for 100 ms. Eight workers need 1.5 s for these, and two need six.
        page("http://web/availability.php?restaurants=2", times=120, changes='"tables":[0-9]+'),
    ),
)
