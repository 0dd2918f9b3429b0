"""metadata-lock: ALTER TABLE waits for an open transaction, and all pages wait behind it."""

import time
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking, said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, exactly
from faultlab.lab.measures import ends, share, steady
from faultlab.probes import curl

PAGES = 4  # a worker of PHP waits on after its user has gone, and there are 24
SECONDS = 4  # that a user waits
PAGE = "http://web/booking/restaurant.php?restaurant=7&date=2026-06-05&time=18:00&guests=2"
FREE = f"curl -s -m {SECONDS} '{PAGE}&token=token-01' | grep -c 'free tables for 2'"
WAITING = "Waiting for table metadata lock"
KEPT = """timeout 5 mysql -hdb -ubooking -pbooking -NBe "SELECT COUNT(*), SUM(CRC32(CONCAT_WS(0,
table_id, dining_date, dining_time, guest_name))) FROM booking.orders WHERE id <= 52219" """
BOOK = "mysql -hdb -ubooking -pbooking -NB booking -e"
ITS = "guest_name = 'an order of the check'"
BOOKED = f"""{BOOK} "SET lock_wait_timeout = 5; DELETE FROM orders WHERE {ITS}; INSERT INTO orders
SET restaurant_id = 1, table_id = 1, token_id = 1, dining_date = '2040-01-01',
dining_time = '13:00', guests = 2, {ITS}; SELECT COUNT(*) FROM orders" """
REMOVED = f'{BOOK} "DELETE FROM orders WHERE {ITS}"'
BOARD = "cat /srv/counter/board.txt"
# As the next change of the table needs it, for two seconds. NOWAIT: no page waits behind it.
ALONE = """for i in $(seq 16); do
mysql -e "LOCK TABLE booking.orders WRITE NOWAIT" 2>/dev/null && exit; sleep 0.1; done; exit 1"""
# A transaction that is as old as its statement is only slow.
OLD = """SELECT COUNT(*) FROM information_schema.innodb_trx
JOIN information_schema.processlist ON id = trx_mysql_thread_id
WHERE TIMESTAMPDIFF(SECOND, trx_started, NOW()) >= time + 2"""


@dataclass(frozen=True)
class Look:
    """A page that needs no orders; then how many of the pages that need them came in time.

    `follows`: whether the number on the wall counts a new order within three seconds. `alone`:
    whether a session gets the orders for itself; None in records from before it was tried.
    """

    revoked: curl.Page
    arrived: int
    follows: bool
    alone: bool | None = None

    @property
    def open(self) -> bool:
        """Return whether the next change of the table can begin."""
        return self.follows if self.alone is None else self.alone


@dataclass(frozen=True)
class Inspection:
    """Sessions that wait for a metadata lock, and transactions older than their statement."""

    waiting: int
    old: int


def look(stack: Stack) -> Look:
    """Open the page of a restaurant without a right to it, then with it, and book a table.

    At last root asks for the table, as the next part of the release does.
    """
    user = stack.user()
    revoked = curl.get(user, f"'{PAGE}&token=token-20'", SECONDS)
    command = f"for i in $(seq {PAGES}); do {FREE} & done; wait"
    arrived = user.run(command, timeout=SECONDS + 20).out.split().count("1")
    moved = follows(stack)
    return Look(revoked, arrived, moved, stack["mysql"].run(ALONE, timeout=30).code == 0)


def follows(stack: Stack) -> bool:
    """Return whether the number of orders on the wall follows a new one, which is then removed."""
    user = stack.user()
    booked = user.run(BOOKED, timeout=20)
    if booked.code:
        return False
    until = time.monotonic() + 3
    try:
        while time.monotonic() < until:
            if stack["reports"].run(BOARD).out.split()[:1] == booked.out.split():
                return True
            time.sleep(0.2)
        return False
    finally:
        user.run(REMOVED)


def inspect(stack: Stack) -> Inspection:
    """Ask the database."""
    sql = f"SELECT COUNT(*) FROM information_schema.processlist WHERE state = '{WAITING}'; {OLD}"
    waiting, old = map(int, stack["mysql"].must(f'mysql -BNe "{sql}"').split())
    return Inspection(waiting, old)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        steady("page without the orders: status", "revoked.status", exactly(403)).says(
            "A partner without a right is refused.", "Even a refusal does not come."
        ),
        share("pages that do not come", lambda now: 1 - now.arrived / PAGES, good=0, bad=40).says(
            "The page of a restaurant comes.", "Users wait for the page of a restaurant in vain."
        ),
        Measure("a new order on the wall", "follows", exactly(1), exactly(0)).says(
            "The number on the wall follows a new order.", "The number on the wall does not move."
        ),
        Measure("room for the next part of the release", "open", exactly(1), exactly(0)).says(
            "The release could go on.", "The release could not go on."
        ),
    ),
    evidence=(
        ends("sessions that wait for a metadata lock", "waiting", at_least(2)).seen(
            "db", "mysql -e 'SHOW PROCESSLIST'"
        ),
        ends("transactions that stay open after their statement", "old", at_least(1)).seen(
            "db", "mysql -e 'SELECT * FROM information_schema.innodb_trx\\G'"
        ),
    ),
    asks=(*booking()[:2], said("orders that were there before", KEPT)),
)
