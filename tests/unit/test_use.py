"""Use: the USE table, from what real machines printed, healthy and faulty."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import State
from faultlab.engine.shell import Done
from faultlab.lab.model import KERNEL
from faultlab.observe.use import limits, rows, sections
from faultlab.observe.use import table as use
from faultlab.observe.use.cells import Row, Value, blank, in_bytes, short
from faultlab.observe.use.sections import NO_ANSWER, Pair, Section, Sections, Unread
from faultlab.probes import cgroup, descriptors, fpm, host, interface, mysql, sockets
from faultlab.run import placement
from faultlab.verify import transcript
from tests.unit.conftest import REPO, Run, recorded, said

PROBES = {"php-fpm": "fpm"}
INVALID = "Invalid value for '--seconds'"


def looks(lab: str) -> dict[str, Sections]:
    return {at: sections.split(recorded(f"use/{lab}-{at}")) for at in ("web", "php-fpm")}


def web(lab: str) -> dict[str, Row]:
    found = use.rows_of("web", PROBES, looks(lab), {})
    return {row.resource.partition(" nginx")[0].removesuffix(" php-fpm8.2"): row for row in found}


def marked(found: dict[str, Row]) -> set[str]:
    return {name for name, row in found.items() if limits.crossed(row)}


@pytest.mark.parametrize(
    ("lab", "wrong"),
    [
        ("healthy", set()),
        ("somaxconn", {"listen :80"}),
        ("port-range", {"local ports"}),
    ],
)
def test_what_is_marked(lab: str, wrong: set[str]) -> None:
    """Each under its load: twenty users, four hundred visitors, two hundred users of PHP."""
    assert marked(web(lab)) == wrong


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """The whole of what a person sees, within 80 columns but for commands."""
    body = use.judged(use.rows_of("web", PROBES, looks("somaxconn"), {}))
    use.print_table(Terminal(), use.Table("web", "web: php-fpm", body))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert "\n".join(lines) + "\n" == recorded("use/somaxconn-table")
    assert [line for line in lines if len(line) > 80] == []


def test_a_look_is_two_readings_with_their_seconds() -> None:
    pair = looks("healthy")["web"].pair("cgroup", cgroup.parse)
    assert isinstance(pair, Pair)
    assert 2 <= pair.seconds < 10
    assert 0 < pair.after.cpu - pair.before.cpu < 2 * pair.seconds


def test_the_script_runs_in_a_plain_shell(tmp_path: Path) -> None:
    """A command that fails, one that asks for the next line, and one without a newline."""
    commands = {"good": "printf one", "bad": "echo no such thing >&2; exit 3", "last": "echo two"}
    done = Local().run(sections.script(commands, 0.1))
    found = sections.split(done.out)
    good = found.pair("good", str)
    assert isinstance(good, Pair) and (good.before, good.after) == ("one", "one")
    assert 0.1 <= good.seconds + 0.02 < 30
    assert found.pair("bad", str) == Unread("no such thing")
    last = found.pair("last", str.strip)
    assert isinstance(last, Pair) and last.after == "two"
    assert found.pair("never asked", str) == Unread("it was cut off")


class Local:
    """A shell on this machine."""

    name = "here"

    def run(self, command: str, timeout: float = 30) -> Done:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        return Done(command, done.returncode, done.stdout, done.stderr, 0)


@pytest.mark.parametrize(
    ("section", "why"),
    [
        (Section("", 124, 1.0), NO_ANSWER),
        (Section("", 1, 1.0), "it printed nothing"),
        (Section("Device does not exist.\n", 1, 1.0), "Device does not exist."),
        (Section("half a li", 0, 1.0), "not understood: half a li"),
    ],
)
def test_what_cannot_be_read_says_why(section: Section, why: str) -> None:
    found = Sections({"x": section}, {"x": section}).pair("x", cgroup.parse)
    assert found == Unread(why)


def test_a_place_that_cannot_be_entered() -> None:
    class Gone(Local):
        def run(self, command: str, timeout: float = 30) -> Done:
            raise CannotRun("nginx is not running any more.")

    found = sections.read(cast("Any", Gone()), {"cgroup": "true"}, 1)
    row, _ = rows.container("nginx", found)
    assert row.unread == "nginx is not running any more."
    assert [value.number for _, value in row.values] == [None] * 3


@pytest.mark.parametrize("name", ["cgroup", "network", "sockets", "counters", "files", "filter"])
def test_a_value_that_cannot_be_read_is_never_0(name: str) -> None:
    """Whatever is missing, its cells are `-` with a reason, and nothing is marked for it."""
    whole = {row.resource: row for row in use.rows_of("web", PROBES, looks("healthy"), {})}
    for broken in (Section("", 0, 1.0), Section("sh: 1: ss: not found\n", 127, 1.0), None):
        found = looks("healthy")
        here = {**found["web"].before, **({name: broken} if broken else {})}
        if broken is None:
            del here[name]
        found["web"] = replace(found["web"], before=here)
        body = list(use.rows_of("web", PROBES, found, {}))
        for row in body:
            was = whole.get(row.resource)
            for part, value in row.values:
                assert value.number != 0 or (was and getattr(was, part) == value), row
                assert (value.text == "-") <= bool(value.reason), row
                assert (value.text == "-") <= (value.number is None), row
        assert any(row.unread for row in body)
        assert not any(limits.crossed(row) for row in body)


# --- the readers -----------------------------------------------------------------------------


def test_cgroup_v1() -> None:
    free = cgroup.parse(recorded("cgroup/v1"))
    assert (free.version, free.cpus, free.quota, free.limit) == (1, 2, False, None)
    tight = cgroup.parse(recorded("cgroup/quota"))
    assert (tight.cpus, tight.quota, tight.limit) == (0.1, True, 64 << 20)
    assert (tight.periods, tight.throttled, tight.killed) == (15, 13, 0)
    assert 10 << 20 < tight.memory < 64 << 20


# In the form of the kernel's admin-guide/cgroup-v2: there was no such kernel to record it on.
V2 = """\
cpu.stat:usage_usec {usage}
cpu.stat:user_usec 1
cpu.stat:nr_periods {periods}
cpu.stat:nr_throttled {throttled}
cpu.max:{quota} 100000
cpu.pressure:some avg10=0.00 avg60=0.00 avg300=0.00 total={wait}
cpu.pressure:full avg10=0.00 avg60=0.00 avg300=0.00 total=0
memory.current:150000000
memory.max:{limit}
memory.events:low 0
memory.events:max {hits}
memory.events:oom_kill {kills}
memory.stat:anon 100000000
memory.stat:inactive_file 50000000
memory.pressure:some avg10=0.00 avg60=0.00 avg300=0.00 total=0
4
"""


def v2(**changes: object) -> str:
    facts: dict[str, object] = {
        **{"usage": 1000000, "periods": 0, "throttled": 0, "quota": "max", "wait": 0},
        **{"limit": "max", "hits": 0, "kills": 0},
    }
    return V2.format(**{**facts, **changes})


def container_rows(before: str, after: str) -> tuple[Row, Row]:
    sections_of = {"cgroup": Section(before, 0, 1.0)}, {"cgroup": Section(after, 0, 3.0)}
    cpu, memory = rows.container("tomcat", Sections(*sections_of))
    return cpu, memory


def test_cgroup_v2() -> None:
    cpu, memory = container_rows(v2(), v2(usage=5000000, wait=1000000))
    assert cpu.utilisation == Value(50.0, "%", "50% of 4 cpus")
    assert cpu.saturation == Value(50.0, "%", "50% waiting")  # no quota, so no setting is to blame
    assert memory.utilisation.text == "100 MB, no limit"
    assert not limits.crossed(cpu) and not limits.crossed(memory)
    assert cpu.command == "cat /sys/fs/cgroup/cpu.{stat,pressure}"


def test_a_quota_that_throttles_and_a_limit_that_kills() -> None:
    before = v2(quota=20000, limit=160000000)
    after = v2(quota=20000, limit=105000000, periods=20, throttled=19, hits=7, kills=1)
    cpu, memory = container_rows(before, after)
    assert cpu.saturation.text == "95% throttled"
    assert memory.saturation.text == "7 at limit"
    assert [why for _, why in limits.crossed(cpu)] == ["its quota stopped it: 95% throttled"]
    assert [limit.part for limit, _ in limits.crossed(memory)] == ["utilisation", "errors"]


def test_a_shaped_link_that_is_full_is_marked() -> None:
    before = Section(recorded("interface/tbf"), 0, 1.0)
    sent = interface.parse(before.out)["eth0"].tx_bytes
    text = before.out.replace(f'"bytes":{sent}', f'"bytes":{sent + 245000}')
    found = Sections({"network": before}, {"network": Section(text, 0, 3.0)})
    row = next(row for row in rows.namespace("web", found) if row.resource == "eth0")
    assert row.utilisation == Value(98.0, "%", "1.0 of 1.0 Mb/s")
    assert row.saturation.text == "40 waiting"
    assert [why for _, why in limits.crossed(row)] == ["the link is full: 1.0 of 1.0 Mb/s"]


def test_syns_that_are_turned_away() -> None:
    """Drops of a listener count, less those by a full accept queue; a cookie loses nothing."""
    text = recorded("use/somaxconn-web")
    counters = sections.split(text).after["counters"].out

    def grown(**by: int) -> Row:
        later = json.loads(counters)
        for name, more in by.items():
            later["kernel"][name] += more
        before, after = Section(counters, 0, 1.0), Section(json.dumps(later), 0, 3.0)
        found = rows.namespace("web", Sections({"counters": before}, {"counters": after}))
        return next(row for row in found if row.resource == "SYN_RECV")

    dropped = grown(TcpExtListenDrops=70, TcpExtListenOverflows=30)
    assert dropped.saturation.text == "40 turned away"
    assert [why for _, why in limits.crossed(dropped)] == ["SYNs found no place: 40 turned away"]
    assert limits.crossed(grown(TcpExtListenDrops=30, TcpExtListenOverflows=30)) == []
    assert limits.crossed(grown(TcpExtTCPReqQFullDoCookies=30)) == []


def test_sockets() -> None:
    got = sockets.parse(recorded("sockets/port-range"))
    assert (got.peer, got.taken, got.ports) == ("127.0.0.1:9000", 51, 51)
    assert [(one.port, one.backlog, one.lost) for one in got.listeners if one.port != 33637] == [
        (80, 10, 4619),
        (9000, 4096, 0),
    ]
    assert got.states["TIME-WAIT"] == 21158


@pytest.mark.parametrize(
    ("reuse", "peer", "taken"),
    [
        (0, "127.0.0.1:9000", 30),
        (1, "10.0.0.1:80", 10),
        (2, "127.0.0.1:9000", 10),
        (2, "10.0.0.1:80", 30),
        (2, "[::1]:9000", 10),
    ],
)
def test_a_port_in_time_wait_may_be_used_again(reuse: int, peer: str, taken: int) -> None:
    """The 20 that are older than a second, where tcp_tw_reuse allows it for this peer."""
    settings = recorded("sockets/healthy").splitlines()
    kept = [line for line in settings if not line.startswith(("taken", "tcp_tw_reuse"))]
    lines = [*kept, f"tcp_tw_reuse:{reuse}", f"taken {peer} busy 10", f"taken {peer} old 20"]
    assert sockets.parse("\n".join(lines)).taken == taken


def test_descriptors() -> None:
    found = descriptors.parse(recorded("descriptors/web"))
    assert {"nginx", "php-fpm8.2"} <= {one.name for one in found}
    tight = descriptors.Process(7, "java", 60, 64)
    assert descriptors.fullest([*found, tight]) == tight


def test_the_host() -> None:
    memory = host.parse_memory(recorded("host/memory"))
    assert memory.swap_total == 0 and 0 < memory.available < memory.total
    assert set(host.parse_disks(recorded("host/disks"))) == {"vda"}
    space = host.parse_space(recorded("host/space"))
    assert space.used > 0 and space.free > 0


@pytest.mark.parametrize(
    "name", ["vda1", "nvme0n1p2", "loop0", "mmcblk0p1", "sdb12", "sr0", "md0", "dm-0", "zram0"]
)
def test_whole_disks_only(name: str) -> None:
    line = " 254 0 {} 10 0 80 5 10 0 80 5 0 9 10 0 0 0 0 0 0\n"
    lines = [line.format(one) for one in ("vda", "nvme0n1", "mmcblk0", "sdb", name)]
    assert set(host.parse_disks("".join(lines))) == {"vda", "nvme0n1", "mmcblk0", "sdb"}


def test_fpm() -> None:
    got = fpm.parse(recorded("fpm/fastcgi"))
    assert (got.active, got.idle, got.listen_queue) == (1, 23, 0)


def pool(before: fpm.Status, after: fpm.Status, served: int = 0) -> Row:
    after = replace(after, accepted=before.accepted + served)
    return rows.pool("php-fpm", "web", Pair(before, after, 2.0))


def test_a_pool_without_a_free_worker() -> None:
    idle = fpm.parse(recorded("fpm/fastcgi"))
    full = replace(idle, active=5, idle=0, listen_queue=194, max_children_reached=1)
    assert pool(idle, idle).utilisation.text == "0 of 24 busy"
    row = pool(full, full)
    assert (row.utilisation.text, row.saturation.text) == ("5 of 5 busy", "194 waiting")
    assert [why for _, why in limits.crossed(row)] == [
        "all workers are busy, and a request waits too long: 194 waiting"
    ]
    assert len(limits.crossed(pool(idle, full))) == 2  # it could not grow any more
    slow, quick = pool(full, full, served=190), pool(full, full, served=400)  # in two seconds
    assert (slow.saturation.text, limits.crossed(slow) != []) == ("194 waiting 2.0 s", True)
    assert (quick.saturation.text, limits.crossed(quick) != []) == ("194 waiting 0.97 s", False)
    late = replace(full, active=3, idle=2)  # workers are free: somebody else lets it wait
    assert limits.crossed(pool(late, late)) == []


def test_a_pool_that_does_not_answer() -> None:
    silent = rows.pool("php-fpm", "web", Unread(NO_ANSWER))
    assert [why for _, why in limits.crossed(silent)] == ["no worker was free: no answer in 5 s"]
    unread = web("port-range")["php-fpm"]  # no local port for us either
    assert unread.unread == "Could not connect to 127.0.0.1:9000"
    assert limits.crossed(unread) == []


def test_mysql() -> None:
    idle, busy = (mysql.parse(recorded(f"mysql/{name}")) for name in ("idle", "busy"))
    assert (idle.connected, idle.most, idle.refused, idle.lock_waiting) == (1, 10, 0, 0)
    assert (busy.connected, busy.most, busy.refused, busy.lock_waiting) == (11, 10, 3, 2)
    sections_of = [Section(recorded(f"mysql/{name}"), 0, at) for name, at in MYSQL]
    found = Sections({"database": sections_of[0]}, {"database": sections_of[1]})
    by_name = {row.resource: row for row in rows.database("mysql", found)}
    assert by_name["mysql sessions"].utilisation.text == "11 of 10"
    assert by_name["mysql sessions"].errors.text == "3 refused"
    assert by_name["mysql buffers"].saturation.text == "0 waits"
    assert marked(by_name) == {"mysql sessions"}  # at the first look no statement waited for a lock
    found = Sections({"database": replace(sections_of[1], at=1.0)}, {"database": sections_of[1]})
    by_name = {row.resource: row for row in rows.database("mysql", found)}
    assert by_name["mysql row locks"].saturation.text == "2 waiting"
    assert marked(by_name) == {"mysql sessions", "mysql row locks"}


MYSQL = [("idle", 1.0), ("busy", 3.0)]


def counted(**more: int) -> dict[str, Row]:
    """Return the rows of an idle MySQL where these counters have grown in two seconds."""
    before = recorded("mysql/idle")
    lines = [line.split("\t", 1) for line in before.splitlines() if "\t" in line]
    assert set(more) <= {name for name, _ in lines}
    own = more | {"Rows_sent": more.get("Rows_sent", 0) + len(lines)}  # our first reading's lines
    after = "\n".join(
        f"{name}\t{int(value) + own[name] if name in own else value}" for name, value in lines
    )
    sections_of = {"database": Section(before, 0, 1.0)}, {"database": Section(after, 0, 3.0)}
    return {row.resource: row for row in rows.database("mysql", Sections(*sections_of))}


def test_a_program_that_only_tries_the_port_is_not_refused() -> None:
    """A SYN of mtr, or a check of the port: MariaDB counts it as aborted before its login."""
    assert marked(counted(Aborted_connects=3, Aborted_connects_preauth=3)) == set()
    assert marked(counted(Aborted_connects=3, Aborted_connects_preauth=2)) == {"mysql sessions"}


@pytest.mark.parametrize(
    ("grown", "wrong"),
    [
        ({"Rows_read": 520_000, "Rows_sent": 200, "Questions": 50}, False),
        ({"Rows_read": 520_000, "Rows_sent": 100, "Questions": 50}, True),
        ({"Rows_read": 520_000, "Questions": 600}, False),  # statements that send no rows
        ({"Created_tmp_tables": 80, "Created_tmp_disk_tables": 40}, True),
        ({"Created_tmp_tables": 80, "Created_tmp_disk_tables": 4}, False),
        ({"Rows_read": 57_000, "Handler_read_rnd_next": 57_000, "Questions": 90}, True),
        ({"Rows_read": 57_000, "Handler_read_rnd_next": 9_000, "Questions": 90}, False),
        ({"Rows_read": 900, "Handler_read_rnd_next": 900, "Questions": 90}, False),  # a small table
    ],
)
def test_statements_that_cost_too_much(grown: dict[str, int], wrong: bool) -> None:
    assert marked(counted(**grown)) == ({"mysql statements"} if wrong else set())


def test_a_filter_is_marked_only_where_something_listens() -> None:
    """syn-flood's crowd drops what it does not want to hear: no user of web is concerned."""
    chain = recorded("iptables/chains")
    text = recorded("use/healthy-web")
    serving = sections.split(text).after["sockets"]
    client = "\n".join(line for line in serving.out.splitlines() if "0.0.0.0:80 " not in line)
    for out, wrong in ((serving.out, True), (client, False)):
        more = chain.replace("      15      636 DROP", "      25     1636 DROP")
        before = {"filter": Section(chain, 0, 1.0), "sockets": Section(out, 0, 1.0)}
        after = {"filter": Section(more, 0, 3.0), "sockets": Section(out, 0, 3.0)}
        found = rows.namespace("web", Sections(before, after))
        row = next(row for row in found if row.resource == "packet filter")
        assert row.errors.text == "10 dropped"
        assert bool(limits.crossed(row)) == wrong


