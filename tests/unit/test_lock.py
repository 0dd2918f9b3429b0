"""The lock of a stack: who has it is named, and `kill -9` of the holder frees it."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultlab.core import lock
from faultlab.core.defaults import MYSTERY
from faultlab.core.errors import CannotRun
from faultlab.lab import loader as labs
from faultlab.workshop.folder import Folder
from tests.unit.conftest import Run, said
from tests.unit.fake import FakeEngine, FakeStack, only_fake

HOLD = """
import sys
from pathlib import Path
from faultlab.core import lock
lock._TOP = Path(sys.argv[1])
with lock.hold("faultlab-mtu", "start mtu"):
    print("held", flush=True)
    sys.stdin.read()
"""
WAIT = "wait until it has ended, then type it again"


@pytest.mark.parametrize("how", ["open", "file", "link", "of another user"])
def test_a_folder_of_somebody_else_is_refused(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder for locks that somebody made in /tmp before us, with files that we would open."""
    if how == "of another user":
        monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    folder = lock.folder()
    match how:
        case "open":
            folder.mkdir()
            folder.chmod(0o777)
        case "file":
            folder.write_text("")
        case "link":
            (tmp_path / "theirs").mkdir(mode=0o700)
            folder.symlink_to(tmp_path / "theirs")
        case _:
            folder.mkdir(mode=0o700)
    with pytest.raises(CannotRun, match=r"is not yours alone|cannot be made"), lock.hold("x", "y"):
        pass
    assert not list(tmp_path.glob("**/*.lock"))


