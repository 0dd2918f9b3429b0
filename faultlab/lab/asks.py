"""Asks: requests that prove that the real service responds, not a replacement.

A fast response is no proof, because an error page is fast too. So each ask runs while the stack is
healthy and again after the fix, and the responses must be equal.
"""

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from faultlab.lab import browser

FAILED = "failed"  # the first word of a response that failed
RIGHT = ": right answers"  # the end of the name of the finding
SETS = 3  # sets of numbers of each ask; a look draws one of them
GRACE = 15  # seconds that an ask may take beyond its time; then it has failed
_SET = ", set "
# So long a header makes `GET /` fill one segment of 256 bytes, the smallest that Linux announces.
_SMALLEST_FULL = 210
# Its free tables on a day in the past, for which no load books any more.
_RESTAURANT = (
    "http://web/booking/restaurant.php"
    "?token=token-01&restaurant={n}&date=2026-05-05&time=18:00&guests=2"
)
_DAYS = "http://web/booking/restaurant.php?token=token-01&restaurant=1&time=25:00&guests=2&date"
# A table, day and sitting for each hundredth of a second, 47 seconds long, after the days for which
# the loads book: sets of a look can draw the same restaurant. The table is free at first and taken
# then, on the page too, and an hour later it is still taken. A partner without a token and a party
# that is too large are refused.
_ORDERS = """n=$(date +%s%2N)
table=$((n % 30 + 1)) hour=$((12 + n / 30 % 2 * 6 + n / 60 % 2 * 2))
day=$(date -d "$((1461 + n / 120 % 39)) days" +%F)
site=http://web/booking at="restaurant={n}&date=$day&time"
order() { curl -s -m 5 -w "%{http_code}\\n" $site/order.php \\
-d "name=Ada&table=$table&$at=$1:00&token=token-$2"; }
free() { page=$(curl -s -m 5 "$site/restaurant.php?token=token-01&guests=2&$at=$hour:00") \\
&& grep -c "Table $table," <<<"$page"; }
{ free && for who in "01&guests=2" "02&guests=2" "20&guests=2" "01&guests=9"; do
order $hour "$who" || exit
done && order $((hour + 1)) "02&guests=2" && ! free; } | sed -E "s/.(order|table|until).:[^,]*//g"
"""
# Two baskets agree in one of 256 pages by chance; a basket agrees with itself in all of them. With
# no other basket none agrees.
_OTHERS = """n() { curl -sm 10 "{url}?kb=400&others=$1" | \
grep -oE 'and [0-9]+ articles' |
cut -d ' ' -f 2; }; [ "$(n 0)" = 0 ] && [ "$(n 100)" -ge 10 ]"""
# How the two asks below type SQL.
_BOOK = 'book() { mysql -hdb -ubooking -pbooking booking -e "$1"; }\n'
# A new partner may see a page, then may not, then may again.
_REVOKED = """trap "book 'DELETE FROM tokens WHERE id = 99'" EXIT
for revoked in 0 1 0; do
book "REPLACE INTO tokens VALUES (99, 'token-99', 'Partner 99', 8, $revoked)" || exit
curl -s -m 5 -o /dev/null -w "%{http_code}\\n" "http://web/booking/restaurant.php\\
?token=token-99&restaurant={n}&date=2026-05-05&time=18:00&guests=2"; done
"""
_KEPT = """mysql -hdb -ubooking -pbooking -NBe "SELECT COUNT(*), SUM(CRC32(CONCAT_WS(0, table_id,
dining_date, dining_time, guest_name))) FROM booking.orders WHERE id <= 52219" """

