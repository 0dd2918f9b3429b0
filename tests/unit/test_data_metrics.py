"""Metrics, logs and PromQL of a data set: what is read, what is written, what Prometheus takes."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from faultlab.core.errors import BadInput
from faultlab.data import openmetrics, otlp, promql, scrape
from faultlab.data.openmetrics import Metrics
from tests.unit.conftest import REPO

PROMETHEUS = pytest.mark.skipif(
    not shutil.which("promtool"), reason="no promtool here: apt-get install prometheus"
)
PRINTED = """\
# HELP node_load1 1m load average.
# TYPE node_load1 gauge
node_load1 0.25
# TYPE node_network_receive_bytes_total counter
node_network_receive_bytes_total{device="eth0"} 1.5e+06
# TYPE mysql_global_status_questions untyped
mysql_global_status_questions 7
# TYPE probe_seconds histogram
probe_seconds_bucket{le="0.1"} 1
probe_seconds_bucket{le="+Inf"} 2
probe_seconds_sum 0.3
probe_seconds_count 2
odd{text="a \\"b\\", c}",nan="x"} NaN
# TYPE go_goroutines gauge
go_goroutines 7
"""


def scraped() -> Metrics:
    found = Metrics()
    for t in (100.0, 101.0):
        found.scrape(PRINTED, t, {"job": "node", "instance": "web"})
    return found


def test_a_scrape_keeps_names_labels_and_values_and_leaves_the_exporter_out() -> None:
    found = scraped()
    assert found.series['node_load1{job="node",instance="web"}'] == [(100, 0.25), (101, 0.25)]
    bytes_ = 'node_network_receive_bytes_total{job="node",instance="web",device="eth0"}'
    assert found.series[bytes_][0] == (100, 1.5e6)
    assert not [name for name in found.series if name.startswith("go_")]
    odd = next(name for name in found.series if name.startswith("odd"))
    assert openmetrics.label(odd, "text") == r"a \"b\", c}" and math.isnan(found.series[odd][0][1])


def test_what_is_written_is_read_again() -> None:
    text = scraped().text()
    assert text.endswith("\n# EOF\n")
    assert "# TYPE node_network_receive_bytes counter\n" in text
    assert "# TYPE mysql_global_status_questions unknown\n" in text
    again = openmetrics.read(text, "x")
    assert again.text() == text
    assert {*again.series} == {*scraped().series}


@pytest.mark.parametrize(
    "text", ["", "node_load1{} 1 1\n", "node_load1{} 1\n# EOF\n", "?\n# EOF\n"]
)
def test_a_damaged_file_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match=r"m\.om is damaged"):
        openmetrics.read(text, "m.om")


@PROMETHEUS
def test_prometheus_reads_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "m.om").write_text(scraped().text())
    words = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "m.om", "blocks"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("blocks/*/meta.json"))


def test_scrapes_between_the_marks() -> None:
    found = Metrics()
    lines = ["#= node web 5.5", "node_load1 3", "", "#. 0", "#= node web 6.5", "half", "#. 28"]
    scrape.take(found, lines)
    assert found.series == {
        'up{job="node",instance="web"}': [(5.5, 1.0), (6.5, 0.0)],
        'node_load1{job="node",instance="web"}': [(5.5, 3.0)],
    }


# Serves what it was asked for, at the address of its option. Other paths than the two are missing.
EXPORTER = """
import http.server, pathlib, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path.startswith(("/metrics", "/probe?module=")) else 404)
        self.end_headers()
        self.wfile.write(b'asked{url="%s"} 1\\n' % self.path.encode())
