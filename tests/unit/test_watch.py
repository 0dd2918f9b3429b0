"""Watch: which lines matter, what they are now, and how they look; no Docker here."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from faultlab.observe import watch
from faultlab.run.record import Record
from faultlab.run.series import Samples
from tests.unit.conftest import REPO, Project, Run
from tests.unit.test_report import nginx, sample

RUN = "20261121-211714-mtu-779c"


def recorded(project: Project, samples: list[dict[str, Any]], events: list[Any]) -> Record:
    folder = project.run(RUN, events=events)
    (folder / "timeline.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    return Record.read(RUN)


PHASES = [
    {"t": 4.0, "event": "measured", "phase": "healthy", "took": 3.0},
    {"t": 4.1, "event": "inject"},
    {"t": 8.0, "event": "measured", "phase": "faulty", "took": 3.0},
]


def test_what_differs_most_comes_first(project: Project) -> None:
    """The load of the client and the host as a whole are no part of it."""
    samples = [
        sample(
            t,
            machine,
            network={"time_wait": 10 if t < 4.1 else 1000, "overflows": 5 * max(0, t - 5)},
            nginx=nginx(0.5 * t),
        )
        for machine in ("client", "web")
        for t in (1.0 + i / 2 for i in range(15))
    ]
    found = watch.telling(recorded(project, samples, PHASES))
    assert found[0] == ("Sockets in TIME_WAIT", "web")
    assert ("Accept queue overflows", "web") in found[:2]
    assert not [name for _, name in found if name.startswith("client")]
    assert not [title for title, _ in found if title.startswith("Processors of")]


@pytest.mark.parametrize("events", [[], PHASES[:1]])
def test_without_both_phases_nothing_is_first(project: Project, events: list[Any]) -> None:
    samples = [sample(t, nginx=nginx(0.5 * t)) for t in (1.0, 1.5, 2.0)]
    found = watch.telling(recorded(project, samples, events))
    assert ("Processor time", "nginx") in found


def test_what_a_line_is_now() -> None:
    samples: Samples = {"web": [sample(t, nginx=nginx(0.25 * t)) for t in (1.0, 1.5, 2.0)]}
    chosen = [("Processor time", "nginx"), ("Accept queue overflows", "web")]
    busy, resting = watch.numbers(samples, chosen)
    assert (busy.title, busy.text) == ("Processor time: nginx", "25 %")
    assert (resting.text, resting.before) == ("0 /s", [])
    assert [n.text for n in watch.numbers({}, chosen)] == ["-", "-"]
    assert [n.name for n in watch.numbers(samples, [])] == ["nginx", "us", "nginx"]


@pytest.mark.parametrize(
    ("line", "drawn"),
    [
        ([0, 1, 2, 4], "▁▃▅█"),
        ([4, None, 4], "█ █"),
        ([0, 0], "▁▁"),
        ([], ""),
        ([9, 0, 1, 2, 4, 8], "▁▂▃▅█"),
    ],
)
def test_spark(line: list[float | None], drawn: str) -> None:
    assert watch.spark(line, 5) == drawn.rjust(5)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("mtu", "--seconds", "0"), 2, "--seconds takes 1 to 3600, not 0."),
        (("nolab",), 2, "There is no lab called 'nolab'."),
        (("mtu",), 3, "Docker does not answer"),
    ],
)
def test_there_is_nothing_to_watch(
    arguments: tuple[str, ...], code: int, says: str, faultlab: Run
) -> None:
    got = faultlab("watch", *arguments)
    assert got.code == code and says in got.err and len(got.err.splitlines()) == 2


def test_the_script_of_the_meter_compiles() -> None:
    """Debian has a perl everywhere; what the script uses is in its smallest."""
    done = subprocess.run(
        ["perl", "-wc", REPO / "faultlab/run/collector.pl"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.split()[-1]) == (0, "OK")
