"""repeat-queries: the page looks up token, restaurant and settings again for each table."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking, said
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least
from faultlab.lab.measures import delay, failing, kept, rate
from faultlab.probes import mysql, wrk

ASKED, BOOKED = "Com_select", "Com_insert"
# What a partner may give away, by the size of the party and the hour. No load books that day.
RULES = """book() { mysql -hdb -ubooking -pbooking booking -e "$1"; }
trap "book 'DELETE FROM tokens WHERE id = 98'" EXIT
book "REPLACE INTO tokens VALUES (98, 'token-98', 'Partner 98', $((2 + 2 * ({n} % 3))), 0)" || exit
curl -sm 9 "http://web/booking/restaurant.php?token=token-98&restaurant=$(({n} % 50 + 1))\\
&date=2026-05-0$(({n} % 9 + 1))&time={10:59,11:00,15:30,21:30,21:31,23:00}&guests=[1-9]"
"""
FEW = 100  # the partners store 500 with the fault on a slow host, and thousands without it


@dataclass(frozen=True)
class Inspection:
    """The counters of the database: queries, and orders that were stored."""

    counters: dict[str, int]


def look(stack: Stack) -> wrk.Booked:
    """Let eight partners book tables for a second, twice; the better result counts."""
    return wrk.booked(stack.user(), connections=8, seconds=stack.pace.seconds(1))


def inspect(stack: Stack) -> Inspection:
    """Read the counters of SELECTs and INSERTs."""
    return Inspection(mysql.counters(stack.sidecar("mysql"), [ASKED, BOOKED]))


def selects_a_booking(before: Inspection, after: Inspection) -> float:
    """Return the SELECTs for each order that was stored; refused orders send a few SELECTs, too.

    It is 0 if few orders were stored: then the SELECTs are those of other pages.
    """
    asked, booked = (after.counters[name] - before.counters[name] for name in (ASKED, BOOKED))
    return asked / booked if booked >= FEW else 0.0


# On a host with slow CPUs (in all phases alike) the service makes 655 to 700 bookings a second, and
# 246 to 278 with the fault. Otherwise it makes 1,000 and 300. The ratio is 0.28 to 0.4.

CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        kept(),
        rate("bookings", "load.good_per_second", good=0.6, bad=0.45).says(
            "Partners make about as many bookings as before.",
            "Partners make fewer bookings than before.",
        ),
        delay("median time of a booking", "load.p50", good=1.7, bad=2.2).says(
            "Responses come about as quickly as before.", "Responses take longer than before."
        ),
        failing("requests").says("Hardly any booking fails.", "Some bookings fail."),
    ),
    evidence=(
        Evidence("SELECTs for each booking", selects_a_booking, at_least(40)).seen(
            "db", "mysql -e \"SHOW GLOBAL STATUS LIKE 'Com_select'\""
        ),
    ),
    asks=(*booking(), said("the rules of the house", RULES, 20, most=9999)),
)
