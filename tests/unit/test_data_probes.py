"""Probes of Java and of the database: what they make of outputs that real programs printed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import cast

import pytest

from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Machine, State
from faultlab.probes import container, curl, jvm, mysql, slowlog, startup
from tests.unit.conftest import Printing, recorded


def test_jvm() -> None:
    got = jvm.parse(recorded("jvm/running"))
    assert (got.max_heap, got.threads) == (160 * 2**20, 23)
    assert (got.collections, got.collecting) == (1, 0.014)
    assert 20e6 < got.heap < 40e6


def test_a_jvm_that_is_gone() -> None:
    with pytest.raises(CannotRun, match="The JDK's tools said nothing of use: ''"):
        jvm.parse("")


def test_a_plan_with_a_key() -> None:
    plan = mysql.parse_plan(recorded("mysql/plan-key"))
    assert [(t.name, t.access, t.key) for t in plan.tables] == [
        ("orders", "ref", "customer"),
        ("lineitem", "ref", "PRIMARY"),
        ("part", "eq_ref", "PRIMARY"),
        ("price_history", "ref", "part"),
    ]
    assert plan.filesort and plan.temporary and not plan.range_checked
    assert (plan.rows("price_history"), plan.rows("nobody")) == (7, 0)


def test_a_plan_that_looks_for_a_key_again_and_again() -> None:
    plan = mysql.parse_plan(recorded("mysql/plan-range"))
    assert plan.range_checked
    assert plan.tables[-1] == mysql.Table("price_history", "ALL", None, 28368)


def test_a_plan_of_two_tables() -> None:
    plan = mysql.parse_plan(recorded("mysql/plan-booking"))
    assert (plan.rows("o"), plan.rows("t")) == (1045, 1)
    assert not (plan.filesort or plan.temporary or plan.range_checked)


def test_no_plan() -> None:
    with pytest.raises(CannotRun, match=r"EXPLAIN printed no JSON: .ERROR 1146"):
        mysql.parse_plan("ERROR 1146 (42S02): Table 'x.y' doesn't exist")


def test_statements_between_two_readings() -> None:
    before = mysql.parse_statements(recorded("mysql/statements"))
    first = before[0]
    assert first.text.startswith("SELECT ID , `SLEEP` (?) FROM `booking` . `orders`")
    assert (first.calls, first.examined, first.sent) == (1, 178, 10)
    more = mysql.Statement(before[1].text, before[1].calls + 2, 9.0, 100, 10)
    new = mysql.Statement("SELECT ?", 1, 0.5, 0, 1)
    ran = mysql.between(before, [new, more, *before[2:]])
    assert [(s.text, s.calls) for s in ran] == [(more.text, 2), ("SELECT ?", 1)]
    assert ran[0].seconds == pytest.approx(9.0 - before[1].seconds)
    assert mysql.parse_statements("") == []


def test_what_the_slow_log_names() -> None:
    logged = slowlog.parse(recorded("slowlog/queries"))
    assert [(entry.calls, round(entry.seconds, 3)) for entry in logged[:2]] == [
        (1, 1.002),
        (3, 0.107),
    ]
    ran = mysql.parse_statements(recorded("mysql/statements"))
    assert logged[0].statement(ran) == ran[0]
    restaurants = logged[1].statement(ran)
    assert restaurants and "SQL_TSI_MONTH" in restaurants.text and restaurants.calls == 3
    assert logged[1].statement([ran[0]]) is None
    assert logged[0].statement([]) is None


def test_what_somebody_else_wrote_into_the_slow_log() -> None:
    """The server has not taken that time; a few of many queries are logged as they are."""
    ran = [mysql.Statement("SELECT a FROM b", 100, 10.0, 0, 0)]
    assert slowlog.Logged("select a from b", 3, 0.9).statement(ran) == ran[0]
    assert slowlog.Logged("select a from b", 1, 100.0).statement(ran) is None
    assert slowlog.Logged("select a from b", 3, 9.0).statement(ran) is None


@pytest.mark.parametrize(
    ("where", "read"),
    [
        ("FILE\t2026-11-23 09:00:00.5\t/var/log/mysql/slow.log\n", "7/root/var/log/mysql/slow.log"),
        (
            "FILE,TABLE\t2026-11-23 09:00:00.5\t/var/lib/mysql/all.log\n",
            "+101 /proc/7/root/var/lib",
        ),
        ("TABLE\t2026-11-23 09:00:00.5\t/var/log/mysql/slow.log\n", "09:00:00.5"),
    ],
)
def test_a_slow_log_is_read_where_the_server_writes_it(where: str, read: str) -> None:
    typed: list[str] = []
    sizes = iter(["100", "200"])

    def must(command: str, timeout: float = 30) -> str:
        typed.append(command)
        if "@@log_output" in command:
            return where
        return "" if "pt-query-digest" in command else next(sizes)

    db = cast("Machine", SimpleNamespace(must=must, root="/proc/7/root"))
    assert slowlog.since(db, slowlog.mark(db)) == []
    assert read in typed[-1]


def test_an_empty_slow_log() -> None:
    assert slowlog.parse("") == []
    assert slowlog.parse("# No events processed.") == []


@pytest.mark.parametrize("out", ["{", '{"global": {}}'])
def test_no_digest_of_a_slow_log(out: str) -> None:
    with pytest.raises(CannotRun, match="pt-query-digest printed no JSON"):
        slowlog.parse(out)


def test_a_start() -> None:
    facts = json.loads(recorded("startup/back"))
    got = startup.parse(facts["started"], facts["out"])
    assert got.served
    assert 0 < got.seconds < 60
    late = startup.parse(facts["started"], facts["out"].replace("0", "124", 1))
    assert (late.served, late.seconds) == (False, got.seconds)


@pytest.mark.parametrize("out", ["", "0\n", "sh: date: not found\n"])
def test_a_start_without_a_clock(out: str) -> None:
    with pytest.raises(CannotRun, match="No times of the start"):
        startup.parse("2026-11-21T17:13:51.509009493Z", out)


def test_pages_one_by_one() -> None:
    client = Printing("200 0\n200 0\n000 52\n000 7\n200 18\n")
    typed, url = client.typed, "http://app/?kb=1"
    assert curl.one_by_one(cast("Machine", client), url, count=5, max_time=10, seconds=60) == 2
    assert "'http://app/?kb=1&visit=[1-5]'" in typed[0]
    assert r"%{exitcode}\n'" in typed[0]
    # What waits in the buffer of stdout is lost when the time is over.
    assert "'%{stderr}%{http_code}" in typed[0] and "' 2>&1 '" in typed[0]


def test_a_container_that_ends_a_bit_later() -> None:
    ended = State(running=False, exit_code=137, oom_killed=True)
    states = [State(True, 0, False)] * 2 + [ended]

    class Ending:
        @property
        def state(self) -> State:
            return states.pop(0)

    assert container.settled(cast("Machine", Ending()), 5) == ended


def test_a_container_that_goes_on() -> None:
    runs = SimpleNamespace(state=State(True, 0, False))
    assert container.settled(cast("Machine", runs), 0).running
