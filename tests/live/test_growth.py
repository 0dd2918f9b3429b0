"""The cost of a booking with ten times the orders: the other half of the lab missing-index."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import pytest

from faultlab.core import lock
from faultlab.engine.stack import Stack
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.probes import wrk
from tests.live.stacks import untouched

pytestmark = pytest.mark.rotates(together=True, minutes=0.7)

CHECK = checks.load(labs.load("missing-index"))
examined, watch = CHECK.evidence[0].of, CHECK.inspect

TIMES = (1, 3, 10)
ORDERS = 52_219
INDEXES = {
    "restaurant": "DO 0",  # it comes with the data
    "restaurant and day": "ALTER TABLE booking.orders DROP INDEX restaurant,"
    " ADD INDEX restaurant_day (restaurant_id, dining_date)",
}


@dataclass(frozen=True)
class Cost:
    """The cost of a booking with so many orders: a point of the sweep."""

    orders: int
    rows_read: float
    booking_seconds: float


def cost(stack: Stack, orders: int) -> Cost:
    """Two partners for two seconds, after one in which the server reads its tables."""
    seconds = stack.pace.seconds(2)
    with lock.turn(alone=True):
        wrk.bookings(stack["client"], connections=2, seconds=seconds)
        before = watch(stack)
        load = wrk.bookings(stack["client"], connections=2, seconds=seconds)
    return Cost(orders, examined(before, watch(stack)), load.p50)


@pytest.fixture(scope="class")
def growth() -> Iterator[dict[str, list[Cost]]]:
    """The cost by index, with more and more orders; the run keeps it as a sweep."""
    with untouched("missing-index", "growth") as run:
        sweeps: dict[str, list[Cost]] = {index: [] for index in INDEXES}
        for orders in (ORDERS * times for times in TIMES):
            fill = f"(echo 'SET @orders = {orders};'; cat /etc/mysql/booking.sql) | mysql"
            with lock.turn(alone=False):
                run.stack["db"].must(fill, timeout=120)
            for index, change in INDEXES.items():
                run.stack["db"].must(f"mysql -e '{change}'")
                sweeps[index].append(cost(run.stack, orders))
        readings = {
            index: {"look": {"sweep": [asdict(point) for point in sweep]}}
            for index, sweep in sweeps.items()
        }
        run.record.facts["readings"] = readings
        run.record.event("measured", phase="growth")
        yield sweeps


class TestGrowth:
    """Ten times the orders: what a booking costs with the document's index, and with the day's."""

    def test_the_documents_index_grows(self, growth: dict[str, list[Cost]]) -> None:
        """It finds all orders of a restaurant, past ones too."""
        first, *_, last = growth["restaurant"]
        assert last.rows_read > 5 * first.rows_read
        assert last.booking_seconds > 2 * first.booking_seconds

    def test_with_the_day_it_stays_flat(self, growth: dict[str, list[Cost]]) -> None:
        """It finds those of one day."""
        first, *_, last = growth["restaurant and day"]
        assert last.rows_read < 100
        assert last.booking_seconds < 1.5 * first.booking_seconds
