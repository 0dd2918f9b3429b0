"""keepalive-race: the shop closes idle connections before nginx does, and orders get lost in them.

Tomcat looks for idle connections five times a second, or when a request wakes it up. So the first
order after a pause makes it close the other connections while nginx sends orders over them.
"""

import secrets
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends, grows, share, steady
from faultlab.probes import log

ORDER = "http://web:8000/order.jsp"
LOST = ("upstream prematurely closed connection", "(104: Connection reset by peer)")
# The shop closes a connection that has had one response; after 3.5 seconds we close it.
KEPT = r"""start=$(date +%s%N); got=$(timeout 3.5 bash -c 'exec 3<>/dev/tcp/app/8080
printf "GET /health.txt HTTP/1.1\r\nHost: app\r\n\r\n" >&3; cat <&3')
case $got in *" 200 "*) ;; *) start=0 ;; esac; echo $((($(date +%s%N) - start) / 1000000))"""
IDLE = "ss -Htn state established dport = :8080 | wc -l"
ORDERS, PAGES = 640, 160
# Forty tills order at once, sixteen times, and ten users look into the book. The pauses are
# shorter than the second for which nginx keeps a connection. Then the book is compared.
TILLS = r"""import socket, time
def request(name, body=""):
    return (f"POST /order.jsp HTTP/1.1\r\nHost: web\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}" if body else
        f"GET /order.jsp?name={name} HTTP/1.1\r\nHost: web\r\n\r\n").encode()
def response(till):  # has less than one packet
    text = till.recv(65536).decode()
    return (text[9:12] == "200", text)
tills = [socket.create_connection(("web", 8000), 30) for _ in range(50)]
orders, pages, right = {}, 0, 0
for till in tills:  # Java compiles the page at the first one
    till.sendall(request("WHO"))
    response(till)
for turn in range(16):
    names = [f"WHO-{turn}-{n}" for n in range(40)]
    all = [request("", "name=" + name) for name in names] + [request("WHO")] * 10
    time.sleep(0.9 if turn % 4 == 3 else 0.4)
    for till, one in zip(tills, all): till.sendall(one)
    good = [response(till)[0] for till in tills]
    orders.update(zip(names, good))
    pages += sum(good[40:])
for name, good in orders.items():
    tills[0].sendall(request(name))
    right += f" book {int(good)} times." in response(tills[0])[1]
print(sum(orders.values()), pages, right)
"""
# An order for a hundred guests is booked, and nginx gets no response. The guests are in the body,
# in the query, or under an encoded name. Each check has a name of its own, for the book keeps all.
PARTY = f"""who=party-{{n}}-$(date +%s%N)
order() {{ curl -sm 9 "{ORDER}?name=$who" -o /dev/null
curl -sm 9 -o /dev/null -w '%{{http_code}}\\n' "$@"; }}
order {ORDER} -d "guests=100&name=$who"; order "{ORDER}?guests=100" -d "name=$who"
order {ORDER} -d "g%75ests=100&name=$who"
curl -sfm 9 "{ORDER}?name=$who" | sed "s/$who//" """


@dataclass(frozen=True)
class Look:
    """Orders and pages that come, and orders that the book has as the tills were told.

    `idle`: the connections to the shop that nginx keeps after two seconds without any request.
    """

    orders: int
    pages: int
    right: int
    idle: int


@dataclass(frozen=True)
class Inspection:
    """The responses that nginx did not get, and the ms that the shop keeps an idle connection."""

    lost: int
    kept: int


def look(stack: Stack) -> Look:
    """Let the tills order."""
    script = TILLS.replace("WHO", f"till-{secrets.token_hex(4)}")
    told = stack.user().run(f"python3 - <<'_end_'\n{script}_end_", timeout=150)
    # It prints nothing if nginx does not run, or has closed a connection.
    orders, pages, right = map(int, told.out.split() or (0, 0, 0))
    return Look(orders, pages, right, idle=int(stack["web"].must(f"sleep 2.2; {IDLE}")))


def inspect(stack: Stack) -> Inspection:
    """Read the log of nginx, and leave a connection idle."""
    web = stack["web"]
    lost = sum(log.count(web, log.NGINX_ERROR, text) for text in LOST)
    return Inspection(lost, int(web.must(KEPT)))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share("orders that fail", lambda now: 1 - now.orders / ORDERS, good=1, bad=4).says(
            "No order fails.", "Some orders fail, each time others."
        ),
        steady(f"pages that come, of {PAGES}", "pages", exactly(PAGES)).says(
            "No page fails.", "Some pages fail, too."
        ),
        steady(
            f"orders that the book has as tills know them, of {ORDERS}", "right", exactly(ORDERS)
        ).says(
            "The book has the orders that were confirmed.",
            "The book has other orders than those that were confirmed.",
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
