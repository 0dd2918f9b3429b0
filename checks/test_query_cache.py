"""query-cache: the database works out the same answers again for each visitor."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.probes import ab, cgroup, mysql, wrk

PAGE = "http://app:8080/popular.jsp?month=5"
ASKED, HITS = "Com_select", "Qcache_hits"
WRITTEN = ("Com_insert", "Com_update", "Com_delete")


@dataclass(frozen=True)
class Look:
    """Eight visitors, and the processor time that they cost the database, in seconds."""

    load: wrk.Load
    cpu: float

    @property
    def cpu_a_page(self) -> float:
        """Milliseconds of a processor."""
        return 1000 * self.cpu / max(1, self.load.requests)


@dataclass(frozen=True)
class Watch:
    """The counters of the database: queries, answers that it remembered, and changes."""

    counters: dict[str, int]


def look(at: Stack) -> Look:
    """A second of pages, after some that Java compiles the page with."""
    ab.warm(at["client"], f"'{PAGE}'", visitors=8, requests=200, seconds=1)
    before = cgroup.read(at["mysql"]).cpu
    load = wrk.load(
        at["client"], f"'{PAGE}'", connections=8, seconds=at.pace.seconds(1), timeout=20
    )
    return Look(load, cgroup.read(at["mysql"]).cpu - before)


def watch(at: Stack) -> Watch:
    """Read the counters."""
    return Watch(mysql.counters(at["db"], [ASKED, HITS, *WRITTEN]))


def worked_out(before: Watch, after: Watch) -> float:
    """SELECTs that were worked out for each change of a table, where no answer was remembered."""
    more = {name: count - before.counters[name] for name, count in after.counters.items()}
    written = sum(more[name] for name in WRITTEN)
    return 0 if more[HITS] else more[ASKED] / max(1, written)


STEADY = at_most(1)

CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "pages", lambda r: r.load.good_per_second, at_least_times(0.6), at_most_times(0.4), "/s"
        ),
        Measure(
            "processor time of the database for a page",
            lambda r: r.cpu_a_page,
            at_most_times(2),
            at_least_times(4),
            "ms",
        ),
        Measure("pages that fail", lambda r: 100 * r.load.failed_share, STEADY, STEADY, "%"),
    ),
    evidence=(
        Sign(
            "SELECTs worked out for each change of a table",
            worked_out,
            at_least(20),  # an order of the booking service asks five times
            at="db",
            command="mysql -e \"SHOW GLOBAL STATUS WHERE Variable_name RLIKE 'Qcache_hits|Com_'\"",
        ),
    ),
)
