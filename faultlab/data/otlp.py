"""OTLP: lines of logs as OpenTelemetry writes them to a file, one JSON object a line.

Source: opentelemetry.io, "OTLP JSON" and "File exporter". A line without a time that we know has
that of the line before it, else none: `observedTimeUnixNano` says when it was collected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

# How nginx, PHP-FPM, Tomcat and MariaDB write a time; their clocks are in UTC.
_TIMES = (
    (re.compile(r"^(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)"), "%Y/%m/%d %H:%M:%S"),
    (re.compile(r"^\[?(\d\d-[A-Z][a-z]{2}-\d{4} \d\d:\d\d:\d\d)"), "%d-%b-%Y %H:%M:%S"),
    (re.compile(r"^(\d{4}-\d\d-\d\d[ T] ?\d{1,2}:\d\d:\d\d)"), "%Y-%m-%d %H:%M:%S"),
    (re.compile(r"^# Time: (\d{6} +\d{1,2}:\d\d:\d\d)"), "%y%m%d %H:%M:%S"),
)
_NANO = 10**9


def lines(machine: str, file: str, text: str, collected: float) -> Iterator[str]:
    """Yield a request for each line of a log, with the machine and the file as attributes."""
    resource = {"attributes": list(_attributes({"host.name": machine, "log.file.path": file}))}
    last = 0.0
    for line in text.splitlines():
        last = time_of(line) or last
        record = {
            "observedTimeUnixNano": str(int(collected * _NANO)),
            "body": {"stringValue": line},
        }
        if last:
            record = {"timeUnixNano": str(int(last * _NANO)), **record}
        scope = {"scope": {"name": "faultlab"}, "logRecords": [record]}
        logs = {"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}
        yield json.dumps(logs, ensure_ascii=False, separators=(",", ":"))


def time_of(line: str) -> float:
    """Return the time at the start of a line, in seconds; 0 for none."""
    for pattern, form in _TIMES:
        if found := pattern.match(line):
            with suppress(ValueError):
                text = " ".join(found[1].replace("T", " ").split())
                return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    return 0.0


def _attributes(facts: dict[str, str]) -> Iterable[dict[str, object]]:
    return ({"key": key, "value": {"stringValue": value}} for key, value in facts.items())
