"""keepalive-race: the shop closes idle connections before nginx does, and orders get lost in them.

Tomcat looks for idle connections five times a second, or when a request wakes it up. So the first
order after a pause makes it close the other connections while nginx sends orders over them.
"""

import json
from dataclasses import dataclass

from faultlab.core.command import meanwhile
from faultlab.core.errors import CannotRun
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends, grows, share, steady
from faultlab.probes import log

ORDER = "http://web:8000/order.jsp"
TRIES, IN_TIME = 5, 2  # to let one order come in time; a busy machine can be too slow
UNSEEN = 3  # between the limits
SETTLED = 0.05  # seconds after which the connections of a crowd are closed or idle
LOST = ("upstream prematurely closed connection", "(104: Connection reset by peer)")
# The shop closes a connection that has had one response; after 3.5 seconds we close it.
KEPT = r"""start=$(date +%s%N); got=$(timeout 3.5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080
printf "GET /health.txt HTTP/1.1\r\nHost: app\r\n\r\n" >&3; cat <&3')
case $got in *" 200 "*) ;; *) start=0 ;; esac; echo $((($(date +%s%N) - start) / 1000000))"""
TURNS, TILLS, READERS = 10, 40, 10
ORDERS, PAGES = TURNS * TILLS, TURNS * READERS
# Fifty programs open a connection each, then one request each, so that Java compiles the page and
# nginx has its connections to the shop.
OPEN = r"""import socket, time
def request(name, body=""):
    return (f"POST /order.jsp HTTP/1.1\r\nHost: web\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}" if body else
        f"GET /order.jsp?name={name} HTTP/1.1\r\nHost: web\r\n\r\n").encode()
def response(till):  # has less than one packet
    text = till.recv(65536).decode()
    return (text[9:12] == "200", text)
tills = [socket.create_connection(("web", 8000), 30) for _ in range(50)]
for till in tills:
    till.sendall(request("WHO"))
    response(till)
for till in tills: till.sendall(request("WHO"))
for till in tills: response(till)
"""
# When the last of fifty requests at once had its response, and when one more came after a pause.
LAST = (
    OPEN
    + """print(time.monotonic())
if PAUSE:
    time.sleep(PAUSE)
    print(time.monotonic())
    tills[0].sendall(request("WHO"))
    response(tills[0])
"""
)
# Forty tills order at once after each pause, and ten users look into the book. Then the book is
# compared.
CROWD = (
    OPEN
    + r"""orders, pages, right = {}, 0, 0
for turn, pause in enumerate(PAUSES):
    names = [f"WHO-{turn}-{n}" for n in range(40)]
    all = [request("", "name=" + name) for name in names] + [request("WHO")] * 10
    time.sleep(pause)
    for till, one in zip(tills, all): till.sendall(one)
    good = [response(till)[0] for till in tills]
    orders.update(zip(names, good))
    pages += sum(good[40:])
for name, good in orders.items():
    tills[0].sendall(request(name))
    right += f" book {int(good)} times." in response(tills[0])[1]
print(sum(orders.values()), pages, right)
"""
)
# Prints when the connections to the shop changed, and their ports, until they are gone or no new
# one came for 2.2 seconds.
WATCH = r"""python3 - <<'_end_'
import json, time
def kept():
    rows = [line.split() for name in ("tcp", "tcp6") for line in open("/proc/net/" + name)]
    its = [row[1] for row in rows if row[2].endswith(":1F90") and row[3] == "01"]
    return sorted(int(address.rsplit(":", 1)[1], 16) for address in its)
seen, end = [(time.monotonic(), [])], time.monotonic() + 15
while (now := time.monotonic()) < end:
    ports = kept()
    if ports != seen[-1][1]:
        end = now + 2.2 if set(ports) - set(seen[-1][1]) else end if ports else now + 0.05
        seen.append((now, ports))
    time.sleep(0.005)
print(json.dumps(seen))
_end_"""
# The ports of nginx's ends of connections that the shop closed first.
CLOSED = "ss -Htan state time-wait sport = :8080 | awk '{ sub(/.*:/, \"\", $4); print $4 }'"
# A packet with this name gets a reset, so nginx has no response to the order in it. The page before
# it leaves a connection. Prints how often the order came.
REFUSED = (
    "INPUT -p tcp --dport 8080 -m string --algo bm --string NAME -j REJECT --reject-with tcp-reset"
)
CAME = "iptables -w 5 -nvxL INPUT | awk '/NAME/ { print $1; exit }'"
ASKED = f"go() {{ curl -sm 5 -o /dev/null $*; }}; go {ORDER}?name=any; go -d x=1 {ORDER}?name=NAME"
# An order for a hundred guests is booked, and nginx gets no response. The guests are in the body,
# in the query, or under an encoded name. Each check has a name of its own, for the book keeps all.
PARTY = f"""who=party-{{n}}-$(date +%s%N) guests=$((100 + {{n}} % 900))
order() {{ curl -sm 9 "{ORDER}?name=$who" -o /dev/null
curl -sm 9 -o /dev/null -w '%{{http_code}}\\n' "$@"; }}
order {ORDER} -d "guests=$guests&name=$who"; order "{ORDER}?guests=$guests" -d "name=$who"
order {ORDER} -d "g%75ests=$guests&name=$who"
curl -sfm 9 "{ORDER}?name=$who" | sed "s/$who//" """


