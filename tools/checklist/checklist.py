"""Checklist: an agent without a model. It asks each machine the questions of the USE method.

It reads the ticket as JSON on standard input and types commands through the socket in
FAULTLAB_SOCKET, a line of JSON each. Errors come first, then saturation, then how work is shared
and what the database does. The first suspect is named. Repairs are tried until a check says yes.
"""

import json
import os
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

WINDOW = 5.0  # seconds between two looks at a counter
PROCESSES = {
    "mysqld": "mysql",
    "mariadbd": "mysql",
    "java": "tomcat",
}  # with another name than theirs
# A number each; what grows is compared with what grew beside it.
COUNTERS = r"""
nstat -asz | awk '/ListenOverflows|ListenDrops/ {print $1, $2}'
echo tx $(cat /sys/class/net/eth0/statistics/tx_bytes)
echo no_port $(cat /var/log/nginx/*error.log 2>/dev/null | grep -c 'Cannot assign requested')
cat /sys/fs/cgroup/cpu/cpu.stat /sys/fs/cgroup/cpu.stat 2>/dev/null | grep -E '^nr_'
"""
DATABASE = """mysql -BNe "SHOW GLOBAL STATUS WHERE Variable_name IN
('Com_select', 'Com_insert', 'Created_tmp_disk_tables')" """
THREADS = """for i in 1 2 3 4 5 6 7 8; do mysql -BNe "SELECT CONCAT(IFNULL(DB, ''), CHAR(31), INFO)
FROM information_schema.PROCESSLIST WHERE COMMAND != 'Sleep' AND ID != CONNECTION_ID()
AND INFO LIKE 'SELECT%'"; sleep 0.1; done"""


class Suspect(NamedTuple):
    """A possible fault, and the commands that repair it."""

    component: str
    resource: str
    cause: str
    repair: Sequence[tuple[str, str]] = ()


class Lab:
    """The machines, behind the socket."""

    def __init__(self) -> None:
        self.told = json.loads(sys.stdin.readline())
        self.daemons: list[str] = self.told["daemons"]
        there = set(self.told["machines"]) - {*self.daemons, "host"}
        self.machines = sorted(there)
        self._file = socket.socket(socket.AF_UNIX)
        self._file.connect(os.environ["FAULTLAB_SOCKET"])
        self._lines = self._file.makefile("rwb")

    def ask(self, **request: object) -> dict[str, object]:
        """Send one request and return its answer."""
        self._lines.write(json.dumps(request).encode() + b"\n")
        self._lines.flush()
        answer: dict[str, object] = json.loads(self._lines.readline())
        return answer

    def run(self, machine: str, command: str) -> str:
        """Return what a command prints."""
        return str(self.ask(run={"machine": machine, "command": command}).get("out", ""))

    def numbers(self, machine: str, command: str) -> Counter[str]:
        """Return the numbers that a command prints, one in a line, by their names."""
        found = re.findall(r"^(\S+)\s+([\d.]+)$", self.run(machine, command), re.MULTILINE)
        return Counter({name: int(float(value)) for name, value in found})

    def restart(self, machine: str) -> list[tuple[str, str]]:
        """Return the commands that restart what listens on a machine."""
        found = re.findall(r"\"([^\"]+)\"", self.run(machine, "ss -Hltnp"))
        names = {PROCESSES.get(name, re.sub(r"[\d.]+$", "", name)) for name in found}
        return [("host", f"docker restart {name}") for name in self.daemons if name in names]


def errors(lab: Lab, at: str, grown: Counter[str]) -> Iterator[Suspect]:
    """Yield what loses packets, connections or processes on a machine."""
    mtu = int(lab.numbers(at, "echo mtu $(cat /sys/class/net/eth0/mtu)")["mtu"])
    if 0 < mtu < 576:  # an IPv4 host must take packets of 576 bytes
        yield Suspect(at, "network", "mtu", [(at, "ip link set dev eth0 mtu 1500")])
    for rule in lab.run(at, "iptables-save -c").splitlines():
        hit = re.fullmatch(r"\[([1-9]\d*):\d+\] -A (.* -j (?:DROP|REJECT).*)", rule)
        if hit and "RST RST" not in rule:  # without a reset no request is lost
            yield Suspect(at, "network", "iptables-drop", [(at, f"iptables -D {hit[2]}")])
    if "netem" in lab.run(at, "tc qdisc show dev eth0"):
        yield Suspect(at, "network", "netem-loss", [(at, "tc qdisc del dev eth0 root")])
    if grown["TcpExtListenOverflows"]:
        repair = [(at, "sysctl -w net.core.somaxconn=4096"), *lab.restart(at)]
        yield Suspect(at, "socket", "somaxconn", repair)
    elif grown["TcpExtListenDrops"]:
        yield Suspect(at, "socket", "syn-flood", [(at, "sysctl -w net.ipv4.tcp_syncookies=1")])
    if grown["no_port"]:
        low, high = map(int, lab.run(at, "sysctl -n net.ipv4.ip_local_port_range").split())
        if high - low < 10_000:
            wide = 'sysctl -w net.ipv4.ip_local_port_range="32768 60999"'
            yield Suspect(at, "port", "port-range", [(at, wide)])
        else:
            yield Suspect(at, "port", "time-wait", [(at, "sysctl -w net.ipv4.tcp_tw_reuse=1")])


