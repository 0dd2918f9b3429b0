"""repeat-queries: the page asks for token, restaurant and settings again for each table."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least
from faultlab.lab.measures import delay, failing, kept, rate
from faultlab.probes import mysql, wrk

ASKED, BOOKED = "Com_select", "Com_insert"


@dataclass(frozen=True)
class Inspection:
    """The counters of the database: queries, and orders that were kept."""

    counters: dict[str, int]


def look(stack: Stack) -> wrk.Booked:
    """Eight partners book tables for a second, two times, of which the better one counts."""
    return wrk.booked(stack.user(), connections=8, seconds=stack.pace.seconds(1))


def inspect(stack: Stack) -> Inspection:
    """Read the counters of the statements."""
    return Inspection(mysql.counters(stack["db"], [ASKED, BOOKED]))


def selects_a_booking(before: Inspection, after: Inspection) -> float:
    """Queries for each order that was kept; the few that are refused ask, too."""
    asked, booked = (after.counters[name] - before.counters[name] for name in (ASKED, BOOKED))
    return asked / booked if booked else 0.0


# On a host whose processors are slow for a while (the same for all phases) the service makes 655 to
# 700 bookings a second and 246 to 278 with the fault, else 1,000 and 300: 0.28 to 0.4 of them.

CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        kept(),
        rate("bookings", "load.good_per_second", good=0.6, bad=0.45).says(
            "Partners get about as many bookings through as before.",
            "Partners get fewer bookings through than before.",
        ),
        delay("median time of a booking", "load.p50", good=1.7, bad=2.2).says(
            "A booking takes about as long as before.", "A booking takes longer than before."
        ),
        failing("requests").says("Hardly any booking fails.", "Some bookings fail."),
    ),
    evidence=(
        Evidence("SELECTs for each booking", selects_a_booking, at_least(40)).seen(
            "db", "mysql -e \"SHOW GLOBAL STATUS LIKE 'Com_select'\""
        ),
    ),
    asks=booking(),
)
