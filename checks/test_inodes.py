"""inodes: each visit leaves a session file, and the disk has no inode for another one."""

import secrets
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, php
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import ends, failing, grows, share, steady
from faultlab.probes import filesystem, log

DISK = "/srv/php"
VISITS = 600  # more than the disk has inodes
NEW = 12
OLD = range(10, 30)  # the customers who are there from the start
# The start page, and then a page of the booking service that says what it lacks. It begins no
# session by itself, and it does not ask the database.
READ = f"""for page in index.php booking/restaurant.php; do
curl -s -m 5 -o /dev/null -w "$page %{{http_code}}\\n" "http://web/$page?visit=[1-{VISITS}]"
done"""
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
    """Shares, 0 to 1: visits of readers that fail, then baskets that lose their dish."""

    failed: float
    new: float
    old: float


@dataclass(frozen=True)
class Inspection:
    """The disk of the sessions, and the sessions that PHP could not open."""

    disk: filesystem.Filesystem
    refused: int


def look(stack: Stack) -> Look:
    """Six hundred visitors read each of two pages, and twelve of the next ones choose a dish."""
    user = stack.user()
    lines = user.run(READ, timeout=90).out.splitlines()
    visits = lines.count("index.php 200") + lines.count("booking/restaurant.php 400")
    dish = f"dish-{secrets.token_hex(4)}"
    new = user.run(CHOOSE.replace("DISH", dish), timeout=90).out.split().count("kept")
    old = user.run(RETURN, timeout=90).out.split().count("kept")
    return Look(1 - visits / (2 * VISITS), 1 - new / NEW, 1 - old / len(OLD))


def inspect(stack: Stack) -> Inspection:
    """Ask the disk, and the error log of nginx, which has what PHP says."""
    disk = filesystem.read(stack["php-fpm"], DISK)
    return Inspection(disk, log.count(stack["web"], log.NGINX_ERROR, NO_SPACE))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        failing("visits", "failed").says("The start page comes.", "The start page fails."),
        share("new baskets that lose their dish", "new", good=0, bad=50).says(
            "A dish stays in a new basket.", "A dish does not stay in a new basket."
        ),
        steady("baskets of earlier customers that are empty", "old", at_most(0)).says(
            "Earlier customers still have their dishes.",
            "Earlier customers have lost their dishes.",
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