def killed(lab: Lab) -> Iterator[Suspect]:
    """Yield daemons that the kernel ended for their memory."""
    for daemon in re.findall(r"^(\S+)\s+Exited.*out of memory", lab.run("host", "docker ps"), re.M):
        lab.run("host", f"docker start {daemon}")
        files = "/sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes"
        limit = lab.run(daemon, f"cat {files} 2>/dev/null").split()
        half = int(limit[0]) >> 21 if limit and limit[0].isdigit() else 256
        smaller = f"s/-Xmx[0-9]+[kmgKMG]?/-Xmx{half}m/"
        edit = f"grep -rlE -- -Xmx /etc/{daemon}* | xargs -r sed -Ei '{smaller}'"
        repair = [(at, edit) for at in lab.machines]
        yield Suspect(daemon, "memory", "heap-oom", [*repair, ("host", f"docker restart {daemon}")])


def links(lab: Lab, at: str, grown: Counter[str], seconds: float) -> Iterator[Suspect]:
    """Yield a link that is full, or the server that fills it with text that it could compress."""
    shaped = re.search(r"tbf .*rate (\d+)([KMG])bit", lab.run(at, "tc qdisc show dev eth0"))
    if not shaped:
        return
    rate = int(shaped[1]) * {"K": 1e3, "M": 1e6, "G": 1e9}[shaped[2]]
    if 8 * grown["tx"] / seconds < 0.5 * rate:
        return
    url = re.search(r"`(https?://[^`]+)`", lab.told["ticket"])
    head = (
        lab.run("client", f"curl -sD - -o /dev/null -H 'Accept-Encoding: gzip' {url[1]}")
        if url
        else ""
    )
    if "text/" in head and "content-encoding" not in head.lower():
        edit = "sed -Ei 's/gzip +off;/gzip on;/' $(grep -rlE 'gzip +off' /etc/nginx)"
        yield Suspect("nginx", "network", "gzip", [(at, f"{edit} && pkill -HUP -o -x nginx")])
    else:
        yield Suspect(at, "network", "bandwidth", [(at, "tc qdisc del dev eth0 root")])


def quotas(lab: Lab, grown: dict[str, Counter[str]]) -> Iterator[Suspect]:
    """Yield a CPU quota that is always used up, unless equals of the daemon have the same one."""
    tight = {
        name
        for name in lab.daemons
        if grown[name]["nr_periods"] >= 10
        and grown[name]["nr_throttled"] > 0.8 * grown[name]["nr_periods"]
    }
    for name in sorted(tight):
        kind = re.sub(r"-\d+$", "", name)
        equals = [one for one in lab.daemons if re.sub(r"-\d+$", "", one) == kind and one != name]
        if not equals:
            yield Suspect(name, "cpu", "cpu-quota", [("host", f"docker update --cpus 1 {name}")])
        elif not tight.intersection(equals):
            edit = "sed -Ei '/server/ s/ down;/;/' $(grep -rlE 'server .* down;' /etc/nginx)"
            reload = f"{edit} && pkill -HUP -o -x nginx"
            yield Suspect(name, "cpu", "scale-out", [(at, reload) for at in lab.machines])


def workers(lab: Lab, at: str) -> Iterator[Suspect]:
    """Yield a pool of PHP that could not grow, and a server that resumes no TLS session."""
    status = lab.run(at, "curl -sm 5 http://127.0.0.1/status")
    if re.search(r"^max children reached: +[1-9]", status, re.MULTILINE):
        now = re.search(r"^total processes: +(\d+)", status, re.MULTILINE)
        more = 5 * int(now[1]) if now else 25
        edit = f"sed -Ei 's/^pm = .*/pm = static/; s/^(pm.max_children = ).*/\\1{more}/'"
        repair = [(at, f"{edit} /etc/php/*/fpm/pool.d/*.conf"), ("host", "docker restart php-fpm")]
        yield Suspect("php-fpm", "worker", "max-children", repair)
    if re.search(r":443\s", lab.run(at, "ss -Hltn")):
        again = "openssl s_client -connect localhost:443 -tls1_2 -reconnect </dev/null 2>&1"
        if "Reused" not in lab.run(at, again):
            on = "s/ssl_session_cache +off;/ssl_session_cache shared:SSL:10m;/"
            edit = f"sed -Ei '{on}' $(grep -rl ssl_session_cache /etc/nginx)"
            reload = f"{edit} && pkill -HUP -o -x nginx"
            yield Suspect("nginx", "cpu", "tls-resumption", [(at, reload)])


