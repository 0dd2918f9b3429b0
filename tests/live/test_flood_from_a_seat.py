"""Floods from a seat: what a learner with NET_ADMIN and NET_RAW can make the host remember.

The host follows connections and learns addresses for all its users. A seat that fills these tables
would stop the host's own connections. Ada floods, Grace measures meanwhile.
"""

from __future__ import annotations

import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from faultlab.core import archive
from faultlab.run import rotation
from tests.live import classes
from tests.live.classes import Class

pytestmark = [pytest.mark.rotates(together=True, minutes=2), pytest.mark.alone]
NAME = "flood"
CLASS = """
title = "A class of two"
seats = ["Ada", "Grace"]
labs  = ["mtu"]
later = 0
"""
SECONDS = 20 if rotation.quick() else 300
GROWTH = 1000  # entries that each table of the host may have more
SLOWER = 1.3  # how much longer the check of another seat may take
PROOF = 20 * GROWTH  # a flood of fewer packets has tried nothing
COUNT = Path("/proc/sys/net/netfilter/nf_conntrack_count")

# Opens connections that no side ends for the host's eyes: the RST of a close never leaves.
# $ARGV: seconds, host. No connect waits, so that a full backlog of web does not slow it down.
CONNECTIONS = r"""
use Socket qw(:DEFAULT SOL_SOCKET SO_LINGER); use IO::Handle; use Time::HiRes "time";
my ($seconds, $host) = @ARGV;
my $to = sockaddr_in(80, inet_aton($host)); my ($n, @open); my $end = time + $seconds;
while (time < $end) {
  socket(my $s, PF_INET, SOCK_STREAM, 0) or next;
  setsockopt($s, SOL_SOCKET, SO_LINGER, pack("ii", 1, 0)); $s->blocking(0);
  connect($s, $to); $n++ if $!{EINPROGRESS}; push @open, $s;
  close(shift @open) if @open > 500;
}
print $n;
"""
# Sends frames with a source of its own each, to an address that is nowhere. $ARGV: seconds.
FRAMES = r"""
use Socket; use Time::HiRes "time"; my ($seconds) = @ARGV;
socket(my $s, 17, SOCK_RAW, 0x0300) or die "no raw socket: $!";
open(my $i, "<", "/sys/class/net/eth0/ifindex"); my $index = <$i>;
my $to = pack("SnlSCCa8", 17, 0x88b5, $index, 1, 0, 6, "\x02" x 6);
my $n; my $end = time + $seconds;
while (time < $end) {
  my $from = pack("C6", 2, map { int rand 256 } 1 .. 5);
  $n++ if send($s, "\x02" x 6 . $from . "\x88\xb5" . "\0" x 46, 0, $to);
}
print $n;
"""
SILENT = "iptables -I OUTPUT -p tcp --tcp-flags {flag} {flag} -j DROP"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Class]:
    """A class of two whose labs are up."""
    with classes.pair(tmp_path_factory.mktemp("project"), NAME, CLASS) as found:
        yield found


def connections() -> int:
    """Return how many connections the host follows."""
    return int(COUNT.read_text()) if COUNT.exists() else 0


def addresses() -> int:
    """Return how many addresses the bridges of the host have learned."""
    done = subprocess.run(["bridge", "fdb", "show"], capture_output=True, text=True, check=True)
    return len(done.stdout.splitlines())


@dataclass
class Most:
    """The most that a table has had while it was watched."""

    before: int
    most: int

    @property
    def grown(self) -> int:
        """Return by how many entries it has grown."""
        return self.most - self.before


@contextmanager
def watched(read: Callable[[], int]) -> Iterator[Most]:
    """Read a table of the host twice a second while the body runs."""
    found, over = Most(read(), 0), threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            found.most = max(found.most, read())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        found.most = max(found.most, read())


def check(pair: Class) -> float:
    """Return how many seconds Grace's check takes."""
    began = time.monotonic()
    answer = pair.press("Grace", "/seat/2/check")
    assert answer.is_success, answer.text
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("script", "read"),
    [(CONNECTIONS, connections), (FRAMES, addresses)],
    ids=["connections", "frames"],
)
def test_a_flood_fills_no_table_of_the_host(
    script: str, read: Callable[[], int], pair: Class
) -> None:
    """Connections that never end, frames from random addresses; another's check takes as long."""
    ada = pair.stack(1)
    client = ada["client"]
    for machine in (client, ada["web"]):
        for flag in ("FIN", "RST"):
            machine.must(SILENT.format(flag=flag))
    client.put("/tmp", archive.packed({"flood.pl": script.encode()}))
    calm = statistics.median(check(pair) for _ in range(5))
    with watched(read) as table:
        began, took = time.monotonic(), list[float]()
        client.must(f"(perl /tmp/flood.pl {SECONDS} web >/tmp/flood.n 2>&1) >/dev/null 2>&1 &")
        while time.monotonic() - began < SECONDS:
            took.append(check(pair))
        time.sleep(3)  # until the script has printed
    sent = client.must("cat /tmp/flood.n").strip()
    busy = statistics.median(took)
    print(
        f"{sent} sent in {SECONDS} s; the table of the host: {table.before}, at most {table.most};"
        f" Grace's check: {calm:.2f} s calm, {busy:.2f} s meanwhile (median of {len(took)})"
    )
    assert sent.isdigit() and int(sent) > PROOF, sent
    assert table.grown < GROWTH, table
    if busy > SLOWER * calm:
        # Not mended yet: 7.4 s became 14.8 s. A seat has no limit of CPU time by default, and on a
        # busy machine a check that would say no looks once more.
        pytest.xfail(f"the check of another seat took {busy:.1f} s, not {calm:.1f} s")


def test_the_tables_forget_the_seat(pair: Class) -> None:
    """What the floods above left there is little, and both labs are as they were."""
    assert connections() < GROWTH and pair.states() == ["red", "red"]
