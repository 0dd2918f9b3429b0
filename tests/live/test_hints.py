"""Hints know the state: after half a repair another hint comes next than before it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from faultlab.core import lock
from faultlab.core.naming import stack_name
from faultlab.lab import load as labs
from faultlab.lab.model import Lab, Limit, Step
from faultlab.learn import hints
from faultlab.run import inject
from faultlab.run.run import Run
from faultlab.run.standing import standing
from tests.live.stacks import engine_for

POOL = "/etc/php/8.2/fpm/pool.d/www.conf"
NGINX = "/etc/nginx/nginx.conf"
MARIADB = "/etc/mysql/mariadb.conf.d/90-lab.cnf"
TOMCAT = "/etc/tomcat10/setenv.sh"
SHOP = "/var/lib/tomcat10/webapps/ROOT/account.jsp"
STORE = "/var/www/html/booking/store.php"
# The rows of a table whatever row was asked for; and only those of one caller.
ONE_KEY = (labs.load("repeat-queries").fix[0].run or "").replace(" . json_encode($values)", "")
ONE_CALLER = f"sed -i '/^function token/,/^}}/s/return /static $t; &/' {STORE}"
TBF = "tc qdisc replace dev eth0 root tbf rate"


def at(machine: str, command: str) -> Step:
    return Step(at=machine, run=command)


def again(daemon: str) -> Step:
    return Step(at=daemon, restart=True)


def sysctl(words: str, machine: str = "web") -> Step:
    return at(machine, f"sysctl -w {words}")


def cheat(lab_id: str, number: int) -> list[Step]:
    return labs.load(lab_id).cheat[number - 1].steps


# For each hint with `when`, by lab and its number: what a learner has done that it is about.
HALF: dict[tuple[str, int], Sequence[Step]] = {
    ("bandwidth", 1): [at("cache", f"{TBF} 400mbit burst 64kb latency 1s")],
    ("bandwidth", 2): cheat("bandwidth", 1),
    ("busy", 1): [at("web", f"sed -i 's/^pm.max_children = .*/pm.max_children = 12/' {POOL}")],
    ("busy", 2): [Step(at="php-fpm", limit=Limit(cpus=0.5))],
    ("conntrack", 1): [sysctl("net.netfilter.nf_conntrack_max=1000", "kernel")],
    ("conntrack", 2): [sysctl("net.core.somaxconn=65535")],
    ("cpu-quota", 1): [Step(at="tomcat", limit=Limit(cpus=0.2))],
    ("cpu-quota", 2): [at("app", "rm -r /var/lib/tomcat10/webapps/brand-*")],
    ("gzip", 1): [at("web", f"sed -i 's/gzip off;/gzip on;/' {NGINX}")],
    ("gzip", 2): cheat("gzip", 2),
    ("healthy", 1): cheat("healthy", 1),
    ("heap-oom", 1): [at("app", f"sed -i 's/^HEAP=.*/HEAP=-Xmx512m/' {TOMCAT}")],
    ("heap-oom", 2): [at("app", f"sed -i 's/^HEAP=.*/HEAP=-Xmx256m/' {TOMCAT}")],
    ("iptables-drop", 1): cheat("iptables-drop", 1),
    ("iptables-drop", 2): cheat("iptables-drop", 4),
    ("latent", 1): [again("nginx")],
    ("latent", 2): [again("nginx"), sysctl("net.core.somaxconn=4096")],
    ("missing-index", 1): [at("db", "mysql -e 'CREATE INDEX x ON booking.orders (token_id)'")],
    ("missing-index", 2): cheat("missing-index", 1),
    ("mtu", 1): [at("web", "ip link set dev eth0 mtu 120")],
    ("netem-loss", 1): cheat("netem-loss", 3),
    ("packet-loss", 1): labs.load("packet-loss").fix_of(2)[:1],
    ("packet-loss", 2): [at("web", "ip link set dev eth0 mtu 120")],
    ("php-workers", 1): labs.load("php-workers").fix[:1],
    ("php-workers", 2): [
        at("web", f"sed -i 's/^pm.max_children = .*/pm.max_children = 50/' {POOL}"),
        again("php-fpm"),
    ],
    ("port-range", 1): [sysctl('net.ipv4.ip_local_port_range="20000 20500"')],
    ("port-range", 2): [sysctl("net.ipv4.tcp_tw_reuse=1")],
    ("query-cache", 1): labs.load("query-cache").alternative[0].steps[:1],
    ("query-cache", 2): cheat("query-cache", 3),
    ("query-cache", 3): cheat("query-cache", 6),
    ("query-cache", 4): labs.load("query-cache").fix[:2],
    ("repeat-queries", 1): [at("web", ONE_KEY)],
    ("repeat-queries", 2): [at("web", ONE_CALLER)],
    ("scale-out", 1): labs.load("scale-out").fix[:1],
    ("scale-out", 2): [
        at("web", "sed -i 's/9000 down/9000 backup/' /etc/nginx/conf.d/php.conf"),
        at("web", "kill -HUP $(pgrep -o -x nginx)"),
    ],
    ("slow-join", 1): [
        at("db", "mysql -e 'CREATE INDEX x ON warehouse.price_history (h_from, h_partkey)'")
    ],
    ("slow-join", 2): [at("app", f"sed -i 's/price_history/lineitem/g' {SHOP}")],
    ("slow-log", 1): [at("db", "mysql -e 'SET GLOBAL long_query_time = 1'")],
    ("slow-log", 2): [
        at("client", "curl -s -o /dev/null 'http://app:8080/popular.jsp?month=5'"),
        *labs.load("slow-log").fix[:1],
    ],
    ("slow-log", 3): [at("db", "mysql -e 'CREATE INDEX month ON booking.orders (dining_month)'")],
    ("somaxconn", 1): labs.load("somaxconn").fix[:1],
    ("somaxconn", 2): [sysctl("net.core.somaxconn=64"), again("nginx"), again("php-fpm")],
    ("swap", 1): labs.load("swap").fix[:1],
    ("swap", 2): [sysctl("vm.swappiness=1", "kernel")],
    ("syn-flood", 1): [sysctl("net.ipv4.tcp_max_syn_backlog=1024")],
    ("syn-flood", 2): [sysctl("net.ipv4.tcp_synack_retries=0")],
    ("temp-tables", 1): labs.load("temp-tables").fix[:1],
    ("temp-tables", 2): [at("db", "mysql -e 'SET GLOBAL tmp_table_size = 16777216'")],
    ("throughput", 1): [sysctl("net.netfilter.nf_conntrack_max=1000", "kernel")],
    ("throughput", 2): labs.load("throughput").fix_of(2)[:1],
    ("throughput", 3): labs.load("throughput").fix_of(3)[:1],
    ("throughput", 4): [sysctl('net.ipv4.ip_local_port_range="32768 60999"')],
    ("throughput", 5): [sysctl("net.ipv4.tcp_fin_timeout=5")],
    ("time-wait", 1): [at("web", f"sed -i '/fastcgi_keep_conn on;/d' {NGINX}")],
    ("time-wait", 2): [sysctl("net.ipv4.tcp_fin_timeout=5")],
    ("tls-resumption", 1): [
        at(
            "web",
            "sed -i 's/ssl_session_cache .*/ssl_session_cache shared:tls:10m;/'"
            " /etc/nginx/conf.d/ssl.conf",
        )
    ],
    ("tls-resumption", 2): cheat("tls-resumption", 2),
}
LABS = sorted({lab_id for lab_id, _ in HALF})
# Others take a tenth of a minute. Those of the VM start more slowly, and so does swap's Tomcat.
MINUTES = {"conntrack": 0.5, "packet-loss": 0.5, "netem-loss": 0.5, "swap": 1.9, "throughput": 0.9}


def taking_turns(lab_id: str) -> pytest.MarkDecorator:
    return pytest.mark.rotates(minutes=MINUTES.get(lab_id, 0.1))


def held(run: Run, lab: Lab) -> set[int]:
    """Return the numbers of the hints with `when` that apply now."""
    return {
        number
        for number, rung in enumerate(lab.hint, 1)
        if rung.when and hints.holds(run.stack[rung.when.at], rung.when)
    }


def injected(run: Run, lab: Lab) -> set[int]:
    """Set the fault up, and return the hints with `when` that apply then."""
    inject.apply(run.stack, lab.inject)
    time.sleep(3)  # files and processes have their time in whole seconds
    return held(run, lab)


def test_each_hint_with_a_condition_has_its_state() -> None:
    every = {
        (lab_id, number)
        for lab_id in labs.ids()
        for number, rung in enumerate(labs.load(lab_id).hint, 1)
        if rung.when
    }
    assert every == {*HALF}


@pytest.mark.parametrize(
    ("lab_id", "number"), [pytest.param(*half, marks=taking_turns(half[0])) for half in HALF]
)
def test_half_a_repair_leads_to_another_hint(lab_id: str, number: int) -> None:
    lab, name = labs.load(lab_id), stack_name("hints")
    with lock.hold(name, "hints"), standing(engine_for(lab), lab, name, collects=False) as run:
        assert injected(run, lab) == set()
        inject.apply(run.stack, HALF[lab_id, number])
        assert number in held(run, lab)


@pytest.mark.parametrize(
    "lab_id", [pytest.param(lab_id, marks=taking_turns(lab_id)) for lab_id in LABS]
)
def test_after_the_whole_repair_none_is_about_a_half(lab_id: str) -> None:
    lab, name = labs.load(lab_id), stack_name("hints")
    with lock.hold(name, "hints"), standing(engine_for(lab), lab, name, collects=False) as run:
        injected(run, lab)
        inject.apply(run.stack, lab.fix)
        assert held(run, lab) == set()