def database(lab: Lab, at: str, grown: Counter[str]) -> Iterator[Suspect]:
    """Yield what makes the statements of a database expensive or many."""
    selects, inserts = grown["Com_select"], grown["Com_insert"]
    if grown["Created_tmp_disk_tables"] > 0.25 * max(selects, 1):
        more = "SET GLOBAL tmp_table_size = 33554432, GLOBAL max_heap_table_size = 33554432"
        yield Suspect("mysql", "memory", "temp-tables", [(at, f"mysql -e '{more}'")])
    if inserts and selects > 40 * inserts:
        asks = next((name for name in lab.daemons if name.startswith(("php", "tomcat"))), "mysql")
        yield Suspect(asks, "query", "repeat-queries")
    seen = Counter(re.sub(r"\d+", "0", line) for line in lab.run(at, THREADS).splitlines())
    if not seen or seen.most_common(1)[0][1] < 4:
        return  # no statement is often at work
    samples = lab.run(at, THREADS).splitlines()
    often = [line for line in samples if re.sub(r"\d+", "0", line) == seen.most_common(1)[0][0]]
    if often:
        schema, _, sql = often[0].replace("\\n", " ").replace("\\t", " ").partition("\x1f")
        yield from plan(lab, at, schema, sql)


def plan(lab: Lab, at: str, schema: str, sql: str) -> Iterator[Suspect]:
    """Yield an index that a statement lacks, or that none can help it, from its plan."""
    quoted = sql.replace("'", "'\\''")
    rows = [
        row.split("\t")
        for row in lab.run(at, f"mysql -BN {schema} -e 'EXPLAIN {quoted}'").splitlines()
    ]
    total = 1
    for row in rows:
        total *= int(row[8]) if row[8].isdigit() else 1
    if total < 10_000:
        return
    clients = [("host", f"docker restart {name}") for name in lab.daemons if name == "tomcat"]
    log = lab.run(at, "mysql -BNe 'SELECT @@slow_query_log, @@long_query_time'").split()
    if log and log[0] == "1" and float(log[1]) > 1:  # it hides what keeps the database busy
        lower = [(at, "mysql -e 'SET GLOBAL long_query_time = 0'"), *clients]
        yield Suspect("mysql", "observability", "slow-log", lower)
    name = re.escape(max(rows, key=lambda row: int(row[8]) if row[8].isdigit() else 0)[2])
    table = re.search(rf"(?:FROM|JOIN)\s+(\S+)\s+(?:AS\s+)?{name}\b", sql, re.IGNORECASE)
    equal = re.findall(rf"\b{name}\.(\w+)\s*=\s*(?:'|\d)", sql)
    joined = re.findall(rf"\b{name}\.(\w+)\s*=\s*\w+\.\w+", sql)
    joined += re.findall(rf"\w+\.\w+\s*=\s*{name}\.(\w+)", sql)
    if re.search(rf"\w+\({name}\.\w+\)\s*=", sql):  # an index cannot find the result of a function
        keep = "SET GLOBAL query_cache_size = 16777216, GLOBAL query_cache_type = ON"
        yield Suspect("mysql", "query", "query-cache", [(at, f"mysql -e '{keep}'"), *clients])
    elif table and (equal or joined):
        rest = re.findall(rf"\b{name}\.(\w+)", sql)
        columns = ", ".join(dict.fromkeys([*equal, *joined, *rest]))
        index = f"CREATE INDEX checklist ON {table[1]} ({columns})"
        cause = "missing-index" if equal else "slow-join"
        yield Suspect("mysql", "query", cause, [(at, f"mysql {schema} -e '{index}'")])


def suspects(lab: Lab) -> Iterator[Suspect]:
    """Yield all suspects, the most certain ones first."""
    yield from killed(lab)
    places = [*lab.machines, *lab.daemons]
    bases = [at for at in lab.machines if lab.run(at, "pgrep -x 'mysqld|mariadbd'")]
    began = time.monotonic()
    was = {at: lab.numbers(at, COUNTERS + DATABASE * (at in bases)) for at in places}
    time.sleep(WINDOW)
    now = {at: lab.numbers(at, COUNTERS + DATABASE * (at in bases)) for at in places}
    seconds = time.monotonic() - began
    grown = {at: now[at] - was[at] for at in places}
    for at in lab.machines:
        yield from errors(lab, at, grown[at])
    yield from quotas(lab, grown)
    for at in lab.machines:
        yield from workers(lab, at)
        yield from links(lab, at, grown[at], seconds)
    for at in bases:
        yield from database(lab, at, grown[at])


def main() -> None:
    """Look, name the first suspect, and repair one after the other until the users are served."""
    lab = Lab()
    found = list(suspects(lab))
    first = found[0] if found else Suspect("none", "none", "none")
    print("\n".join(map(str, found)) or "nothing is wrong")
    said = lab.ask(diagnose=dict(zip(("component", "resource", "cause"), first, strict=False)))
    print(said)
    for suspect in found:
        for machine, command in suspect.repair:
            print(machine, command, lab.ask(run={"machine": machine, "command": command}))
        checked = lab.ask(check={})
        print(checked)
        if checked.get("fixed"):
            break


if __name__ == "__main__":
    main()