@dataclass(frozen=True)
class Look:
    """Orders and pages that come, and orders that the book has as the tills were told.

    `idle`: the connections to the shop that nginx keeps after two seconds without any request.
    `early`: the idle ones that the shop closed before nginx did. `repeated`: how often nginx sent
    an order again that had got no response.
    """

    orders: int
    pages: int
    right: int
    idle: int
    early: int
    repeated: int


@dataclass(frozen=True)
class Inspection:
    """The responses that nginx did not get, and the ms that the shop keeps an idle connection."""

    lost: int
    kept: int


def look(stack: Stack) -> Look:
    """Watch idle connections, let one order come just before nginx would close them, then many."""
    idle, life, closed = watched(stack, 0)
    early = closed or 0
    if early <= UNSEEN and life > 2 * SETTLED:
        early = max(early, idle_closed(stack, life))
    # Mostly when idle connections are old. Without any, every pause will do.
    least, most = (0.4 * life, life - 0.01) if life else (0.05, 0.6)
    drawn = [round(stack.dice.uniform(least, most), 3) for _ in range(TURNS)]
    script = CROWD.replace("PAUSES", repr(drawn)).replace("WHO", who(stack))
    told = stack.user().run(f"python3 - <<'_end_'\n{script}_end_", timeout=150)
    # It prints nothing if nginx does not run, or has closed a connection.
    orders, pages, right = map(int, told.out.split() or (0, 0, 0))
    return Look(orders, pages, right, idle, early, repeated(stack))


def idle_closed(stack: Stack, life: float) -> int:
    """Return how many idle connections the shop closes before nginx does, after `life` seconds.

    Two orders have to come in time, for on a busy machine `life` can be too short. If none does, it
    is a number between the limits, so that the next look has the machine alone.
    """
    seen = list[int]()
    for _ in range(TRIES):
        early = watched(stack, life - stack.dice.uniform(0.015, 0.035))[2]
        if early is not None:
            seen.append(early)
        if max(seen, default=0) > UNSEEN or len(seen) == IN_TIME:
            break
    return max(seen, default=UNSEEN)


def who(stack: Stack) -> str:
    """Return a name that the book does not have."""
    return f"till-{stack.dice.randrange(1 << 32):08x}"


def watched(stack: Stack, pause: float) -> tuple[int, float, int | None]:
    """Watch the connections to the shop after fifty requests at once, and one more after a pause.

    Return how many there are two seconds later, the seconds for which they lived, and how many the
    shop closed; None if the one request came too late, when nginx had closed them. The request
    wakes Tomcat up, which then closes those that are idle for too long. Raises CannotRun if the
    watching program always began after the requests, which would look like no connection.
    """
    for _ in range(TRIES):
        if seen := _watched_once(stack, pause):
            return seen
    raise CannotRun(f"{TRIES} times the connections were watched too late; is the machine busy?")


