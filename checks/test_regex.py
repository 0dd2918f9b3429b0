"""regex: a pattern of the filter tries each way to divide a text, and a limit lets it."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, steady
from faultlab.probes import curl, log

PAGE = "http://web/booking/message.php"
SHORT = "See+you+at+eight."
LONG = "We+were+six+at+the+round+table+by+the+window+from+19:30+on"
SLOW_LOG = "/var/log/php/slow.log"
MATCHES = "preg_match() /var/www/html/booking/"
# Plain texts are taken, also with quotes and brackets. Scripts are refused, wherever they are.
TEXTS = f"""say() {{
curl -s -m 5 -w '%{{http_code}}\\n' {PAGE} --data-urlencode "text=$1" || exit; }}
long=$(printf 'we liked it very much %.0s' {{1..90}})
say 'Table {{n}}.'; say '2+2=4 guests, from 19:30 on'; say "$long {{n}}"; say "$long: {{n}}"
say '<img onload="go({{n}})">'; say "$long <a href='go'>"; say "$long x: ("
say "$long x = \\"{{n}}"
say "x=('{{n}}'), or so it was said on the way home"; say "x=('go') $long {{n}}"
say "$long x=('{{n}}') $long"
say "$long it's {{n}}"; say "$long (all {{n}})"; say "$long \\"so good\\" {{n}}"
"""


@dataclass(frozen=True)
class Look:
    """Two messages of guests."""

    short: curl.Page
    long: curl.Page


@dataclass(frozen=True)
class Inspection:
    """The slow requests of PHP-FPM that were matching a pattern."""

    matches: int


def look(stack: Stack) -> Look:
    """Send a short message, then a longer one."""
    user = stack.user()
    return Look(
        curl.get(user, f"'{PAGE}?text={SHORT}'"), curl.get(user, f"'{PAGE}?text={LONG}'", 4)
    )


def inspect(stack: Stack) -> Inspection:
    """Count them in the log."""
    return Inspection(log.count(stack["web"], SLOW_LOG, MATCHES))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("time of a longer message", "long.total", at_most(1), at_least(2), "s").says(
            "A longer message is taken at once.", "A longer message takes seconds."
        ),
        steady("status of a short message", "short.status", exactly(200)).says(
            "A short message is taken.", "Even a short message is not taken."
        ),
        steady("time of a short message", "short.total", at_most(1), "s").says(
            "A short message is taken at once.", "Even a short message takes long."
        ),
    ),
    evidence=(
        grows("slow requests that match a pattern", "matches", at_least(1), "lines").seen(
            "web", f"grep -F '{MATCHES}' {SLOW_LOG}"
        ),
    ),
    asks=(said("what is taken, and what is refused", TEXTS, 20),),
)
