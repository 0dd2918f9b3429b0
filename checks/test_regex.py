"""regex: a pattern of the filter tries each way to divide a text, and a limit lets it."""

from dataclasses import dataclass

from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.lab.asks import said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, steady
from faultlab.probes import curl, log

PAGE = "http://web/booking/message.php"
SLOW_LOG = "/var/log/php/slow.log"
MATCHES = "preg_match() /var/www/html/booking/"
WORDS = ["were", "round", "table", "window", "dinner", "quiet", "again", "with", "friends"]
LONGEST = 1800  # letters
# Plain texts of every length are taken, also with quotes and brackets. Scripts are refused,
# wherever they are.
TEXTS = f"""say() {{
curl -s -m 5 -w '%{{http_code}}\\n' {PAGE} --data-urlencode "text=$1" || exit; }}
text() {{ long=$(printf 'we liked it very much %.0s' $(seq $1)); }}
n={{n}}; say "Table $n."; say '2+2=4 guests, from 19:30 on'
text $((n % 3 + 3)); say "$long at 8 o'clock"; text $((n % 5 + 7)); say "$long $n: it's $n"
text $((n % 19 + 14)); say "$long $n"; text $((n % 37 + 34)); say "$long: $n"
text $((n % 11 + 76)); say "$long $n"; say "$long: $n"
say "<img onload=\\"go($n)\\">"; say "$long <a href='go'>"; say "$long x: ("
text $((n % 61 + 4)); say "$long x = \\"$n"; say "$n $long x = ('$n') $long"
say "x=('$n'), or so it was said on the way home"; say "x=('go') $long $n"
say "$long it's $n"; say "$long (all $n)"; say "$long \\"so good\\" $n"
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
    """Send a short message as the form does, then a longer one, both of words that are drawn.

    A time of day is in the longer one, behind many words.
    """
    user, dice = stack.user(), stack.dice
    letters = dice.randint(*dice.choice(((60, 90), (100, 400), (400, LONGEST))))
    words = list[str]()
    while len(" ".join(words)) < letters:
        words.append(dice.choice(WORDS))
    time = f"{dice.randint(10, 22)}:{dice.randint(10, 59)}"
    words.insert(dice.randint(min(10, len(words)), len(words)), time)
    short = " ".join(dice.sample(WORDS, 2))
    return Look(_sent(user, f"{short.capitalize()}.", 3), _sent(user, " ".join(words), 4))


def _sent(user: Shell, text: str, seconds: float) -> curl.Page:
    return curl.get(user, f"{PAGE} --data-urlencode 'text={text}'", seconds)


def inspect(stack: Stack) -> Inspection:
    """Count them in the log."""
    return Inspection(log.count(stack.sidecar("web"), SLOW_LOG, MATCHES))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("time of a longer message", "long.total", at_most(1), at_least(2), "s").says(
            "A longer message has its response within a second.",
            "A longer message has no response within a second.",
        ),
        steady("status of a short message", "short.status", exactly(200)).says(
            "A short message is taken.", "Even a short message is not taken."
        ),
        steady("time of a short message", "short.total", at_most(1), "s").says(
            "A short message has its response within a second.",
            "Even a short message has no response within a second.",
        ),
    ),
    evidence=(
        grows("slow requests that match a pattern", "matches", at_least(1), "lines").seen(
            "web", f"grep -F '{MATCHES}' {SLOW_LOG}"
        ),
    ),
    asks=(said("what is taken, and what is refused", TEXTS, 20),),
)
