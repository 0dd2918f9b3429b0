"""Probes: what their parsers make of outputs that were recorded on real machines."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
from contextlib import nullcontext
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Machine, State
from faultlab.engine.docker.container import DockerMachine
from faultlab.engine.sidecar import Sidecar
from faultlab.probes import (
    ab,
    capture,
    cgroup,
    connect,
    conntrack,
    curl,
    fpm,
    host,
    hping3,
    interface,
    iptables,
    jvm,
    memcaslap,
    mysql,
    mysqlslap,
    nstat,
    ping,
    sockets,
    softirq,
    stray,
    syns,
    tls,
    wrk,
)
from faultlab.probes.ab import Visits
from faultlab.probes.cgroup import Cpu
from faultlab.probes.connect import Handshakes
from faultlab.probes.curl import Page
from faultlab.probes.host import Memory
from faultlab.probes.interface import Interface, Link, Qdisc
from faultlab.probes.iptables import Rule
from faultlab.probes.sockets import Listener
from faultlab.probes.wrk import Load
from tests.unit.conftest import Printing, recorded


def machine(that: Any) -> Machine:
    """Return what stands in for a machine as one."""
    return cast("Machine", that)


def test_ab_counts_those_who_got_in_before_nobody_did() -> None:
    """The lab conntrack: two hundred, and then silence."""
    got = ab.parse(recorded("ab/full"), 5.0)
    assert got == Visits(5.0, 200, 0, 200, 5, 5, 5, 200)
    assert (got.good_per_second, got.slow_share, got.late_share) == (40, 1, 1)


def test_ab_counts_who_waited_far_longer_than_others() -> None:
    """The lab throughput: a queue of ten overflows, and users send their SYN again."""
    got = ab.parse(recorded("ab/overflows"), 9.0)
    assert 0.1 < got.late_share < 0.4 and got.median < 0.2 and got.max > 3
    assert ab.parse(recorded("ab/silent"), 1.0).late_share == 1


def test_conntrack() -> None:
    """The output of a full table was recorded without its limit."""
    assert conntrack.parse(recorded("conntrack/fill")) == conntrack.Table(3, 0, 262144)
    entries, _, counters = recorded("conntrack/full").partition("\n")
    found = conntrack.parse(f"{entries}\n200\n{counters}")
    assert found == conntrack.Table(200, 6000, 200)


@pytest.mark.parametrize(("name", "sent", "answered"), [("healthy", 20, 20), ("lossy", 100, 64)])
def test_ping(name: str, sent: int, answered: int) -> None:
    got = ping.parse(recorded(f"ping/{name}"))
    assert got == ping.Echoes(sent, answered)
    assert got.loss == pytest.approx(1 - answered / sent)


def test_ping_round_trip() -> None:
    """A lost echo request counts as long as the user waited for it."""
    answered = ping.parse_round_trip(recorded("ping/healthy"), wait=2)
    assert answered == pytest.approx(0.042)
    lossy = ping.parse_round_trip(recorded("ping/lossy"), wait=2)
    assert lossy == pytest.approx((64 * 0.064 + 36 * 2000) / 100)


def test_softirq() -> None:
    """The lab softirq, after many floods: the queue of CPU 0 had no room, and its thread worked."""
    first, second = softirq.parse(recorded("softirq/after-floods"))
    assert first == softirq.Processor(0xE1F90, 0x3A9B, 0x129C, 13136, 12388, 187506)
    assert second == softirq.Processor(0x66B14, 0x25F6, 0xA97, 8760, 5206, 186866)


def test_ping_that_sends_nothing() -> None:
    with pytest.raises(CannotRun, match="ping sent nothing: ping: nowhere"):
        ping.parse(recorded("ping/unknown-host"))


@pytest.mark.parametrize(
    ("name", "visits", "slow"),
    [
        ("healthy", Visits(1.001, 13442, 0, 0, 0.004, 0.0057, 0.009), 0),
        ("not-found", Visits(1.0, 12186, 12186, 0, 0.002, 0.0025, 0.006), 1),
        ("somaxconn", Visits(3.0, 35688, 0, 760, 0.002, 1.0438, 2.045), 760 / 35688),
        ("dead", Visits(1.007, 96, 96, 0, 0.012, 0.012, 0.012), 1),
        ("refused", Visits(1.0, 34402, 34402, 0, 0.0, 0.0, 0.001), 1),
        ("silent", Visits(1.0, 0, 0, 0, 5, 5, 5), 1),
    ],
)
def test_ab(name: str, visits: Visits, slow: float) -> None:
    got = ab.parse(recorded(f"ab/{name}"), 1.0)
    assert got == visits
    assert got.slow_share == pytest.approx(slow)
    assert (got.good_per_second > 0) == (slow < 1)


def test_ab_when_visitors_are_turned_away() -> None:
    """It ends after ten of them, and says no times of those before."""
    got = ab.parse(recorded("ab/turned-away"), 1.0)
    assert got == Visits(1.0, 20416, 0, 20416, 5, 5, 5, 20416) and got.slow_share == 1
    with pytest.raises(CannotRun):  # no port is left to ab itself
        ab.parse("apr_socket_connect(): Cannot assign requested address (99)\nTotal of 5", 1.0)


def test_ab_without_a_host() -> None:
    with pytest.raises(CannotRun, match=r"ab gave no result: .*Temporary failure"):
        ab.parse(recorded("ab/unknown-host"), 1.0)


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("healthy", Page(0, 200, 252, 0.000843, 0.00104)),
        ("missing", Page(0, 404, 153, 0.000725, 0.000953)),
        ("bad-gateway", Page(0, 502, 157, 0.00109, 0.001499)),
        ("refused", Page(7, 0, 0, 0.0, 0.000754)),
        ("mtu", Page(28, 0, 0, 0.000982, 3.001648)),  # connected, then nothing
        ("silent", Page(28, 0, 0, 0.000698, 3.00014)),
        ("unknown-host", Page(28, 0, 0, 0.0, 3.000258)),
    ],
)
def test_curl(name: str, page: Page) -> None:
    assert curl.parse(recorded(f"curl/{name}")) == page


def test_curl_prompt() -> None:
    assert curl.parse_prompt("200 0 0.04\n504 0 0.5\n200 0 2.1\n000 28 1.0\n", 1) == 1


@pytest.mark.parametrize("out", ["", "curl: (2) no URL specified\n"])
def test_curl_without_a_result(out: str) -> None:
    with pytest.raises(CannotRun, match="curl printed no JSON"):
        curl.parse(out)


def test_connect() -> None:
    """Of twenty connections ten open at once, two a second later, and eight never."""
    got = connect.parse(json.dumps([0.7] * 10 + [1025.1, 1025.2]), 20)
    assert got == Handshakes(20, 10, 2, 0.7, 1025.2)
    assert got.first_try_loss == 0.5
    assert got.unanswered == 8
    assert connect.parse("[]", 5).unanswered == 5
    with pytest.raises(CannotRun, match="No times of connections: 'python3: not found'"):
        connect.parse("python3: not found", 5)


class Crowd(Printing):
    """A machine that is near web, or as near as a test says."""

    name = "crowd"

    def __init__(self, out: str = "", code: int = 0, err: str = "") -> None:
        super().__init__(out, code, err)
        self.way, self.web = "198.18.0.4 dev eth0 src 198.18.0.5 uid 0", "198.18.0.4"

    def must(self, command: str, timeout: float = 30) -> str:
        return self.way if command.startswith("ip route get") else f"{self.web}\n"


def flood(crowd: Crowd, seed: int) -> int:
    """Send SYNs from a machine that may change its own settings."""
    its = machine(crowd)
    return syns.flood(its, "web", owner=its, dice=Random(seed), rate=9, seconds=1)


@pytest.mark.parametrize(
    "way", ["203.0.113.7 via 198.18.0.1 dev eth0 src 198.18.0.4", "local 127.0.0.1 dev lo"]
)
def test_a_flood_goes_to_a_neighbour_or_nowhere(way: str) -> None:
    crowd = Crowd()
    crowd.way, crowd.web = way, "203.0.113.7"
    with pytest.raises(CannotRun, match="web is no neighbour of crowd"):
        hping3.flood(machine(crowd), "web", dice=Random(1), seconds=1)
    with pytest.raises(CannotRun, match="web is no neighbour of crowd"):
        flood(crowd, 1)
    assert crowd.typed == []


def test_a_flood_that_a_firewall_drops_is_no_error() -> None:
    """The kernel refuses the first SYN, and hping3 ends; the flood is as small as it was."""
    out = "HPING 198.18.0.4 (eth0 198.18.0.4): S set, 40 headers + 0 data bytes\n"
    crowd = Crowd(out + "[send_ip] sendto: Operation not permitted\n", 1)
    hping3.flood(machine(crowd), "web", dice=Random(1), seconds=1)
    assert crowd.typed[0].endswith("198.18.0.4 >/dev/null 2>&1") and crowd.waits > 1


def test_each_flood_looks_different() -> None:
    crowd = Crowd("1349\n")
    for seed in range(20):
        assert flood(crowd, seed) == 1349
    assert all(" 198.18.0.4 198.18.0.5 9 1 " in command for command in crowd.typed)
    assert len({*crowd.typed}) > 6  # of twelve ways to draw two of four systems
    mute = Crowd("", 1, "socket: Operation not permitted")
    with pytest.raises(CannotRun, match="sent nothing: socket: Operation not permitted"):
        flood(mute, 1)


def test_what_a_jvm_holds() -> None:
    """The last line of a class histogram is the total; a JVM that does not respond holds None."""
    said = "1500: 1 16 java.util.X\nTotal        402384       31257368\n"
    assert jvm.live(cast("Sidecar", Printing(said))) == 31257368
    assert jvm.live(cast("Sidecar", Printing())) is None


@pytest.mark.parametrize(("entries", "seconds"), [(4100, 1093), (12, math.inf)])
def test_for_how_long_a_table_lasts(entries: int, seconds: float) -> None:
    """4,000 visits left 4,100 entries that stay for 117 s, of 131,072."""

    def must(command: str) -> str:
        return f"{entries}\n131072\ncpu=0 drop=0 early_drop=0\n" if "-S" in command else "117\n"

    web = machine(SimpleNamespace(must=must))
    assert conntrack.lasting(web, 4000) == pytest.approx(seconds, abs=1)


def eth0(name: str) -> Interface:
    return interface.parse(recorded(f"interface/{name}"))["eth0"]


def test_interface() -> None:
    lo = interface.parse(recorded("interface/healthy"))["lo"]
    assert (lo.mtu, lo.up, lo.qdisc.kind) == (65536, True, "noqueue")
    noqueue = Qdisc("noqueue")
    assert eth0("mtu") == Interface(
        100, 38493, 5, 37919, 0, rx_bytes=3956030, tx_bytes=16505417, qdisc=noqueue
    )
    assert eth0("mtu").lost == 5


def test_iptables() -> None:
    assert iptables.parse(recorded("iptables/empty")) == []
    assert iptables.parse(recorded("iptables/policy")) == [Rule("INPUT", "DROP", 8)]


def test_iptables_with_several_chains() -> None:
    """A rule without a target only counts; the number of its protocol is no target."""
    found = iptables.parse(recorded("iptables/chains"))
    assert found == [
        Rule("INPUT", "", 55),
        Rule("INPUT", "DROP", 15),
        Rule("FORWARD", "EXTRA", 0),
        Rule("OUTPUT", "DROP", 15),
        Rule("EXTRA", "REJECT", 0),
    ]
    assert iptables.dropped(found, "INPUT") == 15
    assert iptables.dropped(found, "FORWARD") == 0


@pytest.mark.parametrize(
    ("name", "overflows", "cookies"), [("healthy", 0, 0), ("somaxconn", 1989, 557)]
)
def test_nstat(name: str, overflows: int, cookies: int) -> None:
    counters = nstat.parse(recorded(f"nstat/{name}"))
    assert counters["TcpExtListenOverflows"] == overflows
    assert counters["TcpExtSyncookiesSent"] == cookies


def test_nstat_reads_what_is_asked_for() -> None:
    """A counter that the kernel does not have is 0."""
    web = machine(Printing(recorded("nstat/somaxconn")))
    found = nstat.read(web, ["TcpExtListenDrops", "TcpExtFromTheFuture"])
    assert found == {"TcpExtListenDrops": 1989, "TcpExtFromTheFuture": 0}


@pytest.mark.parametrize(
    ("name", "root"),
    [
        ("healthy", Qdisc("noqueue")),
        ("tbf", Qdisc("tbf", 908, 0, 2562, 271878, 12420, 1_000_000, 40)),
        ("htb", Qdisc("htb", 664, 127, 641, 269649, 0, 0)),  # the root, not the tbf below it
    ],
)
def test_qdisc(name: str, root: Qdisc) -> None:
    assert eth0(name).qdisc == root


def test_the_rate_of_netem() -> None:
    """It is an object there. Source: iproute2, tc/q_netem.c."""
    counters = dict.fromkeys(("packets", "drops", "overlimits", "bytes", "backlog", "qlen"), 0)
    options = {"limit": 1000, "rate": {"rate": 1_250_000, "packetoverhead": 0}}
    root = {"kind": "netem", **counters, "options": options}
    assert interface._qdisc(root).rate == 10_000_000


def test_listeners() -> None:
    found = sockets.parse(recorded("sockets/many")).listeners
    assert len(found) == 64
    ports = {one.port: one.address for one in found}
    assert {80, 7001, 7030, 17001, 17030} <= ports.keys()  # IPv4, and IPv6 as `*:17001`
    assert ports[7100] == "[fe80::42:c6ff:fe12:3]%eth0"
    assert Listener(80, 0, 511, "0.0.0.0", lost=240) in found


@pytest.mark.parametrize(("name", "backlog"), [("many", 511), ("port-range", 10)])
def test_backlog(name: str, backlog: int) -> None:
    found = sockets.parse(recorded(f"sockets/{name}")).listeners
    assert sockets.backlog(found, 80) == backlog
    assert sockets.backlog(found, 81) == 0


def test_half_open() -> None:
    """Two connections to port 80 wait for the last word of their client."""
    web = machine(Printing(recorded("sockets/many") + "half-open 80 2\n"))
    assert (sockets.half_open(web, 80), sockets.half_open(web, 81)) == (2, 0)


@pytest.mark.parametrize(
    ("name", "load", "failed"),
    [
        ("healthy", Load(2.000708, 16989, 0, 0, 0, 0.00211, 0.009068, 0.020897), 0.0),
        ("tbf", Load(2.003035, 583, 0, 0, 0, 0.070559, 0.071839, 0.072589), 0.0),
        ("port-range", Load(2.030835, 54041, 46268, 0, 0, 0.004738, 0.431278, 0.860878), 0.8562),
        ("somaxconn", Load(3.058484, 39931, 0, 21, 0, 0.000557, 0.397298, 0.854521), 21 / 39931),
        ("refused", Load(1.0, 0, 0, 0, 20, 0.0, 0.0, 0.0), 1.0),
        ("silent", Load(3.004568, 0, 0, 0, 0, 0.0, 0.0, 0.0), 1.0),
    ],
)
def test_wrk(name: str, load: Load, failed: float) -> None:
    got = wrk.parse(recorded(f"wrk/{name}"), connections=20)
    assert got == load
    assert got.failed_share == pytest.approx(failed, rel=1e-4)


def test_wrk_that_books_counts_what_is_taken_apart() -> None:
    """A table that is taken already is neither a booking nor a failure."""
    got = wrk.parse(recorded("wrk/booking"), 8)
    assert (got.requests, got.refused, got.non_2xx) == (368, 1, 0)
    assert got.good_per_second == pytest.approx(367 / 3.098508)
    assert got.failed_share == 0


def test_wrk_has_no_more_threads_than_connections() -> None:
    client = Printing(recorded("wrk/booking"))
    wrk.load(machine(client), "http://web", connections=1, seconds=4, script="booking")
    wrk.load(machine(client), "http://web/", connections=8, seconds=4)
    assert ["wrk -t1 -c1 -d4s" in client.typed[0], "wrk -t2 -c8 -d4s" in client.typed[1]] == [
        True,
        True,
    ]
    assert "booking-ends.lua http://web 2>&1" in client.typed[0]


@pytest.mark.parametrize(("connections", "ends"), [(20, True), (100, True), (101, False)])
def test_wrk_reads_the_last_responses(tmp_path: Path, connections: int, ends: bool) -> None:
    """With responses unread it ended twenty connections by an RST each, in a healthy lab.

    Beyond a hundred the kernel of the users resets them anyhow.
    """
    client = Printing(recorded("wrk/healthy"))
    wrk.load(machine(client), "http://web/", connections=connections, seconds=1)
    shown = tmp_path / "wrk"  # its seventh word is the script
    shown.write_text('#!/bin/sh\ncat "$7" || echo "usual: $7"\n')
    shown.chmod(0o755)
    typed = client.typed[0].replace("/tmp/", f"{tmp_path}/")
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    script = subprocess.check_output(["sh", "-c", typed], env=path, text=True)
    usual = "/usr/local/share/wrk/json.lua"
    if ends:
        assert script.startswith(f'dofile("{usual}")\nlocal report = done\n')
        assert script.index("report(...)") < script.index("ffi.C.recv")
    else:
        assert script.endswith(f"usual: {usual}\n")
    assert not [*tmp_path.glob("*.lua.*")]


@pytest.mark.parametrize("code", [0, 1])
def test_wrk_has_half_a_minute_for_its_first_connection(tmp_path: Path, code: int) -> None:
    """It waits for it without an end of its own; Linux gives up after seven SYNs in 127 seconds."""
    client = Printing("unable to connect to 198.18.0.3:http Connection timed out")
    load = wrk.load(machine(client), "http://web/", connections=8, seconds=4)
    assert (load.good_per_second, load.failed_share) == (0, 1) and 35 + 4 < client.waits < 60
    stuck = tmp_path / "wrk"  # as if no SYN was answered, in a tenth of the time
    stuck.write_text(f"#!/bin/sh\necho Running 4s test\n{'exit 1' if code else 'sleep 30'}\n")
    stuck.chmod(0o755)
    typed = client.typed[0].replace("timeout 41 ", "timeout 0.3 ").replace("/tmp/", f"{tmp_path}/")
    told = subprocess.run(
        ["sh", "-c", typed],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    if code:  # its own error is no missing connection
        with pytest.raises(CannotRun, match="wrk gave no result"):
            wrk.parse(told.stdout, 8)
    else:
        assert wrk.parse(told.stdout, 8).failed_share == 1


def test_wrk_counts_good_answers() -> None:
    """With 51 ports the requests a second double; those that were answered well do not."""
    healthy = wrk.parse(recorded("wrk/healthy"), 20)
    faulty = wrk.parse(recorded("wrk/port-range"), 200)
    assert faulty.requests / faulty.seconds > 2 * healthy.requests / healthy.seconds
    assert faulty.good_per_second == pytest.approx((54041 - 46268) / 2.030835)
    assert wrk.parse(recorded("wrk/refused"), 20).good_per_second == 0


@pytest.mark.parametrize("out", [recorded("wrk/unknown-host"), "", "Running 3s test\n"])
def test_wrk_without_a_result(out: str) -> None:
    with pytest.raises(CannotRun, match="wrk gave no result"):
        wrk.parse(out, 20)


@pytest.mark.parametrize(("name", "mss"), [("healthy", 1460), ("mtu", 256), ("dropped", 0)])
def test_the_announced_segment_size(name: str, mss: int) -> None:
    assert capture.parse_mss(recorded(f"capture/{name}")) == mss


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("running", State(True, 0, False)),
        ("killed", State(False, 137, False)),
        ("memory", State(False, 137, True)),
    ],
)
def test_the_state_of_a_container(name: str, state: State) -> None:
    attrs = {"State": json.loads(recorded(f"container/{name}"))}
    inspected: Any = SimpleNamespace(attrs=attrs, labels={}, id="x", reload=lambda: None)
    docker: Any = SimpleNamespace(errors=nullcontext)
    machine = DockerMachine("nginx", inspected, docker)
    assert dataclasses.replace(machine.state, started="") == state


def test_processors() -> None:
    now = host.parse_processors(recorded("host/cpu"))
    each = (1352056, 1113190), (1431137, 1034718)
    assert now == host.Processors(2783193, 2147908, 2, 19, 6151.157336)
    for usable, its in {"0": each[:1], "1": each[1:], "0-1": each, "0,1": each}.items():
        told = host.parse_processors(recorded("host/cpu") + f"Cpus_allowed_list:\t{usable}\n")
        assert (told.busy, told.idle, told.count) == (*map(sum, zip(*its, strict=True)), len(its))
    later = dataclasses.replace(now, busy=now.busy + 150, idle=now.idle + 50)
    assert later.busy_percent_since(now) == 75
    assert now.busy_percent_since(now) == 0


def test_fpm() -> None:
    static = fpm.parse(recorded("fpm/static"))
    assert (static.mode, static.active, static.idle) == ("static", 1, 23)
    full = fpm.parse(recorded("fpm/full"))
    assert full == fpm.Status("dynamic", 5, 0, 29, 98, 1, 0, 160)
    with pytest.raises(CannotRun, match="PHP-FPM printed no JSON: 'File not found"):
        fpm.parse("File not found.\n")
    work = fpm.parse_work(recorded("fpm/work"))
    assert work == fpm.Work(accepted=26030, requests=26030)
    # One connection brought many requests; or its workers were new ones at the end.
    assert fpm.Work(26032, 27030).share(work, 1000) == 1
    assert fpm.Work(26530, 30).share(work, 1000) == 0.5
    assert work.share(work, 1000) == 0
    assert work.share(work, 0) == 1


def test_memory() -> None:
    healthy = host.parse_memory(recorded("host/memory-idle"))
    assert healthy == Memory(1252880, 451420, 522904, 0, 42642, 123487, 19985, 0, 0)
    swapping = host.parse_memory(recorded("host/memory-swapping"))
    assert swapping == Memory(*(1252880, 76564, 67252, 196972, 21259, 100965, 12874, 2097148, 0))
    assert healthy.available_percent == pytest.approx(41.7, abs=0.1)
    assert swapping.available_percent == pytest.approx(5.4, abs=0.1)


@pytest.mark.parametrize(
    ("name", "seconds", "visits", "resumed", "gave_up"),
    [
        ("healthy", 3.4798, 113, 113, 0),
        ("faulty", 2.4674, 105, 0, 0),
        ("refused", 0.0175, 0, 0, 2),
    ],
)
def test_tls_visits(name: str, seconds: float, visits: int, resumed: int, gave_up: int) -> None:
    got = tls.parse(recorded(f"tls/visits-{name}"), 2)
    assert got.seconds == pytest.approx(seconds, abs=1e-4)
    assert (got.visits, got.resumed, got.gave_up) == (visits, resumed, gave_up)
    assert got.per_second == pytest.approx(visits / seconds, rel=1e-3)


def test_tls_visits_without_a_clock() -> None:
    with pytest.raises(CannotRun, match="openssl s_time gave no result: nothing"):
        tls.parse("", 2)


@pytest.mark.parametrize(("name", "reused"), [("healthy", 5), ("faulty", 0)])
def test_tls_sessions_reused(name: str, reused: int) -> None:
    assert tls.parse_reused(recorded(f"tls/reconnects-{name}")) == reused


def test_tls_lifetime() -> None:
    said = "    TLS session ticket lifetime hint: {} (seconds)\n"
    assert tls.parse_lifetime(said.format(7200) + said.format(300)) == 300
    assert tls.parse_lifetime("connect:errno=111\n") == 0


def test_tls_sessions_without_a_handshake() -> None:
    with pytest.raises(CannotRun, match=r"openssl s_client: .*Connection refused"):
        tls.parse_reused(recorded("tls/reconnects-refused"))


@pytest.mark.parametrize("gzip", [True, False])
def test_curl_takes_gzip_only_when_asked(gzip: bool) -> None:
    client = Printing(recorded("curl/healthy"))
    curl.get(machine(client), "http://web/", gzip=gzip)
    assert ("Accept-Encoding: gzip" in client.typed[0]) == gzip


def test_mysql_counters() -> None:
    counted = mysql.parse_counters(recorded("mysql/counters"))
    assert counted == {"Com_insert": 375, "Com_select": 3016}


def test_a_quota_that_is_used_up() -> None:
    tight = cgroup.parse(recorded("cgroup/quota"))
    assert tight.periods and tight.throttled
    share = 100 * tight.throttled / tight.periods
    free = dataclasses.replace(tight, periods=0, throttled=0)
    assert tight.throttled_percent_since(free) == pytest.approx(share)
    assert tight.throttled_percent_since(tight) == 0
    none = dataclasses.replace(tight, periods=None, throttled=None)
    assert none.throttled_percent_since(none) == 0


@pytest.mark.parametrize(
    ("name", "counted", "times"),
    [
        ("healthy", (10436, 26493, 0), (2**10, 2**16)),
        ("link", (685, 2247, 0), (2**15, 2**21)),
        ("memory", (13994, 28819, 20205), (2**16, 2**20)),
        ("turned-away", (0, 22149, 51), (2**7, 2**15)),  # half of the crowd was not let in
        ("refused", (0, 0, 0), (0, 0)),
    ],
)
def test_memcaslap(name: str, counted: tuple[int, ...], times: tuple[int, ...]) -> None:
    """Speeds are of the last second; times are powers of two, in microseconds."""
    got = memcaslap.parse(recorded(f"memcaslap/{name}"), 64)
    per_second, operations, errors = counted
    assert (got.connections, got.operations_per_second) == (64, per_second)
    assert (got.operations, got.misses, got.errors) == (operations, 0, errors)
    assert got.failed_share == (errors / operations if operations else 1)
    assert [round(1e6 * seconds) for seconds in (got.p50, got.p99)] == list(times)


def test_memcaslap_smallest_value() -> None:
    """A share of nothing stores nothing, and the lengths of keys do not count."""
    config = "# lengths\nkey\n24 24 1\nvalue\n1 9 0\n64 100 0.1\n8192 8192 0.9\ncmd\n0 0.5\n"
    assert memcaslap.smallest(config) == 64
    assert memcaslap.smallest("key\n24 24 1\n") == 0


def test_memcaslap_counts_bytes() -> None:
    """24 bytes of key and 8192 of value in each operation; it rounds to 0.1 MB."""
    got = memcaslap.parse(recorded("memcaslap/healthy"), 64)
    assert got.bytes_per_second == pytest.approx(10436 * (24 + 8192), rel=0.001)
    assert got.bytes_an_operation == pytest.approx(24 + 8192, rel=0.001)
    assert got.gets == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("out", "last"),
    [
        (recorded("memcaslap/unknown-host"), "getaddrinfo.*Temporary failure"),
        ("sh: 1: memcaslap: not found\nerrors: 0\n", "sh: 1: memcaslap: not found"),
        ("errors: 0\n", "nothing"),
        ("", "nothing"),
    ],
)
def test_memcaslap_without_a_result(out: str, last: str) -> None:
    with pytest.raises(CannotRun, match=f"memcaslap gave no result: {last}"):
        memcaslap.parse(out, 64)


def test_mysqlslap() -> None:
    """Its mean over one run is that run."""
    got = mysqlslap.parse(recorded("mysqlslap/report"), 32)
    assert (got.queries, got.clients, got.seconds) == (32, 4, 2.341)
    assert got.per_second == pytest.approx(32 / 2.341)


@pytest.mark.parametrize("name", ["refused", "denied", "unknown-host", "no-file", ""])
def test_mysqlslap_without_a_result(name: str) -> None:
    """It goes on counting for clients that cannot connect."""
    with pytest.raises(CannotRun, match="mysqlslap gave no result"):
        mysqlslap.parse(recorded(f"mysqlslap/{name}") if name else "", 32)


def test_link() -> None:
    assert eth0("mtu").link == Link(16505417, 10e9)  # the speed of a veth
    assert eth0("tbf").link == Link(271878, 1e6)


def test_how_full_a_link_is() -> None:
    """Half a second, 6.25 MB: 100 Mbit/s of 1 Gbit/s."""
    assert Link(6_250_000, 1e9).used_percent_since(Link(0, 1e9), 0.5) == pytest.approx(10)


def test_how_busy_a_daemon_keeps_the_processors() -> None:
    """One of four, all the time."""
    assert Cpu(7.0, 4).busy_percent_since(Cpu(5.0, 4), 2) == 25


def test_what_a_firewall_knows_and_for_how_long() -> None:
    """The pool of idle-drop, fixed: a probe of app comes before the entry ends."""
    known = conntrack.parse_rests(recorded("conntrack/idle"))
    ours = sockets.parse_probes(recorded("sockets/keepalive"), client=2)
    theirs = sockets.parse_probes(recorded("sockets/served"), client=3)
    assert len(known) == 40 and set(known.values()) == {3}
    assert known.keys() == ours.keys() == theirs.keys()
    assert {round(seconds, 2) for seconds in ours.values()} == {0.38}
    assert set(theirs.values()) == {119 * 60}


@pytest.mark.parametrize(
    ("timer", "seconds"),
    [
        ("timer:(keepalive,1.592ms,0)", 1.592),
        ("timer:(keepalive,19sec,0)", 19),
        ("timer:(keepalive,1min59sec,0)", 119),
        ("timer:(on,1.2sec,3)", math.inf),
        ("", math.inf),
    ],
)
def test_a_timer_of_ss(timer: str, seconds: float) -> None:
    line = f"0 0 198.18.3.5:60798 198.18.3.4:3306 {timer}\n"
    assert sockets.parse_probes(line, client=2) == {60798: pytest.approx(seconds)}


@pytest.mark.parametrize(("name", "count"), [("kept-out", 0), ("let-in", 24)])
def test_packets_without_a_connection(name: str, count: int) -> None:
    assert stray.parse(recorded(f"stray/{name}")) == count
