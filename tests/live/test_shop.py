"""The shop answers as its pages promise, and its Java can be looked into, before any lab begins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultlab.engine.stack import Stack
from faultlab.probes import jvm
from tests.live.stacks import untouched

pytestmark = [pytest.mark.rotates(together=True, minutes=0.3), pytest.mark.beside]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The stack of a lab that has shop and database, and no fault yet."""
    with untouched("slow-join", "shop") as run:
        yield run.stack


def get(stack: Stack, page: str) -> tuple[int, str]:
    """The status of a page and what it says."""
    out = stack["client"].must(f"curl -sS -m 10 -w '\\n%{{http_code}}' 'http://app:8080/{page}'")
    text, _, status = out.rpartition("\n")
    return int(status), text


@pytest.mark.parametrize(
    ("page", "status", "says"),
    [
        ("", 200, "<h1>Shop</h1>"),
        ("basket.jsp?kb=64", 200, "64 kB"),
        ("search.jsp?word=bacodi", 200, "<li>"),
        ("search.jsp?word=%3Cb%3E", 200, "0 articles"),
        ("popular.jsp?month=5", 200, "orders of 19 partners"),  # one of twenty is revoked
        ("popular.jsp?month=13", 400, "month: 1 to 12"),
        ("popular.jsp?month=1%20OR%201", 400, "month: 1 to 12"),
        ("account.jsp?customer=7", 200, "What you have bought"),
        ("account.jsp?customer=x", 400, "a number is wanted"),
        ("account.jsp?customer=999999", 404, "no such customer"),
        ("WEB-INF/db.jspf", 404, "Not Found"),
    ],
)
def test_a_page(stack: Stack, page: str, status: int, says: str) -> None:
    """Status and text, for good input and for bad."""
    got, text = get(stack, page)
    assert (got, says in text) == (status, True), text


def test_names_are_escaped(stack: Stack) -> None:
    """Some restaurants have quotes and angle brackets in their names."""
    _, text = get(stack, "popular.jsp?month=5")
    assert "<b" not in text.replace("<body>", "").lower()
    assert "&amp;" in text or "&lt;" in text or "&quot;" in text


def test_an_account_is_what_the_history_of_prices_says(stack: Stack) -> None:
    """The price that was paid is the price of the day that the goods were shipped."""
    wrong = (
        "SELECT COUNT(*) FROM warehouse.lineitem LEFT JOIN warehouse.price_history"
        " ON h_partkey = l_partkey AND h_from <= l_shipdate AND h_until > l_shipdate"
        " WHERE h_price IS NULL OR l_extendedprice <> l_quantity * h_price"
    )
    assert stack["db"].must(f"mysql -BNe '{wrong}'").strip() == "0"


def test_connections_are_kept(stack: Stack) -> None:
    """Forty pages over a few connections, and none is left open without a limit."""
    count = "mysql -BNe 'SHOW GLOBAL STATUS WHERE Variable_name = \"Connections\"' | cut -f2"
    get(stack, "popular.jsp")
    before = int(stack["db"].must(count))
    for _ in range(40):
        assert get(stack, "account.jsp?customer=7")[0] == 200
    assert int(stack["db"].must(count)) - before <= 3  # our own look is one of them


def test_without_the_database_the_shop_says_so(stack: Stack) -> None:
    """No stack trace for customers; what needs no database goes on; and it comes back."""
    stack["db"].must("mysql -e \"ALTER USER shop@'%' ACCOUNT LOCK; KILL USER shop@'%'\"")
    try:
        status, text = get(stack, "account.jsp?customer=7")
        assert status == 503 and "please try again later" in text and "Exception" not in text
        assert get(stack, "")[0] == 200
    finally:
        stack["db"].must("mysql -e \"ALTER USER shop@'%' ACCOUNT UNLOCK\"")
    assert get(stack, "account.jsp?customer=7")[0] == 200


def test_java_can_be_looked_into_from_its_machine(stack: Stack) -> None:
    """The JDK's tools work on app, without a word of where the daemon's files are."""
    app = stack["app"]
    assert "MaxHeapSize" in app.must("jcmd $(pgrep -x java) VM.flags")
    assert "S0C" in app.must("jstat -gc $(pgrep -x java)")
    assert "java.lang.String" in app.must("jmap -histo $(pgrep -x java)")
    done = app.run("jstack 1")
    assert (done.code, done.err.strip()) == (
        1,
        "jstack: no Java runs here as process 1; see: pgrep -a java",
    )
    now = jvm.read(stack["tomcat"])
    assert now.max_heap == 160 * 2**20 and now.threads > 10


def test_java_writes_its_gc_log_and_opens_no_port_but_its_own(stack: Stack) -> None:
    """The log is on its machine; JMX is off."""
    stack["app"].must("jcmd $(pgrep -x java) GC.run")
    assert "Pause Full" in stack["app"].must("cat /var/log/tomcat10/gc.log")
    assert stack["app"].must("ss -Hltn | grep -v 127.0.0.11").split()[3].endswith(":8080")
    assert len(stack["app"].must("ss -Hltn | grep -v 127.0.0.11").splitlines()) == 1
    assert "jmxremote" not in stack["app"].must("ps -C java -o args=")
