"""deleted-log: nginx still has its deleted log open, and the log fills the disk of the uploads."""

import secrets
from dataclasses import dataclass

from faultlab.engine.shell import Shell
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
UPLOAD = f"""cd $(mktemp -d) && for n in $(seq {COUNT}); do
head -c $((n * 250000)) /dev/urandom >photo
curl -s -m 5 --data-binary @photo {PHOTO} | grep -qF "$(sha256sum <photo | cut -c1-64)" && echo kept
done; rm photo"""
EMPTY = f"head -c 3000000 /dev/zero | curl -sm 5 --data-binary @- {PHOTO}"
FOUND = "grep -rhoa --exclude='error.log*' /srv /var /tmp /home /root /opt -e "
LAST_MONTH = "[01/Nov/2026:"  # in each line of the old log, whatever its name is now
OLD = (
    "find / /srv/* /var/log/* -xdev -type f -name '*.gz' 2>/dev/null | sort -u | xargs -r -n 1"
    f""" sh -c 'zcat "$0" 2>/dev/null | grep -cF "{LAST_MONTH}"' | sort -n | tail -n 1"""
)


@dataclass(frozen=True)
class Look:
    """Photos of 0.25 to 3 MB, then visits that the request log must have, then the old log."""

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
    """Upload twelve photos, then visit the start page twelve times."""
    user, nginx = stack.user(), stack["nginx"]
    kept = user.run(UPLOAD, timeout=90).out.split().count("kept")
    start = curl.get(user, "http://web/")
    return Look(start, 1 - kept / COUNT, 1 - counted(user, nginx) / COUNT, old_lines(nginx))


def counted(user: Shell, nginx: Shell) -> int:
    """Return how many of twelve visits are in a file of nginx, after two seconds at most."""
    mark = f"visit-{secrets.token_hex(4)}-"
    user.run(f"curl -s -m 5 -o /dev/null 'http://web/?{mark}[1-{COUNT}]'", timeout=90)
    count = f"{FOUND}'?{mark}[0-9]*' | sort -u | wc -l"
    later = f"for i in 1 2 3 4; do [ $({count}) -lt {COUNT} ] || break; sleep 0.5; done; {count}"
    return int(nginx.run(later).out or 0)


def old_lines(nginx: Shell) -> int:
    """Return the lines in the log of last month, wherever it is now."""
    return int(nginx.run(OLD).out or 0)


def inspect(stack: Stack) -> Inspection:
    """Ask the disk, and the error log."""
    nginx = stack["nginx"]
    return Inspection(filesystem.read(nginx, DISK), log.count(nginx, log.NGINX_ERROR, "(28: No"))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        steady("start page: status", "start.status", exactly(200)).says(
            "The start page comes.", "The start page does not come."
        ),
        share("photos that are refused", "refused", good=0, bad=50).says(
            "Every photo arrives whole.", "Photos do not arrive."
        ),
        share("visits that are not counted", "uncounted", good=0, bad=50).says(
            "Every visit is counted.", "Visits are missing from the count."
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
