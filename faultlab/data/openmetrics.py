"""OpenMetrics: samples with their times, as exporters print them and as a data set stores them.

Exporters print the Prometheus text format. The file is OpenMetrics, which Prometheus' own
`promtool tsdb create-blocks-from openmetrics` reads. Source: openmetrics.io, "Text format".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from faultlab.core.errors import BadInput

UP = "up"  # 1 for a scrape that was answered, as Prometheus itself adds it
Points = list[tuple[float, float]]  # time and value
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? +(\S+)(?: +(\S+))?")
_TYPE = re.compile(r"# TYPE ([a-zA-Z_:][\w:]*) (\w+)")
_OF_A_FAMILY = re.compile(r"_(bucket|sum|count)$")
_ITSELF = re.compile(r"(?:go|promhttp|process)_")  # of the exporter, and not of what it looks at
_END = "# EOF"


@dataclass
class Metrics:
    """Series by name and labels, as `node_load1{instance="web"}`, and the type of each family."""

    types: dict[str, str] = field(default_factory=dict)
    series: dict[str, Points] = field(default_factory=dict)

    def add(self, name: str, labels: Mapping[str, str], time: float, value: float) -> None:
        """Add one sample."""
        self._points(name, _joined(labels)).append((time, value))

    def scrape(self, text: str, time: float, labels: Mapping[str, str]) -> None:
        """Add what an exporter printed at a time, but not of itself, with its target's labels."""
        own = _joined(labels)
        for line in text.splitlines():
            if (found := _TYPE.match(line)) and not _ITSELF.match(found[1]):
                self.types[found[1]] = found[2]
            elif line.startswith("#") or _ITSELF.match(line):
                continue
            elif sample := _SAMPLE.fullmatch(line.strip()):
                its = ",".join(filter(None, (own, (sample[2] or "").rstrip(", "))))
                self._points(sample[1], its).append((time, float(sample[3])))

    def _points(self, name: str, labels: str) -> Points:
        return self.series.setdefault(f"{name}{{{labels}}}", [])

    def text(self) -> str:
        """Return the file: families one after the other, the samples of a series in time."""
        return "\n".join((*self._lines(), _END, ""))

    def _lines(self) -> Iterator[str]:
        families: dict[str, list[str]] = {}
        for key in sorted(self.series):
            families.setdefault(self._family(name_of(key)), []).append(key)
        for family, keys in sorted(families.items()):
            yield self._head(family)
            for key in keys:
                yield from (f"{key} {number(value)} {t:.3f}" for t, value in self.series[key])

    def _family(self, name: str) -> str:
        bare = _OF_A_FAMILY.sub("", name)
        return bare if self.types.get(bare) in ("histogram", "summary") else name

    def kind(self, name: str) -> str:
        """Return the type of a sample. In OpenMetrics the name of a counter ends in `_total`."""
        family = self._family(name)
        kind = self.types.get(family) or self.types.get(family.removesuffix("_total"), "")
        if kind == "counter" and not family.endswith("_total"):
            return "unknown"
        return kind if kind in ("counter", "gauge", "histogram", "summary") else "unknown"

    def _head(self, family: str) -> str:
        kind = self.kind(family)
        return f"# TYPE {family.removesuffix('_total') if kind == 'counter' else family} {kind}"


def read(text: str, name: str) -> Metrics:
    """Read a file of a data set. Raises BadInput with its name if it is damaged."""
    found = Metrics()
    *lines, end = text.splitlines() or [""]
    if end != _END:
        raise BadInput(f"{name} is damaged: its end is missing.", "sha256sum -c SHA256SUMS")
    for line in lines:
        if its := _TYPE.match(line):
            found.types[its[1]] = its[2]
            continue
        sample = _SAMPLE.fullmatch(line)
        if not (sample and sample[4]):
            raise BadInput(f"{name} is damaged: {line[:50]!r}.", "sha256sum -c SHA256SUMS")
        found._points(sample[1], sample[2] or "").append((float(sample[4]), float(sample[3])))
    return found


def name_of(series: str) -> str:
    """Return the name of a series, without its labels."""
    return series.partition("{")[0]


def label(series: str, name: str) -> str:
    """Return one label of a series; empty without it."""
    found = re.search(rf'[{{,]{name}="((?:[^"\\]|\\.)*)"', series)
    return found[1] if found else ""


def _joined(labels: Mapping[str, str]) -> str:
    return ",".join(f'{key}="{_escaped(its)}"' for key, its in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def number(value: float) -> str:
    """Return a number as it is written in the file; `inf` is not known there."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value:+.0f}".title()
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else repr(value)
