"""retry-storm: a page asks again and again, and the queue of a short pause never ends."""

from dataclasses import dataclass
from zlib import crc32

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least
from faultlab.lab.measures import grows, share, steady
from faultlab.probes import log

PAGE = "http://app:8080/tables.jsp?restaurant="
COPY = "http://web/booking/copy.php"
RATE, SECONDS = 5, 18  # users a second, and for how long
BEGINS = (1.5, 3)  # seconds until the book is copied, for six seconds
LATE = 10  # seconds after that: four seconds after the copy all who come must be served
USERS = RATE * SECONDS
RESTAURANTS = 900_000_000
READINGS = "cat {}/tmp/readings 2>/dev/null || echo 0"  # that the book has counted
ACCESS = "/var/log/nginx/access.log"
# Users who come at their times whatever happens to others, and leave after four seconds. Prints the
# numbers of those who got the page, with the list of their restaurant.
COME = r"""perl -MSocket -MIO::Select -MTime::HiRes=time -e '
my ($rate, $first, @lists) = @ARGV;
my ($to, $at, $i, $open) = (pack_sockaddr_in(8080, inet_aton("app")), time, 0, IO::Select->new);
my (%user, %text);
s/-/ free tables, list / for @lists;
while ($i < @lists || $open->count) {
  while ($i < @lists && time > $at + $i / $rate) {
    socket my $page, AF_INET, SOCK_STREAM, 0;
    connect $page, $to or die "connect: $!";
    syswrite $page, "GET /tables.jsp?restaurant=" . ($first + $i) . " HTTP/1.0\r\n\r\n";
    $open->add($page);
    $text{$page} = "";  # a handle that is closed can come again
    $user{$page} = [$i++, time + 4];
  }
  for my $page ($open->can_read(0.01)) {
    next if sysread $page, $text{$page}, 65536, length $text{$page};
    my $list = $lists[$user{$page}[0]];
    print "$user{$page}[0]\n" if $text{$page} =~ /^HTTP.1.1 200.*<p>$list</s;
    $open->remove($page);
  }
  $open->remove(grep { $user{$_}[1] < time } $open->handles);
}' """
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
    """Users who got the page, of the `late` ones who came four seconds after the copy and later.

    `readings`: what the book has read, for each page that any user got.
    """

    served: int
    late: int = 30
    readings: float = 1.0


@dataclass(frozen=True)
class Inspection:
    """The calls that the reservation book got, and those that the shop gave up (499)."""

    calls: int
    given_up: int


def look(stack: Stack) -> Look:
    """Let users come steadily, and the book be copied once."""
    user, dice = stack.user(), stack.dice
    first, begins = dice.randint(1, RESTAURANTS), dice.uniform(*BEGINS)
    copied = f"(sleep {begins:.2f}; curl -s -o /tmp/copy -m 12 {COPY}) &"
    user.run(f"for i in $(seq 40); do curl -sfm 1 -o /tmp/page {PAGE}1 && break; sleep 1; done", 60)
    before = _readings(stack)
    lists = " ".join(map(_list, range(first, first + USERS)))
    came = user.run(f"{copied} {COME} {RATE} {first} {lists}; wait", timeout=90)
    served = [int(number) / RATE for number in came.out.split()]
    late = [second / RATE for second in range(USERS) if second / RATE >= begins + LATE]
    read = _readings(stack) - before
    return Look(sum(s in late for s in served), len(late), read / max(1, len(served)))


def _list(restaurant: int) -> str:
    """Return what the book says of a restaurant, as tables.php in compose.yaml makes it."""
    free = crc32(b"tables %d" % restaurant) % 12
    return f"{free}-{crc32(b'list %d' % restaurant):08x}"


def _readings(stack: Stack) -> int:
    book = stack.sidecar("php-fpm")
    return int(book.must(READINGS.format(book.root)))


def inspect(stack: Stack) -> Inspection:
    """Read the log of nginx."""
    web = stack.sidecar("web")
    return Inspection(log.count(web, ACCESS, "tables.php"), log.count(web, ACCESS, " 499 "))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share(
            "users without the page",
            lambda now: 1 - now.served / now.late,
            good=10,
            bad=50,
        ).says("Users get the page.", "Some users do not get the page."),
        steady("readings of the book for each page", "readings", at_least(1)).says(
            "The pages come from the book.", "Some pages do not come from the book."
        ),
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