# An order is entered, moved to the month and cancelled. The page must follow each time, within the
# ten seconds of the ticket and a few more. A restaurant has 80 to 180 guests in each month, so the
# order puts it first. Of another month no user sees the page meanwhile. If the first page was not
# followed at once, three users come to the other one after ten seconds, and none may see an old
# list. At the end, and before, orders that are left are moved back and removed. A page that is kept
# can still have orders of the ask or the load before, so it begins when the page is as the book.
_NEW_ORDER = """url='http://app:8080/popular.jsp?month=' n=$(({n})) m=$(({n} % 12 + 1))
other=$((({n} + 5) % 12 + 1)) day=2027-$((m % 12 + 1))-15 who="guest_name = 'an order of the check'"
its="INSERT INTO orders SET restaurant_id = $((n % 50 + 1)), table_id = $((n % 50 * 30 + 1)),
token_id = 1, dining_time = '13:00', $who"
tidy() { book "UPDATE orders SET dining_date = '$day', guests = 70 WHERE $who;
DELETE FROM orders WHERE $who"; }
show() { page=$(curl -sfm 5 "$url$m") && top=${page%%</table>*} cities=${page#*</table>}; }
wait_for() { until show && "$@"; do [ $SECONDS -lt $end ] || exit 1; sleep 0.2; done; }
guests() { grep -oE '>[0-9]+<' <<<"$cities" | tr -d '<>' | awk '{ s += $1 } END { print s }'; }
current() { [ "$(guests)" = \
"$(book "SELECT SUM(guests) FROM orders WHERE MONTH(dining_date) = $m" | tail -n 1)" ]; }
changed() { [ "$top" != "$top_before" ] && [ "$cities" != "$cities_before" ]; }
as_before() { [ "$page" = "$before" ]; }
new_to_all() {
  at=$(mktemp -d)
  curl -sfZm 8 --parallel-immediate -o "$at/#1" "$url$1&visit=[1-3]" 2>/dev/null
  for i in 1 2 3; do grep -q "</table>" $at/$i && [ "$(cat $at/$i)" != "$2" ] || return 1; done
}
trap tidy EXIT
end=$((SECONDS + 14))
tidy && wait_for current && quiet=$(curl -sfm 5 "$url$other") || exit
before=$page top_before=$top cities_before=$cities since=$SECONDS end=$((SECONDS + 14))
book "$its, dining_date = '2027-$other-15', guests = 121; $its, dining_date = '$day', guests = 70;
UPDATE orders SET dining_date = '2027-$m-15', guests = 120 WHERE $who AND guests = 70" || exit
until=$SECONDS
new_to_all $m "$before" || until=$((since + 11))
wait_for changed
echo "$page"
book "DELETE FROM orders WHERE $who AND guests = 120" || exit
end=$((SECONDS + 14))
wait_for as_before
while [ $SECONDS -lt $until ]; do sleep 0.2; done
new_to_all $other "$quiet"
"""


@dataclass(frozen=True)
class Ask:
    """A request to the service: a command on a user's machine that prints one line a response.

    `command` makes it from `count` numbers between 1 and `most`, which differ in each run. `at`:
    the machine whose users ask; empty for the client. `url`: its page, with 1 for each number;
    empty if it is no page.
    """

    name: str
    command: Callable[[Sequence[int]], str]
    count: int = 1
    most: int = 1_000_000
    seconds: float = 10
    at: str = ""
    url: str = ""

    def named(self, number: int) -> str:
        """Return the name under which its answers to a set of numbers are kept."""
        return f"{self.name}{_SET}{number}" if number else self.name

    @property
    def sets(self) -> Sequence[int]:
        """Return the sets of numbers that it has; one if there are no numbers in it."""
        one, other = (self.command([n] * self.count) for n in (1, 2))
        return range(1 if one == other else SETS)


def bare(name: str) -> str:
    """Return the name of the ask from the name of a set of its answers."""
    return name.partition(_SET)[0]


def page(
    url: str,
    *,
    times: int = 20,
    most: int = 1_000_000,
    changes: str = "",
    seconds: float = 3,
    at: str = "",
) -> Ask:
    """Return the ask for a page, `times` at once. `{n}` in `url` is a number.

    `changes`: a regular expression (sed -E) for the text that differs in each response. With half
    of the packets lost, twenty pages do not all arrive within three seconds.
    """

    def command(numbers: Sequence[int]) -> str:
        asked = "next\n".join(
            f'url = "{url.replace("{n}", str(n))}"\noutput = "{i}"\nmax-time = {seconds:g}\n'
            f'write-out = "%{{filename_effective}} %{{http_code}} %{{exitcode}}\\n"\n'
            f"{_headers(i, numbers)}"
            for i, n in enumerate(numbers)
        )
        mask = shlex.quote(f"s#{changes}##g" if changes else "")
        return (
            f"cd $(mktemp -d) && curl -qs --parallel --parallel-immediate --parallel-max {times}"
            " -K - <<'_end_' | sort -n |"
            " while read -r i code end; do if [ \"$code $end\" = '200 0' ];"
            f" then sed -E {mask} $i | sha256sum | cut -c1-16; else echo {FAILED} $code $end; fi;"
            f" done\n{asked}_end_\n"
        )

    name = url.split("?", maxsplit=1)[0] + (f" from {at}" if at else "")
    return Ask(name, command, times, most, seconds, at, url.replace("{n}", "1"))


def limits(asks: Iterable[Ask]) -> dict[str, float]:
    """Return the pages of the users of client, and the seconds in which each must come whole."""
    found: dict[str, float] = {}
    for ask in asks:
        if ask.url and not ask.at:
            found[ask.url] = max(ask.seconds, found.get(ask.url, 0.0))
    return found