(told,) = (word for word in sys.argv if word.startswith("--web.listen-address="))
host, port = told.partition("=")[2].split(":")
server = http.server.HTTPServer((host, int(port)), Answer)
pathlib.Path(__file__).with_name("ready").touch()
server.serve_forever()
"""


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("urls", [None, {"http://web/?a=1&b=2": 1.0}])
def test_the_script_of_a_machine_scrapes_as_often_as_it_is_told(
    tmp_path: Path, urls: dict[str, float] | None
) -> None:
    """The script itself, in bash; a server of our own stands in for the exporters."""
    (tmp_path / "exporter.py").write_text(EXPORTER)
    for name in ("prometheus-node-exporter", "prometheus-blackbox-exporter"):
        begin = f"echo {name} >> {tmp_path}/started"
        program(
            tmp_path / "bin", name, f'{begin}; exec {sys.executable} {tmp_path}/exporter.py "$@"'
        )
    ready = f"until [ -e {tmp_path}/ready ]; do /bin/sleep 0.05; done"
    program(tmp_path / "bin", "sleep", f"[ $1 != 3 ] || {ready}")
    script = scrape.script_of("web", urls, 3, 0.01)
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    words = ["bash", "-c", script]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=30)
    found = Metrics()
    scrape.take(found, done.stdout.splitlines())
    job, instance = ("blackbox", "http://web/?a=1&b=2") if urls else ("node", "web")
    up = found.series[f'up{{job="{job}",instance="{instance}"}}']
    assert [value for _, value in up] == [1, 1, 1]
    asked = next(name for name in found.series if name.startswith("asked"))
    assert ("target=http://web/?a=1&b=2" in asked) is bool(urls)
    assert (tmp_path / "started").read_text().split() == [f"prometheus-{job}-exporter"]


def test_containers_from_a_recorded_timeline() -> None:
    found = Metrics()
    scrape.timeline_into(found, REPO / "tests/recorded/run/timeline.jsonl", 1000.0, 1.0)
    cpu = {
        openmetrics.label(name, "container"): points
        for name, points in found.series.items()
        if openmetrics.name_of(name) == "container_cpu_usage_seconds_total"
    }
    assert {"web", "nginx", "php-fpm"} <= {*cpu}
    (first, value), *_, (last, _) = cpu["nginx"]
    assert (round(first, 3), round(value, 2), round(last, 3)) == (1001.394, 0.03, 1019.512)
    assert all(b - a >= 0.9 for (a, _), (b, _) in pairwise(cpu["nginx"]))


def test_memcached_under_the_names_of_its_exporter() -> None:
    said = scrape.stats(
        "STAT curr_connections 12\r\nSTAT max_connections 28\r\nSTAT pid 1\r\nEND\r\n"
    )
    assert said == {"memcached_current_connections": 12, "memcached_max_connections": 28}


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("2026/11/21 20:52:40 [error] 7#7: no live upstreams", 1795294360),
        ("[21-Nov-2026 20:52:40] WARNING: [pool www] server reached", 1795294360),
        ("21-Nov-2026 20:52:40.123 INFO [main] org.apache", 1795294360),
        ("2026-11-21 20:52:40 0 [Note] mariadbd: ready", 1795294360),
        ("# Time: 261121 20:52:40", 1795294360),
        ("# Time: 261121  8:52:40", 1795251160),
        ("\tat java.base/java.lang.Thread.run", 0),
        ("2026-13-41 20:52:40 no such day", 0),
    ],
)
def test_the_time_of_a_line(line: str, seconds: float) -> None:
    assert otlp.time_of(line) == seconds


def test_a_log_as_otlp() -> None:
    text = "21-Nov-2026 20:52:40.123 SEVERE oops\n\tat Thread.run\n"
    first, second = map(json.loads, otlp.lines("app", "/var/log/x.log", text, 5.0))
    logs = first["resourceLogs"][0]
    assert logs["resource"]["attributes"][0] == {
        "key": "host.name",
        "value": {"stringValue": "app"},
    }
    records = [each["resourceLogs"][0]["scopeLogs"][0]["logRecords"] for each in (first, second)]
    assert [record["timeUnixNano"] for (record,) in records] == ["1795294360000000000"] * 2
    assert records[1][0]["body"] == {"stringValue": "\tat Thread.run"}
    assert records[0][0]["observedTimeUnixNano"] == "5000000000"
    (alone,) = map(json.loads, otlp.lines("app", "x", "no time", 5.0))
    assert "timeUnixNano" not in alone["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]


def test_the_metrics_of_an_expression() -> None:
    text = 'sum by (le) (rate(a_bucket{le!="b"}[5m] offset 1w)) > 2e6 and on (x) c:d == bool 1 # e'
    assert promql.metrics(text) == {"a_bucket", "c:d"}
    assert promql.metrics('count({__name__=~"up"})') == {"*"}


def test_a_range_is_cut_and_a_sum_over_it_is_multiplied() -> None:
    its = promql.fitted('rate(a{x="[5m]"}[5m]) + (increase(b[1m]) / increase(c[10s]))', 20, 0)
    assert its.text == 'rate(a{x="[5m]"}[20s]) + ((3 * increase(b[20s])) / increase(c[10s]))'
    assert its.cut and not its.untold


def test_a_clock_begins_with_the_recording() -> None:
    its = promql.fitted("time() - timestamp(a) > 5", 20, 100)
    assert its.text == "(time() + 100) - (100 + timestamp(a)) > 5" and not its.cut


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("predict_linear(a[6h], 60) < 0", "its trend is longer than a recording"),
        ("predict_linear(a[10s], 60) < 0", ""),
        ("a > a offset 1w", "it looks back to before a recording"),
        ("a > a offset 5s", ""),
        ("a @ 1609746000 > 1", "it looks back to before a recording"),
        ("a > 1 and hour() > 8", "it asks for the hour or the day"),
        ('ALERTS{alertname="x"} == 1', "it asks for other alerts"),
        ('a{x="offset 1w"} > 1', ""),
    ],
)
def test_what_a_recording_cannot_tell(text: str, why: str) -> None:
    assert promql.fitted(text, 20, 0).untold == why


def test_expressions_of_a_block() -> None:
    block = """\
sum(
  rate(a[5m])) > 1
b == 1
  and on (x)
c > 0

d > 2
or e > 3
f{x="("} > 1 # (
"""
    assert list(promql.expressions(block)) == [
        "sum(\n  rate(a[5m])) > 1",
        "b == 1\n  and on (x)\nc > 0",
        "d > 2\nor e > 3",
        'f{x="("} > 1 # (',
    ]
