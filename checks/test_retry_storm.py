"""retry-storm: a page asks again and again, and the queue of a short pause never ends."""

from dataclasses import dataclass
from zlib import crc32

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least
from faultlab.lab.measures import grows, share
from faultlab.probes import log

PAGE = "http://app:8080/tables.jsp?restaurant="
COPY = "http://web/booking/copy.php"
RATE, SECONDS = 5, 18  # users a second, and for how long; after two seconds the book is copied
LATE = 12  # four seconds after the copy is done: who comes then must be served
USERS = RATE * SECONDS
# What the book says of each restaurant, as tables.php in compose.yaml makes it.
LISTS = " ".join(
    f"{crc32(b'tables %d' % n) % 12}-{crc32(b'list %d' % n):08x}" for n in range(1, USERS + 1)
)
ACCESS = "/var/log/nginx/access.log"
# Users who come at their times whatever happens to others, and leave after four seconds.
COME = f"""for i in $(seq 40); do curl -sfm 1 -o /tmp/page {PAGE}1 && break; sleep 1; done
(sleep 2; curl -s -o /tmp/copy -m 12 {COPY}) &
perl -MSocket -MIO::Select -MTime::HiRes=time -e '
my ($to, $at, $i, $served) = (pack_sockaddr_in(8080, inet_aton("app")), time, 0, 0);
my ($open, %user, %text) = IO::Select->new;
my @lists = map {{ s/-/ free tables, list /r }} qw(0 {LISTS});
while ($i < {USERS} || $open->count) {{
  while ($i < {USERS} && time > $at + $i / {RATE}) {{
    socket my $page, AF_INET, SOCK_STREAM, 0;
    connect $page, $to or die "connect: $!";
    syswrite $page, "GET /tables.jsp?restaurant=" . ++$i . " HTTP/1.0\\r\\n\\r\\n";
    $open->add($page);
    $text{{$page}} = "";  # a handle that is closed can come again
    $user{{$page}} = [$i, time + 4];
  }}
  for my $page ($open->can_read(0.01)) {{
    next if sysread $page, $text{{$page}}, 65536, length $text{{$page}};
    my $list = $lists[$user{{$page}}[0]];
    $served++ if $text{{$page}} =~ /^HTTP.1.1 200.*<p>$list</s && $user{{$page}}[0] > {LATE * RATE};
    $open->remove($page);
  }}
  $open->remove(grep {{ $user{{$_}}[1] < time }} $open->handles);
}}
print $served'; wait"""
FORTY = (
    "timeout 35 sh -c 'for i in $(seq {n} $(({n} + 39)));"
    f" do curl -sfm 5 {PAGE}$i || echo failed; done'"
)
# Four readers at a time: ten need three times 200 ms.
TEN = f"curl -s -o /dev/null -Z --parallel-immediate --parallel-max 10 -m 5 '{PAGE}[1-10]'"
SLOW = f"began=$(date +%s%N) && {TEN} 2>/dev/null; [ $(($(date +%s%N) - began)) -ge 500000000 ]"
# The copy takes 6 s. A reader who waits for four of them is kept out (28), and not just slow. So is
# the shop. Each twentieth reading fails at once (22), and the one after it does not.
COPIED = (
    f"curl -sfm 15 {COPY} >/tmp/copy & copy=$!; sleep 1;"
    f" curl -sfm 3 -o /dev/null '{PAGE}{{n}}' & shop=$!;"
    " for i in 1 2; do"
    " curl -sfm 4 -o /dev/null 'http://web/booking/tables.php?restaurant={n}'; code=$?;"
    " [ $code = 22 ] || break; done;"
    " [ $code = 28 ] && ! wait $shop && wait $copy && cat /tmp/copy"
)


@dataclass(frozen=True)
class Look:
    """Users who got the page, of those who came four seconds after the copy and later."""

    served: int


@dataclass(frozen=True)
class Inspection:
    """The calls that the reservation book got, and those that the shop gave up (499)."""

    calls: int
    given_up: int


def look(stack: Stack) -> Look:
    """Let users come steadily, and the book be copied once."""
    return Look(int(stack.user().run(COME, timeout=90).out.strip() or 0))


def inspect(stack: Stack) -> Inspection:
    """Read the log of nginx."""
    web = stack["web"]
    return Inspection(log.count(web, ACCESS, "tables.php"), log.count(web, ACCESS, " 499 "))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share(
            "users without the page",
            lambda now: 1 - now.served / (USERS - LATE * RATE),
            good=10,
            bad=50,
        ).says("Users get the page.", "Users wait for the page in vain."),
    ),
    evidence=(
        grows("calls for each page", lambda now: now.calls / USERS, at_least(3)).seen(
            "web", f"grep -c tables.php {ACCESS}"
        ),
        grows("calls that the shop gave up", "given_up", at_least(150)).seen(
            "web", f"grep -c ' 499 ' {ACCESS}"
        ),
    ),
    asks=(
        page(PAGE + "{n}", times=10),
        said("forty pages, one by one", FORTY, seconds=40),
        said("the book, for ten users at once", SLOW),
        said("the copy of the book", COPIED, seconds=20),
    ),
)
