"""id-exhausted: the counter of the orders has passed the highest INT, so no order gets a number."""

import json
import secrets
from dataclasses import dataclass

from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends, grows, share, steady
from faultlab.probes import curl, log

COUNT = 20  # at the same time, each for another restaurant
FREE = (
    "http://web/booking/restaurant.php"
    "?token=token-01&restaurant=7&date=2026-06-05&time=18:00&guests=2"
)
# At 16 o'clock, where no other order of this lab is.
ORDER = """cd $(mktemp -d) && day=$(date -d "{day} days" +%F) && for n in $(seq {count}); do
echo 'url = "http://web/booking/order.php"'
echo "data = \\"token=token-01&name={name}-$n&guests=2&restaurant=$(({first} + n))\\""
echo "data = \\"table=$(({table} + n))&date=$day&time=16:00\\""
echo "output = \\"$n\\""
echo max-time = 10
[ $n = {count} ] || echo next
done | curl -s --parallel --parallel-immediate --parallel-max {count} -K -
for n in $(seq {count}); do echo $n $(cat $n); done"""
SQL = "mysql -hdb -ubooking -pbooking -BN booking -e"
# The old orders that are taken over, or were so at an earlier look, which the user remembers.
TAKEN_OVER = f"""cd /tmp && touch before
{SQL} "SELECT guest_name FROM old_orders WHERE transferred" | cat - before | sort -u >wanted
{SQL} "SELECT guest_name FROM orders WHERE guest_name IN (SELECT guest_name FROM old_orders)" |
sort -u >now && sort -u wanted now >before && comm -23 before now | wc -l"""
REFUSED = "Out of range value for column 'id'"
LEFT = """mysql -BNe "SELECT max_value, auto_increment FROM sys.schema_auto_increment_columns
WHERE table_schema = 'booking' AND table_name = 'orders'" """


@dataclass(frozen=True)
class Look:
    """A page that reads, then how many orders are stored under their numbers, then old orders.

    `sent`: orders; they were six, one after the other, in records from before it was stored.
    """

    free: curl.Page
    kept: int
    lost: int
    sent: int = 6


@dataclass(frozen=True)
class Inspection:
    """How often the database had no number for an order, and how many numbers are left."""

    refused: int
    left: int


def look(stack: Stack) -> Look:
    """Open a page, then book some tables that are free, and look for each order in the book."""
    user = stack.user()
    free = curl.get(user, f"'{FREE}'", 5)
    return Look(free, kept(user), int(user.run(TAKEN_OVER).out), COUNT)


def kept(user: Shell) -> int:
    """Return how many of the orders got a number of their own, by which the book finds them."""
    name = f"Ada-{secrets.token_hex(4)}"
    day, first, table = (secrets.randbelow(most) for most in (1400, 30, 10))
    typed = ORDER.format(day=day + 1, first=first, table=table, name=name, count=COUNT)
    lines = user.run(typed, timeout=90).out.splitlines()
    names = {number_in(text): f"{name}-{n}" for n, _, text in (x.partition(" ") for x in lines)}
    wanted = ", ".join(f"({number}, '{who}')" for number, who in names.items() if number > 0)
    sql = f"SELECT COUNT(*) FROM orders WHERE (id, guest_name) IN ({wanted})"
    return int(user.run(f'{SQL} "{sql}"').out.strip() or 0) if wanted else 0


def number_in(line: str) -> int:
    """Return the number in the response to an order; 0 if it has none."""
    try:
        return int(json.loads(line)["order"])
    except (ValueError, KeyError, TypeError):
        return 0


def inspect(stack: Stack) -> Inspection:
    """Read nginx's log, and ask the database for its counter; without one no number is missing."""
    most, following = stack["mysql"].must(LEFT).split() or (2**63, 0)
    refused = log.count(stack["web"], log.NGINX_ERROR, REFUSED)
    return Inspection(refused, int(most) - int(following) + 1)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        steady("page of a restaurant: status", "free.status", exactly(200)).says(
            "The page of a restaurant comes.", "The page of a restaurant does not come."
        ),
        share("orders that are not kept", lambda now: 1 - now.kept / now.sent, good=0, bad=40).says(
            "Each booking is kept, and has a number.", "Bookings are not kept."
        ),
        steady("bookings of the old program that are lost", "lost", exactly(0)).says(
            "Each booking that was taken over is there.", "A booking that was taken over is gone."
        ),
    ),
    evidence=(
        grows("orders for which the database has no number", "refused", at_least(1), "lines").seen(
            "web", f'grep -c "{REFUSED}" {log.NGINX_ERROR}'
        ),
        ends("numbers that are left", "left", at_most(0)).seen(
            "db", "mysql -e 'SELECT * FROM sys.schema_auto_increment_columns'"
        ),
    ),
    asks=booking(),
)
