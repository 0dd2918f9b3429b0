"""repeat-queries: the page asks for token, restaurant and settings again for each table."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.probes import mysql, wrk

ASKED, BOOKED = "Com_select", "Com_insert"


@dataclass(frozen=True)
class Look:
    """Eight partners that book tables; of two times the better one."""

    load: wrk.Load


@dataclass(frozen=True)
class Watch:
    """The counters of the database: queries, and orders that were kept."""

    counters: dict[str, int]


def look(at: Stack) -> Look:
    """Orders for a second, two times.

    A second before warms the workers up: with its first order each connects to the database.
    """
    _orders(at)
    loads = [_orders(at) for _ in range(2)]
    return Look(max(loads, key=lambda load: load.good_per_second))


def _orders(at: Stack) -> wrk.Load:
    return wrk.bookings(at["client"], connections=8, seconds=at.pace.seconds(1))


def watch(at: Stack) -> Watch:
    """Read the counters of the statements."""
    return Watch(mysql.counters(at["db"], [ASKED, BOOKED]))


def selects_a_booking(before: Watch, after: Watch) -> float:
    """Queries for each order that was kept; the few that are refused ask, too."""
    asked, booked = (after.counters[name] - before.counters[name] for name in (ASKED, BOOKED))
    return asked / booked if booked else 0.0


STEADY = at_most(1)

# On a host whose processors are slow for a while (the same for all phases) the service makes 655 to
# 700 bookings a second and 246 to 278 with the fault, else 1,000 and 300: 0.28 to 0.4 of them.

CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "bookings",
            lambda r: r.load.good_per_second,
            at_least_times(0.6),
            at_most_times(0.45),
            "/s",
        ),
        Measure(
            "median time of a booking",
            lambda r: r.load.p50,
            at_most_times(1.7),
            at_least_times(2.2),
            "s",
        ),
        Measure("requests that fail", lambda r: 100 * r.load.failed_share, STEADY, STEADY, "%"),
    ),
    evidence=(
        Sign(
            "SELECTs for each booking",
            selects_a_booking,
            at_least(40),
            at="db",
            command="mysql -e \"SHOW GLOBAL STATUS LIKE 'Com_select'\"",
        ),
    ),
)
