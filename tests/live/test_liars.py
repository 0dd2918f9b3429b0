"""Programs that lie, on every machine and in every daemon: no verdict may depend on one of them.

A learner is root there and can put a program of their own in front of any other. Those that measure
print what a healthy system would, and note that they were called.
"""

from __future__ import annotations

import os
import random
import shlex

import pytest

from faultlab.core.errors import CannotRun
from faultlab.lab import loader as labs
from faultlab.run import rotation
from faultlab.run.phase import CHECK
from faultlab.run.run import Run
from tests.live import turns
from tests.live.stacks import untouched

# A few of them are called by daemons when they start: those tell the truth.
PROGRAMS = (
    "nstat ss ip tc iptables conntrack hostname dig getent netstat df du nproc sysctl sar vmstat"
    " mpstat pidstat dmesg mysqladmin cgi-fcgi tcpdump"
)
# Each says who called it.
LIE = r"""#!/bin/sh
echo "$0 $*, by $(tr "\0" " " </proc/$PPID/cmdline)" >>/tmp/called
echo 0
"""
LIES = f"""for p in {PROGRAMS}; do printf %s {shlex.quote(LIE)} >/usr/local/sbin/$p
chmod +x /usr/local/sbin/$p; done; rm -f /tmp/called"""
TRUTH = f"cd /usr/local/sbin && rm -f {PROGRAMS}"
# Docker itself asks PHP-FPM and the database for their health, in their containers.
CALLED = (
    "grep -vE ', by /bin/sh /usr/local/bin/health $|mysqladmin --silent ping, by ' /tmp/called"
    " 2>/dev/null"
)

FEW = 2  # labs in a quick run, drawn from those that are walked beside others


def drawn() -> list[str]:
    """Return the labs to try: all of them, or a few by the seed of this run."""
    every = [lab_id for lab_id in labs.ids() if not labs.load(lab_id).control]
    if not rotation.quick():
        return every
    beside = [lab_id for lab_id in every if turns.mark(lab_id)]
    return random.Random(os.environ["FAULTLAB_SEED"]).sample(beside, FEW)


def check(run: Run) -> list[str]:
    """Return the findings that do not hold now. No connection of a user outlives the look."""
    run.measure(CHECK)
    assert run.stack.user().must("ss -Htn state established") == ""
    return sorted(found.name for found in run.good(CHECK) if not found.holds)


def everywhere(run: Run, command: str) -> list[str]:
    """Run a command in each machine and daemon that runs; return what they print."""
    return [each.run(command).out for each in run.stack.values() if each.state.running]


@pytest.mark.parametrize(
    "lab_id", [pytest.param(lab_id, marks=turns.mark(lab_id)) for lab_id in drawn()]
)
def test_no_verdict_depends_on_a_program_of_a_machine(lab_id: str) -> None:
    """Faulty and fixed: the verdicts are as without them, and none of them was called."""
    lab = labs.load(lab_id)
    with untouched(lab_id, f"liars-{lab_id}") as run:
        run.healthy()
        run.inject()
        run.gate()
        everywhere(run, LIES)
        try:
            assert check(run), "faulty, and the check says yes"
        except CannotRun as problem:
            pytest.fail(f"the check cannot judge: {problem}")
        assert "".join(everywhere(run, CALLED)) == ""
        everywhere(run, TRUTH)
        run.apply("fix", lab.fix)
        everywhere(run, LIES)
        assert check(run) == []
        assert "".join(everywhere(run, CALLED)) == ""
