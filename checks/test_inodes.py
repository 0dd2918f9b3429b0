"""inodes: each visit leaves a session file, and the disk has no inode for another one."""

from dataclasses import dataclass

from faultlab.core.command import meanwhile
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, php
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import ends, failing, grows, share, steady
from faultlab.probes import filesystem, log

DISK = "/srv/php"
VISITS = 400  # of each page; those of two are more than the disk has inodes
PAGES = {"index.php": 200, "booking/restaurant.php": 400, "booking/order.php": 405}
NEW = 12
OLD = range(10, 30)  # the customers who are there from the start
# The start page, and pages of the booking service that say what they lack. They begin no session
# by themselves, and they do not ask the database.
READ = f"""for page in {{}}; do
curl -s -m 5 -o /dev/null -w "$page %{{{{http_code}}}}\\n" "http://web/$page?{{}}=[1-{VISITS}]"
done"""
# How many inodes of the disk were taken at most while visitors read. A larger disk has room.
WATCH = """python3 - <<'_end_'
import os, time
def used():
    disk = os.statvfs("{folder}")
    return disk.f_files - disk.f_ffree if disk.f_files < 50_000 else 0
end = time.monotonic() + 90
first = most = used()
while time.monotonic() < end and not os.path.exists("{stop}"):
    most = max(most, used())
    time.sleep(0.004)
print(most - first)
_end_"""
STOP = "/tmp/visits-are-over"
FEW = 12  # sessions that are there for the moment of a visit
# These customers were last here twenty minutes ago.
PAUSE = "cd {}/srv/php/sessions && touch -c -d '20 minutes ago' {}"
BASKET = "http://web/booking/basket.php"
# Each chooses a dish, and then asks what is in the basket.
CHOOSE = f"""cd $(mktemp -d) && for n in $(seq {NEW}); do
curl -s -m 5 -o /dev/null -c jar '{BASKET}?dish=DISH-'$n
curl -s -m 5 -b jar {BASKET} | grep -qxF -- '- DISH-'$n && echo kept; rm -f jar
done"""
RETURN = f"""for n in $(seq {OLD[0]} {OLD[-1]}); do
curl -s -m 5 -b PHPSESSID=customer$n {BASKET} | grep -qxF -- "- soup-$n" && echo kept; done"""
NO_SPACE = "No space left on device (28)"


@dataclass(frozen=True)
class Look:
    """Shares, 0 to 1: visits of readers that fail, then baskets that lose their dish.

    `taken`: the inodes that these visits took at a time.
    """

    failed: float
    new: float
    old: float
    taken: int = 0


@dataclass(frozen=True)
class Inspection:
    """The disk of the sessions, and the sessions that PHP could not open."""

    disk: filesystem.Filesystem
    refused: int


def look(stack: Stack) -> Look:
    """Four hundred visitors read each of three pages, and twelve of the next ones choose a dish.

    Meanwhile some of the earlier customers have a pause, as long as the ticket promises.
    """
    user, dice, server = stack.user(), stack.dice, stack.sidecar("php-fpm")
    some = " ".join(f"sess_customer{number}" for number in dice.sample(OLD, 4))
    server.run(PAUSE.format(server.root, some))
    lines, taken = visit(stack)
    visits = sum(lines.count(f"{page} {code}") for page, code in PAGES.items())
    dish = f"dish-{dice.getrandbits(32):08x}"
    new = user.run(CHOOSE.replace("DISH", dish), timeout=90).out.split().count("kept")
    old = user.run(RETURN, timeout=90).out.split().count("kept")
    failed = 1 - visits / (len(PAGES) * VISITS)
    return Look(failed, 1 - new / NEW, 1 - old / len(OLD), taken)


def visit(stack: Stack) -> tuple[list[str], int]:
    """Let visitors read; return the responses, and how many inodes they took at a time."""
    server, found = stack.sidecar("php-fpm"), list[int]()
    watch = WATCH.format(folder=server.root + DISK, stop=STOP)
    server.must(f"rm -f {STOP}")
    word = stack.dice.choice(("visit", "page", "from", "id", "q"))
    with meanwhile(lambda: found.append(int(server.must(watch, timeout=100)))):
        pages = " ".join(stack.dice.sample([*PAGES], len(PAGES)))
        try:
            lines = stack.user().run(READ.format(pages, word), timeout=90).out.splitlines()
        finally:
            server.must(f"touch {STOP}")
    return lines, found[0]


def inspect(stack: Stack) -> Inspection:
    """Ask the disk, and the error log of nginx, which has what PHP says."""
    disk = filesystem.read(stack.sidecar("php-fpm"), DISK)
    return Inspection(disk, log.count(stack.sidecar("web"), log.NGINX_ERROR, NO_SPACE))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        failing("visits", "failed").says("The start page comes.", "The start page fails for some."),
        steady("files that readers leave on the disk", "taken", at_most(FEW)).says(
            "While people only read, no more room is taken.", "People who only read take up room."
        ),
        share("new baskets that lose their dish", "new", good=0, bad=50).says(
            "A dish stays in a new basket.", "Some dishes do not stay in a new basket."
        ),
        steady("baskets of earlier customers that are empty", "old", at_most(0)).says(
            "Earlier customers still have their dishes.",
            "Some earlier customers have lost their dishes.",
        ),
    ),
    evidence=(
        ends("inodes in use on the disk", "disk.inodes_used_percent", at_least(98), "%").seen(
            "php-fpm", f"df -i {DISK}"
        ),
        grows("sessions that PHP could not open", "refused", at_least(10)).seen(
            "web", f"grep -c '{NO_SPACE}' {log.NGINX_ERROR}"
        ),
    ),
    asks=(*php(), page(BASKET, times=4)),  # each leaves a session
)