# --- limits and cells ------------------------------------------------------------------------


def test_a_limit_is_crossed_from_its_number_on() -> None:
    for limit in limits.LIMITS:
        assert limit.source and "{}" in limit.says
        none = blank("-")
        for number, wrong in ((limit.at_least, True), (limit.at_least - 0.01, False)):
            cells = {"utilisation": Value(limit.used, "", ""), "saturation": none, "errors": none}
            cells[limit.part] = Value(number, "", "so many")
            row = Row("x", limit.kind, "web", "true", **cells)
            assert (limit in [found for found, _ in limits.crossed(row)]) == wrong


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.017, "0.02"), (1.26, "1.3"), (51.3, "51"), (12345, "12,345"), (2.34e6, "2.34M")],
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert short(number) == text


def test_bytes_are_short() -> None:
    assert [in_bytes(n) for n in (3e6, 1.07e9, 25e9)] == ["3 MB", "1.1 GB", "25 GB"]


# --- the command -----------------------------------------------------------------------------


class Place(dict[str, Any]):
    """A stack whose machines print what was recorded."""

    def __init__(self, lab: str, kernel: object = None) -> None:
        super().__init__({name: Recorded(name, lab) for name in ("client", "web", "nginx")})
        self["php-fpm"] = Recorded("php-fpm", lab)
        self.engine = SimpleNamespace(kernel=kernel, owns_kernel=kernel is not None)

    def shell(self, at: str) -> Any:
        return self.engine.kernel if at == KERNEL else self[at]