def _watched_once(stack: Stack, pause: float) -> tuple[int, float, int | None] | None:
    """Watch them once as `watched` says; None if the watching program began too late."""
    printed: list[str] = []
    web = stack.sidecar("web")
    with meanwhile(lambda: printed.append(web.must(WATCH, timeout=40))):
        script = LAST.replace("WHO", who(stack)).replace("PAUSE", f"{pause:.3f}")
        told = stack.user().run(f"python3 - <<'_end_'\n{script}_end_", timeout=30)
    seen = json.loads(printed[0])
    if not told.out.strip():  # nginx does not run, or has closed a connection
        return len(seen[-1][1]), 0.0, 0
    last, *woke = map(float, told.out.split())
    if seen[0][0] > last:
        return None
    # A connection that is closed after its response is gone by then.
    still = last + max(SETTLED, pause - 0.005)
    kept = [ports for when, ports in seen if when <= still][-1]
    few = (when for when, ports in seen if when > still and len(ports) <= len(kept) / 2)
    gone = min(last + 2, next(few, last + 2)) if kept else last
    closed = stack.sidecar("app").must(CLOSED).split()
    early = len(set(kept) & {int(port) for port in closed})
    late = bool(woke) and woke[0] > gone and not early
    return len(seen[-1][1]), gone - last, None if late else early


def repeated(stack: Stack) -> int:
    """Return how often an order came again to the shop after it had got no response."""
    app, name = stack.sidecar("app"), who(stack)
    if app.run(f"iptables -w 5 -I {REFUSED.replace('NAME', name)}").code:
        return 0  # this kernel cannot look for a name
    try:
        stack.user().run(ASKED.replace("NAME", name))
        return max(0, int(app.run(CAME.replace("NAME", name)).out.strip() or 0) - 1)
    finally:
        app.run(f"iptables -w 5 -D {REFUSED.replace('NAME', name)}")


def inspect(stack: Stack) -> Inspection:
    """Read the log of nginx, and leave a connection idle."""
    web = stack.sidecar("web")
    lost = sum(log.count(web, log.NGINX_ERROR, text) for text in LOST)
    return Inspection(lost, int(stack.sidecar("app").must(KEPT)))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share("orders that fail", lambda now: 1 - now.orders / ORDERS, good=1, bad=4).says(
            "Hardly any order fails.", "Some orders fail."
        ),
        Measure("orders that could come too late", "early", at_most(2), at_least(5)).says(
            "Hardly any order comes a moment too late.",
            "An order can still come a moment too late.",
        ),
        steady(f"pages that come, of {PAGES}", "pages", exactly(PAGES)).says(
            "No page fails.", "Some pages fail, too."
        ),
        steady(
            f"orders that the book has as tills know them, of {ORDERS}", "right", exactly(ORDERS)
        ).says(
            "The book has the orders that were confirmed.",
            "Some orders in the book are not as they were confirmed.",
        ),
        steady("orders without a response that are sent again", "repeated", at_most(0)).says(
            "No order is sent again.", "An order without a response is sent to the shop again."
        ),
        steady("idle connections to the shop after two seconds", "idle", at_most(0)).says(
            "After two seconds without orders the shop has no connection.",
            "The shop still has connections after two seconds without orders.",
        ),
    ),
    evidence=(
        grows("responses that nginx does not get", "lost", at_least(5), "lines").seen(
            "web", f"grep -cE 'prematurely closed|104: Connection reset' {log.NGINX_ERROR}"
        ),
        ends("time that the shop keeps an idle connection", "kept", at_most(2000), "ms").seen(
            "app", "grep keepAliveTimeout /etc/tomcat10/server.xml"
        ),
    ),
    asks=(
        page("http://web:8000/", times=10),
        page(f"{ORDER}?name=guest-{{n}}", times=10),
        said("orders for a hundred guests", PARTY, 20),
    ),
)
