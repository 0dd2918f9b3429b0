"""Synthetic: a data set that nothing was recorded for, and that unit tests try rules on.

`python -m tests.synthetic` writes it to tests/recorded/synthetic-dataset. Its figures are made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from faultlab.data import card, truth
from faultlab.data.openmetrics import UP, Metrics
from faultlab.data.truth import DATA, ITEMS, METRICS, Truth

FOLDER = Path(__file__).parent / "recorded/synthetic-dataset"
SECONDS = 24
_BEGAN = 1_800_000_000.0
_DROPS = "node_network_receive_drop_total"
_PACKETS = "node_network_receive_packets_total"
_OVERFLOWS = "node_netstat_TcpExt_ListenOverflows"
_BUSY = "node_load1"
_GONE = "mysql_up"
Figures = dict[str, Callable[[int], float | None]]  # the value at each second; None: no answer
_SOUND: Figures = {
    _DROPS: lambda t: 7,
    _PACKETS: lambda t: 1000 + 100 * t,
    _OVERFLOWS: lambda t: 3,
    _BUSY: lambda t: 0.5 + 0.1 * (t % 2),
    _GONE: lambda t: 1,
}
# For each lab: what differs in its fault, and what it is.
LABS: dict[str, tuple[Figures, str, str, str]] = {
    "mtu": ({_DROPS: lambda t: 7 + 20 * t}, "web", "network", "mtu"),
    "somaxconn": ({_OVERFLOWS: lambda t: 3 + 5 * t}, "web", "queue", "somaxconn"),
    "max-connections": ({_GONE: lambda t: 1 if t < 9 else None}, "db", "queue", "max-connections"),
    # Nothing is wrong in it. It is only busy.
    "busy": ({_BUSY: lambda t: 9.0}, "none", "none", "none"),
}


def items() -> Iterator[tuple[Truth, Metrics]]:
    """Yield each item with its metrics."""
    for lab, (ill, component, resource, cause) in LABS.items():
        for phase in ("healthy", "faulty", "fixed"):
            faulty = phase == "faulty"
            name = f"{len(lab):04x}{sum(map(ord, lab + phase)):04x}"
            its = Truth(
                item=name,
                lab=lab,
                phase=phase,
                number=1,
                fault=faulty and cause != "none",
                component=component,
                resource=resource,
                cause=cause,
                severity="",
                seconds=float(SECONDS),
                every=1.0,
                lab_digest="synthetic",
            )
            yield its, _metrics(_SOUND | ill if faulty else _SOUND)


def _metrics(figures: Figures) -> Metrics:
    found = Metrics({name: "counter" for name in (_DROPS, _PACKETS)} | {_BUSY: "gauge"})
    node = {"job": "node", "instance": "web"}
    mysqld = {"job": "mysqld", "instance": "db"}
    for t in range(SECONDS + 1):
        for target in (node, mysqld):
            found.add(UP, target, _BEGAN + t, 1)
        for name, its in figures.items():
            target = mysqld if name == _GONE else node
            more = {"device": "eth0"} if "network" in name else {}
            if (value := its(t)) is not None:
                found.add(name, target | more, _BEGAN + t, value)
    return found


def make(folder: Path) -> None:
    """Write the data set to a new folder."""
    every = list(items())
    for its, metrics in every:
        place = folder / DATA / ITEMS / its.item
        place.mkdir(parents=True)
        (place / METRICS).write_text(metrics.text())
    (folder / truth.TRUTH).mkdir()
    truth.write(folder, [its for its, _ in every])
    card.write(folder / DATA, {its.item: its.seconds for its, _ in every})


if __name__ == "__main__":
    make(FOLDER)