class Recorded(Local):
    """A machine or daemon that prints what one like it printed."""

    def __init__(self, name: str, lab: str) -> None:
        self.name = name
        self.file = "web" if name in ("client", KERNEL) else "php-fpm" if name == "nginx" else name
        self.lab = lab
        self.state = State(True, 0, False, "")
        self.asked: list[str] = []

    def typed(self, action: str) -> str:
        return f"docker {action} faultlab-{self.lab}-{self.name}"

    def run(self, command: str, timeout: float = 30) -> Done:
        self.asked.append(command)
        return Done(command, 0, recorded(f"use/{self.lab}-{self.file}"), "", 2.0)


Up = Callable[..., Place]


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch) -> Iterator[Up]:
    """`up(lab)`: its stack is up, and prints what was recorded."""

    def be(lab: str, kernel: object = None) -> Place:
        place = Place(lab, kernel)
        monkeypatch.setattr(placement, "up", lambda _lab: place)
        return place

    yield be


def test_each_place_is_entered_once(up: Up, faultlab: Run) -> None:
    place = up("healthy")
    got = faultlab("use", "healthy")
    assert got.code == 0 and got.err == ""
    assert [len(machine.asked) for machine in place.values()] == [1, 1, 1, 1]
    assert got.out.count("nothing looks wrong") == 3  # client, web, and the host


