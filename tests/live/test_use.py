"""Use: under load the USE table of a real stack marks the fault, and nothing where all is well."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from faultlab.core import lock
from faultlab.core.naming import stack_name
from faultlab.engine.contract import Machine
from faultlab.engine.docker.local import LocalEngine
from faultlab.lab import loader as labs
from faultlab.observe.use import limits
from faultlab.observe.use import table as use
from faultlab.observe.use.cells import Row
from faultlab.probes import nstat
from faultlab.run.run import Run
from faultlab.run.stack_in_phase import stack_in_phase
from tests.live.commandline import finish, spawn
from tests.live.stacks import container
from tests.waiting import until

pytestmark = pytest.mark.rotates
USERS = "wrk -t1 -c{} -d60s http://web/index.php"
# What each lab is put under, from where, the row of web that must be marked, those that may be.
LOADS = {
    "healthy": ("client", USERS.format(20), set(), set()),
    "somaxconn": ("client", "timeout 60 ab -rc400 -t60 -n9999999 http://web/", {"listen"}, set()),
    "syn-flood": ("crowd", "hping3 -q -S -p 80 -c 60000 -i u1000 web", {"half open"}, {"tcp"}),
    "port-range": ("client", USERS.format(200), {"ports"}, {"pool"}),
    "mtu": (
        "client",
        "for i in 1 2 3 4 5; do timeout 60 ab -t 60 http://web/ & done",
        {"link"},
        set(),
    ),
    "iptables-drop": ("client", "hping3 -S -p 80 -c 3000 -i u20000 web", {"filter"}, {"tcp"}),
}  # fmt: skip


@contextmanager
def under_load(lab_id: str) -> Iterator[Run]:
    """A lab with its fault in, and its users."""
    lab, name = labs.load(lab_id), stack_name(lab_id)
    with lock.hold(name, "use"), stack_in_phase(LocalEngine(), lab, name) as run:
        run.inject()
        before = _received(run)
        at, command, _, _ = LOADS[lab_id]
        with lock.turn(alone=True):
            run.stack[at].must(f"{{ {command}; }} >/dev/null 2>&1 &")
            until(lambda: _received(run) >= before + 10, 30, "the load did not begin")
            yield run


def _received(run: Run) -> int:
    return nstat.read(run.stack["web"], ["IpInReceives"])["IpInReceives"]


def _marked(rows: tuple[Row, ...]) -> set[str]:
    return {row.kind for row in rows if limits.crossed(row)}


@pytest.mark.parametrize("lab_id", [lab_id for lab_id in LOADS if lab_id != "healthy"])
def test_the_fault_is_marked(lab_id: str) -> None:
    """On web the row of the fault, and no row that has nothing to do with it."""
    _, _, must, may = LOADS[lab_id]
    with under_load(lab_id) as run:
        (web, _) = use.tables(run.lab, run.stack, ["web"], 1)
        found = _marked(web.rows)
        assert must <= found <= must | may, [row for row in web.rows if limits.crossed(row)]


def test_nothing_is_marked_where_all_is_well() -> None:
    """And reading changes nothing, every command can be typed, and the exit codes are right."""
    with under_load("healthy") as run:
        files = _files(run.stack["web"])
        tables = use.tables(run.lab, run.stack, ["client", "web"], 1)
        assert _files(run.stack["web"]) == files
        for table in tables[:2]:
            assert _marked(table.rows) == set(), [r for r in table.rows if limits.crossed(r)]
        busy = next(row for row in tables[1].rows if row.resource == "cpu php-fpm")
        assert busy.utilisation.number, "a load, and no processor was used"
        run.stack["client"].must("pkill -x wrk")
        again = use.tables(run.lab, run.stack, ["client", "web"], 0.2)
        rows = [row for table in again for row in table.rows]
        assert [row for row in rows if row.unread] == []
        assert not any(row.resource in ("files sh", "files timeout") for row in rows)
        with ThreadPoolExecutor() as pool:
            typed = list(pool.map(lambda row: _typed(run, row), rows))
        assert [line for line in typed if line] == []
        for words, code in (
            (("healthy", "web", "--seconds", "0.5"), 0),
            (("healthy", "db"), 2),
            (("mtu",), 3),
        ):
            ended, said = finish(spawn("use", *words))
            assert ended == code, said


def _files(machine: Machine) -> set[str]:
    """Return the files in the container that differ from the image, as `docker diff` shows them."""
    changes = container(machine).diff() or []
    return {f"{change['Kind']} {change['Path']}" for change in changes}


def _typed(run: Run, row: Row) -> str:
    """Say what is wrong when a row's command, as `faultlab shell` gives it, is typed into bash."""
    quoted = row.command.replace("'", "'\\''")
    done = run.stack[row.at].run(f"bash -c '{quoted}'")
    return "" if done.code == 0 and done.out.strip() else f"{row.at}# {row.command}: {done}"
