"""On call: the first minutes of a shift on a real stack, until its page is repaired."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from faultlab.core import paths
from faultlab.core.defaults import ONCALL
from faultlab.lab import loader as labs
from faultlab.oncall.journal import FILE, Event
from faultlab.oncall.plan import drawn
from faultlab.run import placement
from tests.live.commandline import finish, spawn, words
from tests.waiting import until

pytestmark = [
    pytest.mark.rotates(minutes=6),
    pytest.mark.beside,
    pytest.mark.usefixtures("nothing_up"),
]
LABS = ("mtu", "stale-upstream")
HOURS = 0.5


def soon() -> int:
    """Return the seed of a shift whose first fault comes early."""
    pool = [labs.load(lab_id) for lab_id in LABS]
    return min(range(50), key=lambda seed: drawn(pool, 3600 * HOURS, seed, ()).comings[0].at)


def events(folder: Path) -> list[dict[str, object]]:
    """Return what the journal has so far."""
    file = folder / FILE
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def told(folder: Path) -> set[object]:
    """Return the kinds of events so far."""
    return {event["event"] for event in events(folder)}


def test_a_page_is_answered_and_repaired() -> None:
    """A fault comes, is paged, named and repaired; Ctrl-C ends the shift, and nothing is left."""
    how = ["--hours", str(HOURS), "--seed", str(soon()), "--json"]
    shift = subprocess.Popen(
        words("oncall", *LABS, *how),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: bool(placement.up(ONCALL)), 120)
        folder = paths.runs() / placement.up(ONCALL).run_id
        # Alone the whole test takes 200 s; beside walks that make load, its visits wait for turns.
        until(lambda: Event.FELT in told(folder), 600)
        came = next(event for event in events(folder) if event["event"] == Event.CAME)
        lab = labs.load(str(came["fault"]))
        refused = finish(spawn("check", ONCALL))
        assert refused[0] == 3 and "is in use by" in refused[1], refused
        answer = [f"--{part}={word}" for part, word in lab.truth.model_dump().items()]
        code, said = finish(spawn("diagnose", *answer))
        assert code == 0 and "Noted." in said, said
        stack = placement.up(ONCALL)
        for step in lab.fix:
            if step.run:
                stack[step.at].run(step.run)
            else:
                stack[step.at].restart()
        until(lambda: Event.CLEAR in told(folder), 120)
        shift.send_signal(signal.SIGINT)
        out, err = shift.communicate(timeout=120)
    finally:
        if shift.poll() is None:
            shift.kill()
            shift.wait()
    assert shift.returncode == 0, err
    report = json.loads(out)
    (one,) = report["incidents"]
    assert one["fault"] == came["fault"] and not one["itself"]
    assert one["repaired"] > one["named"] > 0 and report["false"] == 0
    assert report["visits"] > 0 and not placement.up(ONCALL)
    code, said = finish(spawn("oncall", "--report", report["run"]))
    assert code == 0 and str(came["fault"]) in said, said