def test_rows_that_look_wrong_are_no_failure(up: Up, faultlab: Run) -> None:
    up("somaxconn")
    got = faultlab("use", "somaxconn", "web")
    assert got.code == 0
    assert "LOOK 10: listen :80: connections found no place in the accept queue" in got.out
    assert "\nclient" not in got.out


def test_json(up: Up, faultlab: Run) -> None:
    up("port-range")
    got = faultlab("use", "port-range", "web", "--json")
    told = json.loads(got.out)
    assert [table["name"] for table in told["tables"]] == ["web", "host"]
    by_name = {row["resource"]: row for row in told["tables"][0]["rows"]}
    wrong = by_name["local ports"]["wrong"]
    assert wrong[0]["part"] == "utilisation" and wrong[0]["from"] == 50
    silent = by_name["php-fpm"]["saturation"]
    assert silent["value"] is None and silent["text"] == "-"
    assert silent["reason"] == "Could not connect to 127.0.0.1:9000"
    assert by_name["php-fpm"]["command"] and by_name["php-fpm"]["at"] == "web"


def test_in_the_vm_the_host_is_its_kernel(up: Up, faultlab: Run) -> None:
    kernel = Recorded(KERNEL, "healthy")
    place = up("healthy", kernel)
    got = faultlab("use", "healthy", "web", "--json")
    table = json.loads(got.out)["tables"][-1]
    assert table["title"] == "the lab VM's kernel"
    assert {row["at"] for row in table["rows"]} == {KERNEL}
    assert len(kernel.asked) == 1 and "diskstats" in kernel.asked[0]
    assert "diskstats" not in place["web"].asked[0]


