"""The later look: what ends soon is a no, and people who only look on are not refused."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from faultlab.core.naming import stack_name
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from faultlab.run import leftovers
from faultlab.run.attached import attached
from faultlab.run.phase import LATER
from faultlab.run.process import processes
from tests.live.commandline import finish, spawn
from tests.live.stacks import container

pytestmark = [pytest.mark.rotates(together=True, minutes=2.5), pytest.mark.beside]
LAB = "iptables-drop"
# As from a cron job: three minutes later both rules are back.
UNDO = """iptables-save -t filter >/tmp/faulty; iptables -F INPUT; iptables -F OUTPUT
setsid sh -c 'sleep 180; iptables-restore </tmp/faulty' >/dev/null 2>&1 </dev/null &"""


@pytest.fixture(scope="module")
def up() -> Iterator[Stack]:
    """The lab with both rules gone, and with what people have open."""
    assert finish(spawn("start", LAB))[0] == 0
    stack = Stack(LocalEngine(), stack_name(LAB))
    try:
        stack["web"].must(UNDO)
        for words in (["bash"], ["sh", "-c", "bash || true"], ["top"], ["vi", "/etc/hosts"]):
            container(stack["web"]).exec_run(words, detach=True, tty=True)
        container(stack["web"]).exec_run(["tcpdump", "-ni", "eth0", "port", "81"], detach=True)
        container(stack["client"]).exec_run(["nc", "-lku", "53"], detach=True)
        yield stack
    finally:
        stack.release()
        finish(spawn("down", LAB))


def test_a_repair_that_ends_in_three_minutes(up: Stack) -> None:
    """The quick check cannot know. The late look names what waits, and nothing else."""
    code, said = finish(spawn("check", LAB, "--later", "0.05"))
    assert code == 1, said
    words = " ".join(said.split())
    assert "repaired; looked at again in 3 seconds" in words
    assert (
        "On web a command still waits in the background: sh -c sleep 180; iptables-restore"
        " </tmp/faulty. End it, then check again."
    ) in words.replace("iptables- restore", "iptables-restore")
    assert words.count("still waits") == 1
    up["web"].must("pkill -f '[s]leep 180'")


def test_people_who_look_on_are_not_refused(up: Stack) -> None:
    """An open shell, top, vi and tcpdump; what serves is no part of it either."""
    code, said = finish(spawn("check", LAB, "--late"))
    assert code == 0 and "it still works as before" in said, said
    with attached(LAB, "test") as run:
        reading = run.reading(LATER)
        assert [(each.machine, each.command, each.serves) for each in reading.left or ()] == [
            ("client", "nc -lku 53", True)
        ]
        assert reading.frozen is None, "nothing of it can mask a fault"


def test_what_masks_the_fault_is_frozen_while_users_look(up: Stack) -> None:
    """It sleeps in no way that shows, and it is no shell. It goes on when they have looked."""
    again = (
        "iptables -A INPUT -p tcp --dport 80 -m statistic --mode random --probability 0.3 -j DROP"
    )
    loop = 'while (1) { system("iptables -F INPUT"); select undef, undef, undef, 0.05 }'
    # Another program brings the fault back all the time, as a part of the lab itself could.
    fault = f'while (1) {{ system("{again}"); select undef, undef, undef, 1 }}'
    with attached(LAB, "test") as run:
        container(up["web"]).exec_run(["perl", "-e", fault], detach=True)
        time.sleep(1)
        run.note_processes()
    container(up["web"]).exec_run(["perl", "-e", loop], detach=True)
    time.sleep(1)
    code, said = finish(spawn("check", LAB, "--late"))
    words = " ".join(said.split())
    assert code == 1 and "It holds only while `perl -e while (1) { system(" in words, said
    assert "runs on web." in words
    found = leftovers.find(up, learner_notes())
    with found.frozen():
        assert states(up, loop) == {"T"}
    assert "T" not in states(up, loop)


def learner_notes() -> leftovers.Noted:
    with attached(LAB, "test") as run:
        noted: leftovers.Noted = run.record.facts["processes"]
        return noted


def states(stack: Stack, words: str) -> set[str]:
    """The states of the processes with these words, as the kernel sees them."""
    pids = [str(each.pid) for each in processes(stack) if words in each.command]
    assert pids
    script = "; ".join(f"cut -d' ' -f3 /proc/{pid}/stat" for pid in pids)
    return {*stack.helper().must(script).split()}
