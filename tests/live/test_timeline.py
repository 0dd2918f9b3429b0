"""The timeline on a real stack: who is sampled, what is seen, and that nothing of it stays."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from faultlab.core import lock, paths
from faultlab.engine.docker.local import LocalEngine
from faultlab.probes import wrk
from faultlab.run import series
from faultlab.run.record import Record
from faultlab.run.run import Run
from faultlab.run.series import Chart, Samples
from faultlab.run.timeline import FILE
from tests.live.commandline import finish, kill_9, spawn
from tests.live.stacks import untouched

pytestmark = pytest.mark.rotates(together=True, minutes=0.7)

HELPED = "com.docker.compose.service"  # the label that helpers do not have


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """A stack with nginx, PHP-FPM and MariaDB, under load, with nginx restarted once."""
    with untouched("repeat-queries", "timeline", collects=True) as begun:
        with lock.turn(alone=True):
            wrk.bookings(begun.stack["client"], connections=8, seconds=3)
            begun.stack["nginx"].restart()
            begun.stack.wait_ready()
            wrk.bookings(begun.stack["client"], connections=8, seconds=3)
        begun.collect(on=False)
        yield begun


@pytest.fixture(scope="module")
def samples(run: Run) -> Samples:
    """Return the samples that were written of the run."""
    return series.read(run.record.folder / FILE)


def line(samples: Samples, title: str, name: str) -> list[float]:
    """Return the values that a chart of it would show, without the gaps."""
    charts: list[Chart] = series.charts(samples)
    return [v for c in charts if c.title == title for v in c.lines[name] if v is not None]


def test_every_machine_is_sampled_as_often(samples: Samples) -> None:
    """Twice a second, also those at work."""
    assert set(samples) == {"client", "web", "db"}
    counts = [len(each) for each in samples.values()]
    assert min(counts) >= 0.8 * max(counts) and min(counts) > 6
    assert series.pause(samples) == 0.5


def test_every_container_is_in_it(samples: Samples) -> None:
    """Machines and their daemons."""
    found = {machine: set(each[-1]["containers"]) for machine, each in samples.items()}
    assert found == {
        "client": {"client"},
        "web": {"web", "nginx", "php-fpm"},
        "db": {"db", "mysql"},
    }


def test_the_load_is_seen(samples: Samples) -> None:
    """Workers, queries, rows, processor time and bytes."""
    assert max(line(samples, "PHP-FPM", "php-fpm busy")) > 1
    assert max(line(samples, "Database: queries", "mysql")) > 100
    assert max(line(samples, "Database: rows", "mysql")) > 100
    assert max(line(samples, "Processor time", "mysql")) > 10
    sent, received = line(samples, "Network", "db out"), line(samples, "Network", "web in")
    assert 0.5 < sum(sent) / sum(received) < 2  # mostly the database's answers


def test_a_daemon_that_was_restarted_is_found_again(samples: Samples) -> None:
    """It has another process then."""
    used = [s["containers"]["nginx"] for s in samples["web"] if "nginx" in s["containers"]]
    assert "nginx" in samples["web"][-1]["containers"] and used[-1]["memory"] > 0


def test_nothing_of_it_stays_beside_the_stack(run: Run) -> None:
    """Neither a container, nor a process in a machine."""
    beside = [c for c in LocalEngine().containers(stack=run.stack.name) if HELPED not in c.labels]
    assert beside == []
    assert "collector" not in run.stack["web"].must("ps -eo comm=").split()


def test_a_machine_cannot_reach_the_host_through_it(run: Run) -> None:
    """Processes in one PID namespace can be traced: the helper must hold nothing of the host's."""
    run.collect()
    try:
        time.sleep(1.5)
        find = "for p in $(pgrep -x collector); do cat /proc/$p/mounts; done"
        mounts = run.stack["web"].must(find)
        caps = run.stack["web"].must("grep CapEff /proc/$(pgrep -ox collector)/status").split()[1]
    finally:
        run.collect(on=False)
    cgroups = [m for m in mounts.splitlines() if " cgroup" in m]
    assert cgroups and all(" ro," in f" {m.split()[3]}," for m in cgroups)
    assert int(caps, 16) == 1 << 19  # CAP_SYS_PTRACE


def test_a_run_that_is_killed_keeps_its_samples() -> None:
    """They are on disk as they come; the helpers go with the stack."""
    earlier = set(Record.ids("latent"))
    started = spawn("start", "latent")
    deadline = time.monotonic() + 60
    lines: list[str] = []
    try:
        while len(lines) < 4:
            assert started.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
            ours = [run for run in Record.ids("latent") if run not in earlier]
            files = [paths.runs() / run / FILE for run in ours]
            lines = [line for f in files if f.is_file() for line in f.read_text().splitlines()]
    finally:
        kill_9(started)
    kept = files[0].read_text().splitlines()
    assert len(kept) >= 4 and all(json.loads(line)["machine"] for line in kept)
    code, said = finish(spawn("down", "latent"))
    assert code == 0 and "nothing is left" in said


def test_watch_tells_what_matters() -> None:
    """Of a lab that is up, under its own load, one line below the other as this is no terminal."""
    assert finish(spawn("start", "php-workers"))[0] == 0
    try:
        code, said = finish(spawn("watch", "php-workers", "--load", "--seconds", "5"))
        assert code == 0 and "PHP-FPM: php-fpm busy" in said, said
        assert max(len(line) for line in said.splitlines()) <= 80
        code, said = finish(spawn("watch", "php-workers", "--seconds", "2", "--json"))
        told = json.loads(said)["numbers"]
        assert code == 0 and {"PHP-FPM"} <= {number["chart"] for number in told}
    finally:
        finish(spawn("down", "php-workers"))