def test_a_daemon_that_has_ended(up: Up, faultlab: Run) -> None:
    place = up("healthy")
    place["php-fpm"].state = State(False, 137, True, "")
    got = faultlab("use", "healthy", "web")
    assert got.code == 0
    assert "php-fpm: it is not running: exit 137, OOM" in got.out
    assert "$ docker logs --tail 5 faultlab-healthy-php-fpm" in got.out


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        ("mut", "There is no lab called 'mut'; did you mean mtu?", "start mtu"),
        ("mtu db", "mtu has no machine 'db'; its machines: client, web.", "use mtu client"),
        ("mtu nginx", "nginx is a daemon of web; its machines: client, web.", "use mtu web"),
        ("mtu --seconds 0", "--seconds takes 0.1 to 300, got 0.", "use --help"),
        ("mtu --seconds nan", "--seconds takes 0.1 to 300, got nan.", "use --help"),
        ("mtu --seconds two", f"{INVALID}: 'two' is not a valid float.", "use --help"),
    ],
)
def test_bad_input(words: str, problem: str, hint: str, up: Up, faultlab: Run) -> None:
    up("healthy")
    got = faultlab("use", *words.split())
    assert got == said(problem, f"faultlab {hint}")


def test_a_machine_that_has_stopped(up: Up, faultlab: Run) -> None:
    up("healthy")["web"].state = State(False, 0, False, "")
    got = faultlab("use", "mtu")
    assert got == said("web is not running.", "make reset-mtu", 3)


def test_the_page_is_recorded_and_shows_each_mark() -> None:
    found = transcript.blocks((REPO / "docs/use.md").read_text())
    assert [(phase, run) for phase, run, _ in found] == [("host", "host")] * 2
    table, marks = (body for _, _, body in found)
    shown = [line for line in table.splitlines() if not re.match(r"\$ | *\d+ \S+[#$] ", line)]
    assert [line for line in shown if len(line) > 80] == []
    assert "listen :80: connections found no place in the accept queue" in table
    for words in (
        "web: nothing looks wrong",
        "local ports: local ports run out: 5",
        "eth0: the interface drops packets",
        "packet filter: a rule drops packets",
    ):
        assert words in marks
