"""metadata-lock: ALTER TABLE waits for an open transaction, and all pages wait behind it."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking, said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, exactly
from faultlab.lab.measures import ends, share, steady
from faultlab.probes import curl, mysql

PAGES = 4  # a worker of PHP waits on after its user has gone, and there are 24
SECONDS = 4  # that a user waits
PAGE = "http://web/booking/restaurant.php?restaurant={n}&date=2026-06-05&time=18:00&guests={guests}"
FREE = "curl -s -m {most} '{page}&token=token-01' | grep -c 'free tables for {guests}[.]'"
WAITING = "Waiting for table metadata lock"
KEPT = """timeout 5 mysql -hdb -ubooking -pbooking -NBe "SELECT COUNT(*), SUM(CRC32(CONCAT_WS(0,
table_id, dining_date, dining_time, guest_name))) FROM booking.orders WHERE id <= 52219" """
BOOK = "mysql -hdb -ubooking -pbooking -NB booking -e"
ITS = "guest_name = 'an order of the check'"
BOOKED = f"""{BOOK} "SET lock_wait_timeout = 5; DELETE FROM orders WHERE {ITS}; INSERT INTO orders
SET restaurant_id = 1, table_id = 1, token_id = 1, dining_date = '2040-01-01',
dining_time = '13:00', guests = 2, {ITS}; SELECT COUNT(*) FROM orders" """
REMOVED = f'{BOOK} "DELETE FROM orders WHERE {ITS}"'
BOARD = "cat {root}/srv/counter/board.txt"
# As the next change of the table needs it. A transaction of some milliseconds can be before it.
ALONE = 'mysql -e "SET lock_wait_timeout = 3; LOCK TABLE booking.orders WRITE"'
# A report of the office, with a pause in its transaction. It reads no orders.
REPORT = """{{ echo "START TRANSACTION; SELECT COUNT(*) FROM restaurants;"; sleep {pause:.1f}
echo "SELECT COUNT(*) FROM restaurants; COMMIT;"; }} |
mysql -hdb -ushop -pshop -BN --skip-reconnect booking"""
KILLED = "Com_kill"
# A transaction that is as old as its statement is only slow.
OLD = """SELECT COUNT(*) FROM information_schema.innodb_trx
JOIN information_schema.processlist ON id = trx_mysql_thread_id
WHERE TIMESTAMPDIFF(SECOND, trx_started, NOW()) >= time + 2"""


@dataclass(frozen=True)
class Look:
    """A page that needs no orders; then how many of the pages that need them came in time.

    `follows`: whether the number on the wall counts a new order within three seconds. `alone`:
    whether a session gets the orders for itself within three seconds; None in records from before
    it was tried. `cut`: sessions that were killed meanwhile, and reports that did not get through.
    """

    revoked: curl.Page
    arrived: int
    follows: bool
    alone: bool | None = None
    cut: int = 0

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

    At last root asks for the table, as the next part of the release does. Meanwhile the office
    makes a report in one transaction, which must not be cut off.
    """
    dice, db = stack.dice, stack.sidecar("mysql")
    guests = dice.randint(1, 8)
    page = PAGE.format(n=dice.randint(1, 50), guests=guests)
    free = FREE.format(most=SECONDS, page=page, guests=guests)
    report = REPORT.format(pause=dice.uniform(2.8, 3.6))
    killed = mysql.counters(db, [KILLED])[KILLED]
    with ThreadPoolExecutor(1) as office:
        made = office.submit(stack.user().run, report, 20)
        revoked = curl.get(stack.user(), f"'{page}&token=token-20'", SECONDS)
        command = f"for i in $(seq {PAGES}); do {free} & done; wait"
        arrived = stack.user().run(command, timeout=SECONDS + 20).out.split().count("1")
        moved = follows(stack)
        alone = db.run(ALONE, timeout=30).code == 0
        cut = int(made.result().out.split() != ["50", "50"])
    cut += mysql.counters(db, [KILLED])[KILLED] - killed
    return Look(revoked, arrived, moved, alone, cut)


def follows(stack: Stack) -> bool:
    """Return whether the number of orders on the wall follows a new one, which is then removed."""
    user, reports = stack.user(), stack.sidecar("reports")
    board = BOARD.format(root=reports.root)
    booked = user.run(BOOKED, timeout=20)
    if booked.code:
        return False
    until = time.monotonic() + 3
    try:
        while time.monotonic() < until:
            if reports.run(board).out.split()[:1] == booked.out.split():
                return True
            time.sleep(0.2)
        return False
    finally:
        user.run(REMOVED)


def inspect(stack: Stack) -> Inspection:
    """Ask the database."""
    sql = f"SELECT COUNT(*) FROM information_schema.processlist WHERE state = '{WAITING}'; {OLD}"
    waiting, old = map(int, stack.sidecar("mysql").must(f'mysql -BNe "{sql}"').split())
    return Inspection(waiting, old)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        steady("page without the orders: status", "revoked.status", exactly(403)).says(
            "A partner without a right is refused.",
            "A partner without a right does not get the refusal.",
        ),
        share("pages that do not come", lambda now: 1 - now.arrived / PAGES, good=0, bad=40).says(
            "The page of a restaurant comes.", "Some users do not get the page of a restaurant."
        ),
        Measure("a new order on the wall", "follows", exactly(1), exactly(0)).says(
            "The number on the wall follows a new order.", "The number on the wall does not move."
        ),
        Measure("room for the next part of the release", "open", exactly(1), exactly(0)).says(
            "The release could go on.", "The release could not go on."
        ),
        steady("programs that are cut off", "cut", exactly(0)).says(
            "Each program of the office gets to its end.",
            "Something cuts off the programs of the office.",
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
