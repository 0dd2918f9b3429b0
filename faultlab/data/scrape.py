"""Scrape: the metrics of a stack for some seconds, under the names that exporters give them.

Exporters of Debian run beside each machine, from the image of the tool `prometheus`, and their
words are kept as they are. Debian has no exporter of containers, PHP-FPM, memcached and the JVM.
Their figures are read by what faultlab has for them, and get the names of the usual exporters.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from faultlab.core import paths, text
from faultlab.core.errors import CannotRun
from faultlab.data.openmetrics import UP, Metrics
from faultlab.engine.contract import Machine, Program
from faultlab.engine.stack import Stack
from faultlab.lab import asks, checks
from faultlab.probes import fpm, jvm
from faultlab.run import timeline
from faultlab.run.run import Run

_STARTS = 3  # seconds until exporters answer
_SLOW = 5.0  # seconds between probes from client, and between readings of a JVM
_OWN = 1.0  # seconds between readings of memcached and PHP-FPM
_MEMORY = "1g"
_PROCESSES = 512
_SYSCTLS = (
    "net.core.somaxconn",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.ip_local_port_range:min,max",
)
# `scrape JOB INSTANCE ADDRESS PATH SECONDS` prints what a target serves between two marks. It goes
# without curl, because the image has none.
_BEGIN, _END = "#=", "#."
_LOOP = f"""
here=127.0.0.1:1
get='exec 3<>"/dev/tcp/127.0.0.1/$0" && printf "GET %s HTTP/1.0\\r\\n\\r\\n" "$1" >&3 &&
  sed -e "1{{/ 200 /!Q22}}" -e "1,/^\\r$/d" <&3'
scrape() {{ printf '{_BEGIN} %s %s %s\\n' "$1" "$2" "$EPOCHREALTIME"
  timeout "$5" bash -c "$get" "${{3##*:}}" "$4"; printf '\\n{_END} %s\\n' $?; }}
EXPORTERS
trap 'kill $(jobs -p)' EXIT
sleep {_STARTS}
step=STEP next=${{EPOCHREALTIME/./}}
for ((i = 0; i < COUNT; i++)); do
  TARGETS
  next=$((next + step)) now=${{EPOCHREALTIME/./}}
  if ((next > now)); then
    printf -v left '%d.%06d' $(((next - now) / 1000000)) $(((next - now) % 1000000))
    sleep "$left"
  else next=$now; fi
done
"""
_NODE = " ".join(
    [
        "prometheus-node-exporter --web.listen-address=${here}9100 --collector.qdisc",
        "--collector.netstat.fields='.*' --collector.sysctl",
        *(f"--collector.sysctl.include={name}" for name in _SYSCTLS),
        ">/dev/null 2>&1 &",
    ]
)
_MYSQLD = """if [ -d /run/mysqld ]; then
  DATA_SOURCE_NAME='root@unix(/run/mysqld/mysqld.sock)/' \\
    prometheus-mysqld-exporter --web.listen-address=${here}9104 \\
    --collect.auto_increment.columns --collect.info_schema.processlist \\
    --collect.perf_schema.eventsstatements >/dev/null 2>&1 &
