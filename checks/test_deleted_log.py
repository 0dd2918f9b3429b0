"""deleted-log: nginx still has its deleted log open, and the log fills the disk of the uploads."""

from dataclasses import dataclass
from random import Random

from faultlab.engine.sidecar import Sidecar
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, exactly
from faultlab.lab.measures import ends, share, steady
from faultlab.probes import curl, filesystem, log

DISK = "/srv/nginx"
PHOTO = "http://web/booking/photo.php"
COUNT = 12
LINES = 120_000  # of the old log
# Each photo has bytes of its own, so no stored response fits. The digest in it must be theirs.
UPLOAD = f"""cd $(mktemp -d) && for size in {{}}; do
head -c $size /dev/urandom >photo
curl -s -m 5 --data-binary @photo {PHOTO} | grep -qF "$(sha256sum <photo | cut -c1-64)" && echo kept
done; rm photo"""
EMPTY = f"head -c 3000000 /dev/zero | curl -sm 5 --data-binary @- {PHOTO}"
SIZES = (200_000, 7_500_000)  # bytes; nginx takes eight million, and the disk has sixteen
# A log that is still open and that no folder leads to: then what is written is lost.
LOST = "find /proc/{}/fd -lname '/* (deleted)' ! -lname '/dev/*' ! -lname '*error*' | grep -q ."
# All files of nginx, wherever they are.
EVERY = "cd {0} && find . '(' -path ./proc -o -path ./sys -o -path ./dev ')' -prune -o -type f"
# The lines with a mark in those that were written in the last minute.
FOUND = f"""{EVERY} -mmin -1 ! -name 'error.log*' -exec grep -hoa -e '{{1}}[0-9]*' {{{{}}}} + |
sort -u | wc -l"""
SECONDS = 7  # that a line can take to be written
PAGES = ("/", "/index.html", "/index.php", "/booking/photo.php")
WORDS = ("page", "from", "n", "id", "q", "ref")
LAST_MONTH = "[01/Nov/2026:"  # in each line of the old log, whatever its name is now
OLD = f"""{EVERY} -name '*.gz' -size +49k -print | xargs -r -n 1 \\
sh -c 'zcat "$0" | grep -cF "{LAST_MONTH}"' | sort -n | tail -n 1"""


@dataclass(frozen=True)
class Look:
    """Photos of 0.2 to 7.5 MB, then visits that the request log must have, then the old log."""

    start: curl.Page
    refused: float
    uncounted: float
    old: int


@dataclass(frozen=True)
class Inspection:
    """The disk of nginx, and how often it said in its error log that the disk is full."""

    disk: filesystem.Filesystem
    full: int


def look(stack: Stack) -> Look:
    """Upload twelve photos, then visit a page twelve times."""
    user, nginx = stack.user(), stack.sidecar("nginx")
    kept = user.run(UPLOAD.format(sizes(stack.dice)), timeout=90).out.split().count("kept")
    start = curl.get(user, "http://web/")
    return Look(start, 1 - kept / COUNT, 1 - counted(stack, nginx) / COUNT, old_lines(nginx))


def sizes(dice: Random) -> str:
    """Return the bytes of the photos: many small ones, and at least one that is large."""
    least, most = SIZES
    small = [round(least * (most / least) ** dice.random()) for _ in range(COUNT - 1)]
    return " ".join(map(str, [*small, dice.randint(most // 2, most)]))


def counted(stack: Stack, nginx: Sidecar) -> int:
    """Return how many of twelve visits are in a file of nginx, after some seconds at most.

    While the server writes into a file that no folder leads to, none of them is.
    """
    dice = stack.dice
    mark = f"{dice.choice(WORDS)}={dice.getrandbits(40):010x}-"
    url = f"http://web{dice.choice(PAGES)}?{mark}"
    stack.user().run(f"curl -s -m 5 -o /dev/null '{url}[1-{COUNT}]'", timeout=90)
    if nginx.run(LOST.format(nginx.pid)).code == 0:
        return 0
    count = FOUND.format(nginx.root, mark)
    tries = f"for i in $(seq {2 * SECONDS}); do"
    later = f"{tries} [ $({count}) -lt {COUNT} ] || break; sleep 0.5; done; {count}"
    return int(nginx.run(later).out or 0)


def old_lines(nginx: Sidecar) -> int:
    """Return the lines in the log of last month, wherever it is now."""
    return int(nginx.run(OLD.format(nginx.root)).out or 0)


def inspect(stack: Stack) -> Inspection:
    """Ask the disk, and the error log."""
    nginx = stack.sidecar("nginx")
    return Inspection(filesystem.read(nginx, DISK), log.count(nginx, log.NGINX_ERROR, "(28: No"))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        steady("start page: status", "start.status", exactly(200)).says(
            "The start page comes.", "The start page does not come."
        ),
        share("photos that are refused", "refused", good=0, bad=50).says(
            "Every photo arrives whole.", "Some photos do not arrive whole."
        ),
        share("visits that are not counted", "uncounted", good=0, bad=50).says(
            "Every visit is counted.", "Some visits are missing from the count."
        ),
        steady("requests of last month", "old", exactly(LINES)).says(
            "The count of last month is still there.", "The count of last month is gone."
        ),
    ),
    evidence=(
        ends(
            "in use on the disk, and in none of its folders", "disk.unnamed", at_least(8192), "kB"
        ).seen("nginx", f"df -k {DISK}; du -sk {DISK}"),
    ),
    asks=(page("http://web/"), said("a photo", EMPTY)),
)
