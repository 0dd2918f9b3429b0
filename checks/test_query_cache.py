"""query-cache: the database computes the same results again for each user."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least
from faultlab.lab.measures import delay, failing, rate
from faultlab.probes import ab, cgroup, mysql, wrk

POPULAR = "http://app:8080/popular.jsp?month={n}"
PAGE = "'http://app:8080/popular.jsp?month=5'"
ASKED, HITS = "Com_select", "Qcache_hits"
WRITTEN = ("Com_insert", "Com_update", "Com_delete")


@dataclass(frozen=True)
class Look:
    """The load of eight users, and the CPU time that it cost the database, in seconds."""

    load: wrk.Load
    cpu: float

    @property
    def cpu_a_page(self) -> float:
        """Return the CPU time of the database for a page, in milliseconds."""
        return 1000 * self.cpu / max(1, self.load.requests)


@dataclass(frozen=True)
class Inspection:
    """The counters of the database: queries, results from its query cache, and changes."""

    counters: dict[str, int]


def look(stack: Stack) -> Look:
    """Let users open pages for a second, after a warm-up in which Java compiles the page."""
    client, seconds = stack.user(), stack.pace.seconds(1)
    ab.warm(client, PAGE, visitors=8, requests=200, seconds=1)
    before = cgroup.read(stack["mysql"]).cpu
    load = wrk.load(client, PAGE, connections=8, seconds=seconds, timeout=20)
    return Look(load, cgroup.read(stack["mysql"]).cpu - before)


def inspect(stack: Stack) -> Inspection:
    """Read the counters."""
    return Inspection(mysql.counters(stack["db"], [ASKED, HITS, *WRITTEN]))


def worked_out(before: Inspection, after: Inspection) -> float:
    """Return the SELECTs for each change of a table; 0 where a result came from the cache."""
    more = {name: count - before.counters[name] for name, count in after.counters.items()}
    written = sum(more[name] for name in WRITTEN)
    return 0 if more[HITS] else more[ASKED] / max(1, written)


MANY = at_least(20)  # an order of the booking service needs fewer than ten SELECTs

CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("pages", "load.good_per_second", good=0.6, bad=0.4).says(
            "The shop serves about as many pages as before.",
            "The shop serves far fewer pages than before.",
        ),
        delay(
            "processor time of the database for a page", "cpu_a_page", good=2, bad=4, unit="ms"
        ).says(
            "A page costs the database about as much work as before.",
            "A page costs the database several times as much work as before.",
        ),
        failing("pages").says("Hardly any page fails.", "Some pages fail."),
    ),
    evidence=(
        Evidence("SELECTs worked out for each change of a table", worked_out, MANY).seen(
            "db", "mysql -e \"SHOW GLOBAL STATUS WHERE Variable_name RLIKE 'Qcache_hits|Com_'\""
        ),
    ),
    asks=(page(POPULAR, times=6, most=12, seconds=20),),
)