def test_another_tmpdir_leads_to_the_same_locks(tmp_path: Path) -> None:
    """Two terminals of a user with different ones did not see each other's commands."""
    printed = subprocess.run(
        [sys.executable, "-c", "from faultlab.core import lock; print(lock.folder())"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed == f"/tmp/faultlab-{os.getuid()}\n"


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, in the middle of `faultlab start mtu`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with process:
        yield process
        process.kill()


@pytest.mark.parametrize("verb", ["start", "reset", "down"])
def test_the_holder_is_named(
    verb: str, holder: subprocess.Popen[str], engine: FakeEngine, faultlab: Run
) -> None:
    problem = f"faultlab-mtu is in use by `faultlab start mtu` (process {holder.pid})."
    assert faultlab(verb, "mtu") == said(problem, WAIT, 3)


def test_kill_9_frees_it(holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    with lock.hold("faultlab-mtu", "check mtu"):
        held = (lock.folder() / "faultlab-mtu.lock").read_text()
        assert held == f"`faultlab check mtu` (process {os.getpid()})"
    assert (lock.folder() / "faultlab-mtu.lock").read_text() == ""


def test_another_stack_is_free(holder: subprocess.Popen[str]) -> None:
    with lock.hold("faultlab-somaxconn", "start somaxconn"):
        pass


def test_waiting_ends_with_the_holder(holder: subprocess.Popen[str]) -> None:
    got = threading.Event()

    def wait() -> None:
        with lock.hold("faultlab-mtu", "images", wait=True):
            got.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not got.wait(0.1)
    holder.kill()
    assert got.wait(5)
    thread.join()


def test_an_error_inside_frees_it() -> None:
    with pytest.raises(RuntimeError), lock.hold("faultlab-mtu", "start mtu"):
        raise RuntimeError
    with lock.hold("faultlab-mtu", "start mtu"):
        pass


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """/tmp belongs to all users: no other user may point our lock at a file that we would empty."""
    precious = tmp_path / "precious"
    precious.write_text("keep")
    lock.folder().mkdir(mode=0o700)
    (lock.folder() / "faultlab-mtu.lock").symlink_to(precious)
    with pytest.raises(CannotRun, match="cannot be made"), lock.hold("faultlab-mtu", "down"):
        pass
    assert precious.read_text() == "keep"


def test_sweep_leaves_what_is_held_and_says_so_once(
    holder: subprocess.Popen[str], engine: FakeEngine, faultlab: Run
) -> None:
    """`--json` prints one object, also when sweep ends with an error."""
    engine.stacks_up["faultlab-mtu"] = FakeStack()
    got = faultlab("sweep", "--json")
    assert got.code == 3
    assert json.loads(got.out)["held"] == [
        f"faultlab-mtu is in use by `faultlab start mtu` (process {holder.pid})."
    ]


class Stubborn(FakeEngine):
    """It cannot remove its first stack at once."""

    tries = 0

    def down(self, stack: str) -> None:
        """Fail once."""
        self.tries += 1
        if self.tries == 1:
            raise CannotRun("Could not remove the network.")
        super().down(stack)


def test_sweep_reports_only_what_is_left(faultlab: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second pass can remove what the first one could not."""
    engine = only_fake(monkeypatch, Stubborn())
    engine.stacks_up["faultlab-mtu"] = FakeStack()
    assert faultlab("sweep").code == 0 and not engine.stacks_up


def test_sweep_leaves_a_class_that_is_going_on(engine: FakeEngine, faultlab: Run) -> None:
    """A sweep in a class: between two commands its server holds no lock on its stacks."""
    stacks = ["faultlab-math-2-mystery", "faultlab-mtu", "faultlab-maths-2-mystery"]
    engine.stacks_up = {name: FakeStack() for name in stacks}
    with Folder("math").hold("class start"):
        got = faultlab("sweep", "--json")
    assert (got.code, [*engine.stacks_up]) == (3, stacks[:1])
    assert json.loads(got.out)["held"] == [
        f"class-faultlab-math- is in use by `faultlab class start` (process {os.getpid()})."
    ]
    assert faultlab("sweep").code == 0 and not engine.stacks_up


def test_a_class_holds_its_own_stacks_only(engine: FakeEngine, faultlab: Run) -> None:
    """Not a lab whose name begins as its own does, and not those of a class that is called so."""
    its = ["faultlab-slow-1-mystery", "faultlab-slow-12-slow-log", "faultlab-slow-64-mtu"]
    others = ["faultlab-slow-log", "faultlab-slow-join", "faultlab-slow-2-1-mystery"]
    engine.stacks_up = {name: FakeStack() for name in (*its, *others)}
    with Folder("slow").hold("class start"):
        assert faultlab("sweep").code == 3
    assert [*engine.stacks_up] == its


def test_no_lab_is_called_as_a_seat_of_a_class() -> None:
    """`lock.refuse_class` tells the stacks of a class by the number of the seat."""
    every = [MYSTERY, *labs.ids()]
    assert not [
        name for name in every if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z][a-z0-9]*)*", name)
    ]


TURN = """
import sys
from pathlib import Path
from faultlab.core import lock
lock._TOP, lock._GIVES_WAY, lock._CLOSED = Path(sys.argv[1]), *map(float, sys.argv[3:])
with lock.turn(alone=bool(int(sys.argv[2]))):
    print("mine", flush=True)
    sys.stdin.read()
"""


class Turns:
    """Processes that each want a turn."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.live: list[subprocess.Popen[str]] = []

    def want(
        self, alone: bool, gives_way: float = 0.1, closed: float = 60
    ) -> subprocess.Popen[str]:
        said = [str(int(alone)), str(gives_way), str(closed)]
        process = subprocess.Popen(
            [sys.executable, "-c", TURN, self.folder, *said],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.live.append(process)
        return process


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[Turns]:
    """No process has a turn yet, and in the end none has one."""
    wanted = Turns(tmp_path)
    yield wanted
    for process in wanted.live:
        with process:
            process.kill()


def has_it(process: subprocess.Popen[str], seconds: float) -> bool:
    assert process.stdout is not None
    return bool(select.select([process.stdout], [], [], seconds)[0])


def test_short_turns_are_shared(turns: Turns) -> None:
    assert has_it(turns.want(alone=False), 10)
    assert has_it(turns.want(alone=False), 10)


@pytest.mark.parametrize(("gives_way", "closed"), [(30, 60), (0.1, 0.5)])
def test_a_load_gives_way_for_a_while(turns: Turns, gives_way: float, closed: float) -> None:
    """It does so again while it waits: a look of half a minute must not stop all others."""
    first = turns.want(alone=False)
    assert has_it(first, 10)
    load = turns.want(alone=True, gives_way=gives_way, closed=closed)
    assert not has_it(load, 0.5)
    later = turns.want(alone=False)
    assert has_it(later, 10) and not has_it(load, 0.1)
    first.kill()
    assert not has_it(load, 0.3)
    later.kill()
    assert has_it(load, 10)


def test_a_load_is_alone_and_is_not_overtaken_for_ever(turns: Turns) -> None:
    """Later turns wait for a load that waits for its own, or the load might never have one."""
    first = turns.want(alone=False)
    assert has_it(first, 10)
    load = turns.want(alone=True)
    assert not has_it(load, 0.5)
    later = turns.want(alone=False)
    assert not has_it(later, 0.5)
    first.kill()  # the kernel takes the turn from what is dead
    assert has_it(load, 10)
    assert not has_it(later, 0.3)
    load.kill()
    assert has_it(later, 10)


def test_a_removal_does_not_wait_for_ever(turns: Turns) -> None:
    """A command that has the machine alone can be suspended."""
    assert has_it(turns.want(alone=True), 10)
    began = time.monotonic()
    with lock.turn(alone=False, patience=0.2):
        assert time.monotonic() - began >= 0.2
    turns.live[0].kill()
    assert turns.live[0].wait(10)
    with lock.turn(alone=False, patience=30):
        assert not has_it(turns.want(alone=True), 0.5)