def php() -> tuple[Ask, ...]:
    """Return the asks for PHP's page from many users, the time that it shows, and its calendar.

    PHP tells which of ten years have a 29 February, and then that no sitting begins at 25:00.
    """
    url = "http://web/index.php"
    shown = f"curl -s -m 5 {url} | sed -nE 's/.*made by PHP at (.*)[.]<.*/\\1/p'"
    age = f'echo $(($(date +%s) - $(date -d "$({shown})" +%s)))'
    days = 'n=$((1000 + {n})); curl -s -m 5 "' + _DAYS + '=[$n-$((n + 9))]-02-29"'
    return (
        page(url, times=120, changes="made by PHP at .*", seconds=10),
        said("the page is of now", f"{age} | grep -cE '^-?[0-9]$'"),
        said("the days of a year", days, most=8000),
    )


def tables(url: str = "http://web/availability.php") -> tuple[Ask, ...]:
    """Return the asks for free tables: the responses must change as the reservation book does.

    The service can cache a response for a second. It asks each restaurant for 50 ms, one by one.
    Two numbers of tables can be equal by chance, so the bare page has some seconds to change.
    """
    ten = f"curl -sfm 5 '{url}?guest=[1-10]'"
    bare = f"curl -sfm 5 '{url}'"
    spent = f"curl -sfm 5 -o /dev/null -w '%{{time_total}}' '{url}?restaurants=20'"
    book = f"""took() {{ [ $(($(date +%s%N) - start)) -ge $1 ]; }}
now=$({ten}) && sleep 2.1 && start=$(date +%s%N) && later=$({ten}) && took 500000000 || exit
[ "$now" != "$later" ] && now=$({bare}) || exit
end=$((SECONDS + 9))
until start=$(date +%s%N) && later=$({bare}) && [ "$now" != "$later" ]; do
[ $SECONDS -lt $end ] || exit
sleep 0.1
done
took 50000000 && {spent} | awk '{{ exit $1 < 1 }}'
"""
    return (
        page(f"{url}?restaurants=2", times=40, changes='"tables":[0-9]+'),
        said("the reservation book", book),
    )


def basket(port: int = 8080) -> tuple[Ask, ...]:
    """Return the asks for baskets, and for what other users bought with an article."""
    url = f"http://app:{port}/basket.jsp"
    return (
        page(f"{url}?kb={{n}}", times=5, most=200, changes="and [0-9]+ articles", seconds=10),
        said(f"{url}: what others also bought", _OTHERS.replace("{url}", url)),
    )


def clicks() -> Ask:
    """Return the ask for 3,000 pages, one by one over one connection, and if over five are late.

    One page that fits in one packet can be lucky. Each lost packet takes 0.2 s or more. If 0.5% are
    lost one way, 15 of the pages are late. On a slow machine fewer come in eight seconds.
    """
    return said(
        "three thousand clicks",
        "{ timeout 8 curl -so /dev/null -w '%{stderr}%{http_code} %{time_total}\\n'"
        " 'http://web/#[1-3000]' || [ $? = 124 ]; } 2>&1 |"
        " awk '{ codes[$1]; pages++; late += $2 > 0.15 }"
        " END { for (code in codes) print code; print (pages < 300), (late > 5) }'",
    )


def _headers(number: int, numbers: Sequence[int]) -> str:
    """Return headers of a drawn size for a tiny packet, or the headers of a browser.

    If the sender's kernel still fragments a packet, it passes even where the MTU is too small.
    """
    if number < len(numbers) / 2:
        drawn = numbers[number] % 24
        size = 24 * (number % 9) + drawn if number % 10 < 9 else _SMALLEST_FULL
        return f'user-agent = ""\nheader = "Accept:"\nheader = "X: {"x" * size}"\n'
    cookie = "0123456789abcdef" * 36
    return f'compressed\n{browser.config(numbers[0])}header = "Cookie: visitor={cookie}"\n'


def said(name: str, command: str, seconds: float = 10, most: int = 1_000_000) -> Ask:
    """Return the ask for a digest of a command's output; `{n}` in the command is a number.

    One that does not end has failed: its users wait for the service, and for nothing of ours.
    """
    quoted = shlex.quote(f"set -o pipefail; ({command}) | sha256sum | cut -c1-16")

    def typed(numbers: Sequence[int]) -> str:
        command = quoted.replace("{n}", str(numbers[0]))
        return f"timeout {seconds + GRACE:g} bash -c {command} || echo {FAILED}"

    return Ask(name, typed, most=most, seconds=seconds)


def booking(seconds: float = 10) -> tuple[Ask, ...]:
    """Return the asks for the booking service: its pages, its rules, and orders of long ago."""
    return (
        page(_RESTAURANT, times=4, most=50, seconds=seconds),
        said("orders, and what is refused", _ORDERS, 20, most=50),
        said("orders that were there before", _KEPT),
        # A database that looks up names takes ten seconds for each of four unknown addresses.
        said("a partner whose right ends", _BOOK + _REVOKED, seconds=40, most=50),
    )


def new_order() -> Ask:
    """Return the ask for the page of popular restaurants, which must follow a new order."""
    return said("the page after a new order", _BOOK + _NEW_ORDER, seconds=60, most=600)