fi"""
_BLACKBOX = (
    "prometheus-blackbox-exporter --config.file=/etc/prometheus/blackbox.yml"
    " --web.listen-address=${here}9115 >/dev/null 2>&1 &"
)
# From the collector of timelines, under the names of cAdvisor.
_CONTAINER = {
    "us": "container_cpu_user_seconds_total",
    "sy": "container_cpu_system_seconds_total",
    "throttled": "container_cpu_cfs_throttled_seconds_total",
    "memory": "container_memory_working_set_bytes",
    "swap": "container_memory_swap",
}
_CPU = "container_cpu_usage_seconds_total"
# Of PHP-FPM's status page, as php-fpm_exporter names them.
_POOL = {
    "active": "phpfpm_active_processes",
    "idle": "phpfpm_idle_processes",
    "listen_queue": "phpfpm_listen_queue",
    "max_listen_queue": "phpfpm_max_listen_queue",
    "max_children_reached": "phpfpm_max_children_reached",
    "slow_requests": "phpfpm_slow_requests",
    "accepted": "phpfpm_accepted_connections",
}
# From memcached's `stats`, as memcached_exporter names them.
_STATS_FILE = "memcached.stats"
_MEMCACHED = {
    "curr_connections": "memcached_current_connections",
    "max_connections": "memcached_max_connections",
    "total_connections": "memcached_connections_total",
    "rejected_connections": "memcached_connections_rejected_total",
    "listen_disabled_num": "memcached_connections_listener_disabled_total",
    "curr_items": "memcached_current_items",
    "bytes": "memcached_current_bytes",
    "limit_maxbytes": "memcached_limit_bytes",
    "evictions": "memcached_items_evicted_total",
    "uptime": "memcached_uptime_seconds",
}
_OWN_NAMES = (
    *(UP, "memcached_up", _CPU, *_CONTAINER.values(), *_POOL.values(), *_MEMCACHED.values()),
    *("jvm_memory_used_bytes", "jvm_memory_max_bytes", "jvm_threads_current"),
)
_COUNTS = ("_total", "_accepted_connections", "_reached", "_slow_requests")
_TYPES = {name: "counter" if name.endswith(_COUNTS) else "gauge" for name in _OWN_NAMES} | {
    "jvm_gc_collection_seconds": "summary"
}


def image() -> str:
    """Return the image that has the exporters: that of the tool `prometheus`."""
    return str(paths.tools() / "prometheus")


@dataclass(frozen=True)
class Span:
    """How long the metrics are read, and how often, in seconds; `cpus`: those of the exporters."""

    seconds: float
    every: float
    cpus: str = ""

    def count(self, every: float) -> int:
        """Return the number of scrapes with so many seconds between them."""
        return int(self.seconds / every)


def scrape(run: Run, span: Span) -> Metrics:
    """Return the metrics of a stack, read by all sources at once.

    Raises CannotRun if the node exporter of a server never answers.
    """
    stack, found = run.stack, Metrics()
    over = threading.Event()
    run.collect()
    try:
        with ThreadPoolExecutor(max_workers=2 * len(stack) + 1) as pool:
            beside = [pool.submit(_exporters, run, each, span) for each in stack.machines]
            own = [pool.submit(_read, read, over) for read in _own(run)]
            try:
                printed = [each.result() for each in beside]
            finally:
                over.set()
        for lines in printed:
            take(found, lines)
        for its in own:
            for sample in its.result():
                found.add(*sample)
    finally:
        run.collect(False)
    timeline_into(found, run.record.folder / timeline.FILE, run.record.began, span.every)
    found.types |= _TYPES
    _must_have_answered(found, stack)
    return found


def _must_have_answered(found: Metrics, stack: Stack) -> None:
    for machine in stack.machines:
        if machine.name == stack.client:
            continue
        its = found.series.get(f'{UP}{{job="node",instance="{machine.name}"}}', [])
        if not any(value for _, value in its):
            what = f"The node exporter on {machine.name} never answered."
            raise CannotRun(what, "faultlab try prometheus healthy")


def _exporters(run: Run, machine: Machine, span: Span) -> list[str]:
    """Run the exporters that fit a machine, and return what they printed, line by line."""
    client = machine.name == run.stack.client
    urls = asks.limits(checks.load(run.lab).asks) if client else {}
    every = max(span.every, _SLOW) if client else span.every
    script = script_of(machine.name, urls if client else None, span.count(every), every)
    program = Program(
        image(),
        ["bash", "-c", script],
        run.stack.name,
        inside=machine,
        memory=_MEMORY,
        processes=_PROCESSES,
        cpus=span.cpus,
    )
    with run.engine.process(program) as process:
        return [*text.lines(out for out, _ in process.output if out)]


def script_of(machine: str, urls: Mapping[str, float] | None, count: int, every: float) -> str:
    """Return the script that scrapes a machine; `urls`: on client, the pages that it visits."""
    if urls is None:
        exporters = f"{_NODE}\n{_MYSQLD}"
        targets = [
            f"scrape node {machine} ${{here}}9100 /metrics 5",
            f"[ -d /run/mysqld ] && scrape mysqld {machine} ${{here}}9104 /metrics 5",
        ]
    else:
        exporters = _BLACKBOX
        ask = "${here}9115 '/probe?module=http_2xx&target='"
        targets = [f"scrape blackbox {quote(url)} {ask}{quote(url)} 5" for url in urls]
    words = {
        "EXPORTERS": exporters,
        "TARGETS": "\n  ".join(targets or [":"]),
        "STEP": str(int(every * 1e6)),
        "COUNT": str(count),
    }
    script = _LOOP
    for word, its in words.items():
        script = script.replace(word, its)
    return script


def take(found: Metrics, lines: Iterable[str]) -> None:
    """Add the scrapes between the marks. One that failed is only an `up` of 0."""
    body: list[str] = []
    labels, when = {"job": "", "instance": ""}, 0.0
    for line in lines:
        mark, *words = line.split(" ")
        if mark == _BEGIN and len(words) == 3:
            body = []
            labels, when = {"job": words[0], "instance": words[1]}, float(words[2])
        elif mark == _END and labels["job"]:
            up = words == ["0"]
            found.add(UP, labels, when, float(up))
            if up:
                found.scrape("\n".join(body), when, labels)
        else:
            body.append(line)


def timeline_into(found: Metrics, file: Path, began: float, every: float) -> None:
    """Add what a timeline says of containers, at most once in `every` seconds."""
    last: dict[str, float] = {}
    for line in file.read_text().splitlines() if file.is_file() else []:
        with suppress(ValueError, LookupError, TypeError):  # the last line can be cut off
            sample = json.loads(line)
            machine, t = sample["machine"], began + sample["t"]
            if t - last.get(machine, 0.0) < 0.9 * every:
                continue
            last[machine] = t
            for name, its in sample["containers"].items():
                _container(found, machine, name, t, its)


def _container(found: Metrics, machine: str, name: str, t: float, its: Mapping[str, Any]) -> None:
    labels = {"job": "cadvisor", "instance": machine, "name": name, "container": name}
    for key, metric in _CONTAINER.items():
        found.add(metric, labels, t, float(its[key]))
    found.add(_CPU, labels, t, its["us"] + its["sy"])


Sample = tuple[str, Mapping[str, str], float, float]
Read = tuple[Callable[[], Mapping[str, float]], Mapping[str, str], float]


def _own(run: Run) -> list[Read]:
    """Return how each daemon without an exporter is read, its labels, and the seconds between."""
    found: list[Read] = []
    for daemon in run.stack.values():
        if not daemon.joins:
            continue
        labels = {"job": daemon.name, "instance": daemon.joins}
        its = run.lab.services.facts(daemon.name)
        if _STATS_FILE in its.status:
            found.append((_memcached(daemon, its.status[_STATS_FILE]), labels, _OWN))
        elif its.probe == "fpm":
            found.append((_pool(run.stack, daemon), labels, _OWN))
        elif run.lab.services.image(daemon.name) == "tomcat":
            found.append((_jvm(daemon), labels, _SLOW))
    return found


def _memcached(daemon: Machine, command: str) -> Callable[[], dict[str, float]]:
    def read() -> dict[str, float]:
        try:
            return {"memcached_up": 1.0, **stats(daemon.must(command))}
        except CannotRun:  # its exporter answers all the same
            return {"memcached_up": 0.0}

    return read


def stats(out: str) -> dict[str, float]:
    """Read memcached's `STAT name value` under the names of memcached_exporter."""
    rows = [line.split() for line in out.splitlines() if line.startswith("STAT ")]
    said = {row[1]: row[2] for row in rows if len(row) == 3}
    return {metric: float(said[key]) for key, metric in _MEMCACHED.items() if key in said}


def _pool(stack: Stack, daemon: Machine) -> Callable[[], dict[str, float]]:
    def read() -> dict[str, float]:
        its = vars(fpm.status(stack.sidecar(daemon.name)))
        return {metric: float(its[key]) for key, metric in _POOL.items()}

    return read


def _jvm(daemon: Machine) -> Callable[[], dict[str, float]]:
    def read() -> dict[str, float]:
        its = jvm.read(daemon)
        return {
            "jvm_memory_used_bytes": its.heap,
            "jvm_memory_max_bytes": its.max_heap,
            "jvm_gc_collection_seconds_count": its.collections,
            "jvm_gc_collection_seconds_sum": its.collecting,
            "jvm_threads_current": its.threads,
        }

    return read


def _read(how: Read, over: threading.Event) -> list[Sample]:
    """Read a daemon again and again until it is over; one that does not respond is not `up`."""
    figures, labels, every = how
    found: list[Sample] = []
    while not over.is_set():
        when, said = time.time(), dict[str, float]()
        with suppress(CannotRun):
            said = dict(figures())
        found += [(name, labels, when, value) for name, value in said.items()]
        found.append((UP, labels, when, float(bool(said))))
        over.wait(max(0.0, when + every - time.time()))
    return found
