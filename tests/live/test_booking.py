"""The booking service answers as its pages promise, before any lab does something to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultlab.engine.stack import Stack
from faultlab.lab import asks
from tests.live.stacks import untouched

pytestmark = [pytest.mark.rotates(together=True, minutes=0.3), pytest.mark.beside]

ORDER = {
    "token": "token-01",
    "restaurant": "6",
    "table": "9",  # four seats
    "date": "2028-02-29",
    "time": "18:00",
    "guests": "3",
    "name": "O'Neil <b>%",
}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The stack of a lab that has the service, and no fault yet."""
    with untouched("repeat-queries", "booking") as run:
        yield run.stack


def post(stack: Stack, **changed: str | None) -> tuple[int, str]:
    """Send an order; the status and what the answer says."""
    fields = {name: value for name, value in {**ORDER, **changed}.items() if value is not None}
    data = " ".join(f'--data-urlencode "{name}={value}"' for name, value in fields.items())
    command = f"curl -sS -m 5 -w '\\n%{{http_code}}' {data} http://web/booking/order.php"
    *said, status = stack["client"].must(command).splitlines()
    return int(status), "\n".join(said).strip()


def test_an_order_is_kept_once(stack: Stack) -> None:
    """A table is taken for the whole sitting, and no longer."""
    status, said = post(stack, time="12:00")
    assert status == 201
    assert '"restaurant":"Chez l\'Ami 6","table":9,"until":"14:00"' in said
    query = "SELECT guest_name FROM booking.orders ORDER BY id DESC LIMIT 1"
    assert stack["db"].must(f'mysql -BNe "{query}"').strip() == ORDER["name"]
    assert post(stack, time="12:00") == (409, "taken")
    assert post(stack, time="13:59")[0] == 409
    assert post(stack, time="14:00")[0] == 201  # the next sitting
    assert post(stack, time="12:00", table="10")[0] == 201
    assert post(stack, time="12:00", restaurant="7")[0] == 201


def test_asks_of_one_second_do_not_take_the_tables_of_each_other(stack: Stack) -> None:
    """Two sets of a look can draw the same restaurant, and both orders are made at once."""
    ask = next(one for one in asks.booking() if one.name.startswith("orders, and what"))
    command = ask.command([7])
    for _ in range(3):
        assert asks.FAILED not in stack.user().must(f"{command}; {command}")


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"token": "token-99"}, 403),
        ({"token": "token-20"}, 403),  # revoked
        ({"token": "' OR 1 -- "}, 400),
        ({"token": None}, 400),
        ({"restaurant": "51"}, 404),
        ({"restaurant": "6 OR 1"}, 400),
        ({"table": "31"}, 404),
        ({"table": "0"}, 400),
        ({"date": "2027-02-29"}, 400),
        ({"date": "tomorrow"}, 400),
        ({"date": "2020-01-01"}, 422),
        ({"time": "24:00"}, 400),
        ({"time": "22:00"}, 422),  # they close before the sitting ends
        ({"guests": "5"}, 422),  # four seats
        ({"guests": "-1"}, 400),
        ({"name": ""}, 400),
    ],
)
def test_what_is_no_order(stack: Stack, changed: dict[str, str | None], status: int) -> None:
    """Each way to be wrong has its status."""
    assert post(stack, **changed)[0] == status


def test_an_order_is_not_a_link(stack: Stack) -> None:
    """A GET changes nothing."""
    out = stack["client"].must("curl -sS -m 5 -i http://web/booking/order.php")
    assert out.startswith("HTTP/1.1 405")
    assert "Allow: POST" in out


def test_the_page_of_a_restaurant_shows_its_free_tables(stack: Stack) -> None:
    """Names are escaped; a taken table is not offered."""
    assert post(stack, restaurant="9", date="2028-03-01", table="10")[0] == 201
    query = "token=token-01&restaurant=9&date=2028-03-01&time=19:00&guests=3"
    page = stack["client"].must(f"curl -sS -m 5 'http://web/booking/restaurant.php?{query}'")
    assert "<h1>A&lt;B Bistro 9, Paris</h1>" in page
    assert "21 free tables for 3" in page  # 22 have seats enough
    assert "Table 10," not in page
    assert "<li>Table 9, 4 seats</li>" in page


def test_without_its_database_the_service_says_so(stack: Stack) -> None:
    """No blank page, and no word of what is behind it."""
    stack["db"].must("mysql -e \"ALTER USER booking@'%' ACCOUNT LOCK\"")
    stack["php-fpm"].restart()
    stack.wait_ready()
    try:
        assert post(stack) == (503, "please try again later")
    finally:
        stack["db"].must("mysql -e \"ALTER USER booking@'%' ACCOUNT UNLOCK\"")


def test_the_service_may_touch_no_other_database(stack: Stack) -> None:
    """Its user has one database."""
    done = stack["db"].run("mysql -h db -u booking -pbooking -BNe 'SELECT user FROM mysql.user'")
    assert done.code != 0
    assert "denied" in done.err
