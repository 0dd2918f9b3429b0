"""id-exhausted: the counter of the orders has passed the highest INT, so no order gets a number."""

import json
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking
from faultlab.lab.check import Check, Measure
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
MANY = 1_000_000  # numbers: the service has given 52,219 in all its years
KIND = """mysql -BNe "SELECT column_type FROM information_schema.columns
WHERE table_schema = 'booking' AND table_name = 'orders' AND column_name = 'id'" """
BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32}  # any other: 64
SEQUENCES = """mysql -BNe "SELECT table_name FROM information_schema.tables
WHERE table_schema = 'booking' AND table_type = 'SEQUENCE'" """
AT = "mysql -BNe 'SELECT next_not_cached_value, cache_size, maximum_value FROM booking.{}'"


@dataclass(frozen=True)
class Look:
    """A page that reads, then how many orders are stored under their numbers, then old orders.

    `sent`: orders; they were six, one after the other, in records from before it was stored.
    `left`: how many numbers there are for the orders after these; None in such records.
    """

    free: curl.Page
    kept: int
    lost: int
    sent: int = 6
    left: int | None = None

    @property
    def room(self) -> int:
        """Return the numbers for orders to come; in an old record all of an INT, or none."""
        return self.left if self.left is not None else 2**31 * (self.kept > 0)


@dataclass(frozen=True)
class Inspection:
    """How often the database had no number for an order, and how many numbers are left."""

    refused: int
    left: int


def look(stack: Stack) -> Look:
    """Open a page, then book some tables that are free, and look for each order in the book."""
    user = stack.user()
    free = curl.get(user, f"'{FREE}'", 5)
    numbers = kept(stack)
    lost = int(user.run(TAKEN_OVER).out)
    return Look(free, len(numbers), lost, COUNT, left(stack, max(numbers, default=0)))


def kept(stack: Stack) -> list[int]:
    """Return the numbers of the orders that got one of their own, by which the book finds them."""
    user, dice = stack.user(), stack.dice
    name = f"Ada-{dice.getrandbits(32):08x}"
    day, first, table = (dice.randrange(most) for most in (1400, 30, 10))
    typed = ORDER.format(day=day + 1, first=first, table=table, name=name, count=COUNT)
    lines = user.run(typed, timeout=90).out.splitlines()
    names = {number_in(text): f"{name}-{n}" for n, _, text in (x.partition(" ") for x in lines)}
    wanted = ", ".join(f"({number}, '{who}')" for number, who in names.items() if number > 0)
    sql = f"SELECT id FROM orders WHERE (id, guest_name) IN ({wanted})"
    return [int(line) for line in user.run(f'{SQL} "{sql}"').out.split()] if wanted else []


def left(stack: Stack, newest: int) -> int:
    """Return how many numbers there are after the newest order, or after the counter of the table.

    The end of the column's type counts, and the end of the sequence that gave the number.
    """
    server = stack.sidecar("mysql")
    if not newest:
        return numbers_of_counter(stack)
    kind = server.must(KIND).split("(")
    bits = BITS.get(kind[0].strip(), 64) - ("unsigned" not in kind[-1])
    ends = [2**bits - 1]
    for name in filter(str.isidentifier, server.must(SEQUENCES).split()):
        following, cached, last = map(int, server.must(AT.format(name)).split())
        if newest < following <= newest + cached + COUNT:
            ends.append(last)
    return int(min(ends)) - newest


def numbers_of_counter(stack: Stack) -> int:
    """Return how many numbers the counter of the table has left; many if it has no counter."""
    most, following = stack.sidecar("mysql").must(LEFT).split() or (2**63, 0)
    return int(most) - int(following) + 1


def number_in(line: str) -> int:
    """Return the number in the response to an order; 0 if it has none."""
    try:
        return int(json.loads(line)["order"])
    except (ValueError, KeyError, TypeError):
        return 0


def inspect(stack: Stack) -> Inspection:
    """Read nginx's log, and ask the database for its counter; without one no number is missing."""
    refused = log.count(stack.sidecar("web"), log.NGINX_ERROR, REFUSED)
    return Inspection(refused, numbers_of_counter(stack))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        steady("page of a restaurant: status", "free.status", exactly(200)).says(
            "The page of a restaurant comes.", "The page of a restaurant does not come."
        ),
        share("orders that are not kept", lambda now: 1 - now.kept / now.sent, good=0, bad=40).says(
            "Each booking is kept, and has a number.", "Some bookings are not kept."
        ),
        Measure("numbers for bookings to come", "room", at_least(MANY), at_most(0)).says(
            "There are numbers for many more bookings.", "There are too few numbers left."
        ),
        steady("bookings of the old program that are lost", "lost", exactly(0)).says(
            "Each booking that was taken over is there.",
            "Some bookings that were taken over are gone.",
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
