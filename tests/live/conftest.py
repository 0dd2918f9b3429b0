"""How pytest runs the live tests: in a namespace of their own, on a host that they do not change.

In a quick run (FAULTLAB_QUICK, as `make test` sets it) a test that is marked `rotates` runs only
when it is its turn, and with `together` all tests of its file at once. `minutes` is about how long
it takes, so that no run gets too much (turns.py), and `turn` the turn itself. Each worker of
pytest-xdist has a namespace of its own. Tests that are marked `beside` run several at a time. Of
the others, one worker takes the labs and what is in the VM, and one takes the rest. A test that is
marked `alone` waits until the other worker is between two tests. A worker takes one test of a lab,
or the tests of a file, or all that may need the VM.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from functools import cache

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from faultlab.core import git, lock
from faultlab.core.errors import CannotRun
from faultlab.core.naming import verify_namespace
from faultlab.engine.docker.local import LocalEngine
from faultlab.run import rotation
from faultlab.run.looks import TOO_BUSY
from tests.live import turns
from tests.live.classes import PATIENCE
from tests.live.commandline import finish, spawn
from tests.live.host import State, differences, snapshot
from tests.live.stacks import boot_the_vm, needs_vm

OUT = pytest.StashKey[list[str]]()
BEFORE = pytest.StashKey[State]()
AMISS = pytest.StashKey[list[str]]()
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
PATIENCE_HOST = 20  # s: Docker's own bridge goes down some time after its last user
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

# The workers collect the same tests, so the seed that chooses some of them is theirs together. A
# quick run of a commit chooses the same each time: what was red can be seen again.
os.environ.setdefault(
    "FAULTLAB_SEED", str(git.commits() if rotation.quick() else random.randrange(10**6))
)
# Neither stacks nor sweeps of the tests touch what a learner has up.
os.environ["FAULTLAB_NAMESPACE"] = f"{WORKER}-{verify_namespace()}".lstrip("-")


def pytest_report_header() -> str:
    """Say what draws, so that the same can be drawn again."""
    return f"FAULTLAB_SEED={os.environ['FAULTLAB_SEED']}"


def pytest_configure(config: pytest.Config) -> None:
    """Let SIGTERM end us through the clean-up, as Ctrl-C does, however we were launched."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)


def _stop(*_: object) -> None:
    """End, once: after a Ctrl-C in a terminal run.sh tells us too, while we clean up."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    raise KeyboardInterrupt


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove the stacks of tests that were cut off, and note how the host is."""
    if session.config.option.collectonly:
        return
    engine = LocalEngine()
    engine.images.ensure(lambda _: None)
    turns.not_here()
    ours = os.environ["FAULTLAB_NAMESPACE"]
    workers = [] if WORKER else [f"gw{n}-" for n in range(len(session.config.option.tx or ()))]
    for worker in ["", *workers]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FAULTLAB_NAMESPACE", worker + ours)
            for name in engine.stacks():
                with lock.hold(name, "tests"):
                    engine.down(name)
    if not WORKER and os.geteuid() == 0:  # others have no right to read the packet filter
        session.config.stash[BEFORE] = _at_rest()


def _at_rest() -> State:
    """Return how the host is when nothing moves: Docker's bridge goes down after the last build."""
    deadline = time.monotonic() + PATIENCE_HOST
    before = snapshot()
    while True:
        time.sleep(1.5)  # the kernel tells of a link that has gone once a second
        now = snapshot()
        if now == before or time.monotonic() > deadline:
            return now
        before = now


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Compare the host with how it was before the tests, whatever they did."""
    if BEFORE not in session.config.stash:
        return
    before = session.config.stash[BEFORE]
    deadline = time.monotonic() + PATIENCE_HOST
    while (amiss := differences(before, snapshot())) and time.monotonic() < deadline:
        time.sleep(0.5)
    if amiss:
        session.config.stash[AMISS] = amiss
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say last what has changed on the host, below the list of what passed."""
    if amiss := config.stash.get(AMISS, []):
        print("\nthe tests have changed the host:", *amiss, sep="\n  ", file=sys.stderr)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not next, in a quick run."""
    out: list[pytest.Item] = []
    now = git.commits() % rotation.EVERY
    for beside in (True, False):
        group = [item for item in items if _beside(item) is beside]
        turning = {item: _turn(item) for item in group if item.get_closest_marker("rotates")}
        in_vm = {turn[0] for item, turn in turning.items() if beside and _in_vm(item.nodeid)}
        fixed = {t[0]: turn for i, t in turning.items() if (turn := _fixed(i)) is not None}
        minutes = {name: each for name, each in turning.values() if name not in fixed}
        runs = fixed | turns.of_tests(minutes, in_vm, beside=beside)
        out += [i for i, (turn, _) in turning.items() if rotation.quick() and runs[turn] != now]
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)
    config.stash[OUT] = [item.nodeid.split("[")[0] for item in out]
    if WORKER:
        walked = [lab_id for lab_id in turns.plan().turns if turns.mark(lab_id)]
        takes: dict[str, float] = defaultdict(float)
        for name, each in dict.fromkeys(map(_turn, items)):
            takes[_scope(name)] += each
        items.sort(key=lambda item: (_rank(item, walked), -takes[_scope(item.nodeid)]))


def _rank(item: pytest.Item, walked: list[str]) -> int:
    """Return when a worker takes a test; `walked`: the labs that are walked beside others.

    A worker is given its next test while one is in progress. So the longest walks of labs and the
    tests of the VM come first, one for each worker, and then walks that are left out. Of the
    others, those that take longest come first, and those that need the machine alone come last.
    """
    lab_id = _lab(item.nodeid)
    if "test_labs.py" not in item.nodeid:
        return 5 if item.get_closest_marker("alone") else 1 if _in_vm(item.nodeid) else 4
    if not turns.mark(lab_id):
        return 0
    if lab_id not in walked:
        return 2
    return 0 if lab_id in walked[: WORKERS - 1] else 3


def _lab(nodeid: str) -> str:
    """Return the lab that a test has as its parameter."""
    named = nodeid.partition("[")[2].rstrip("]")
    return next((id for id in turns.all_labs() if named == id or named.startswith(f"{id}-")), "")


def _in_vm(nodeid: str) -> bool:
    """Return whether a test may need the VM."""
    lab_id = _lab(nodeid)
    named = any(words in nodeid for words in ("InTheVm", "in_the_vm", "test_vm.py"))
    return named or (lab_id != "" and needs_vm(turns.all_labs()[lab_id]))


def _scope(nodeid: str) -> str:
    """Return what one worker takes at once: a test of a lab, a file, or all that may need the VM.

    The labs that one verify walks are among the latter.
    """
    lab_id = _lab(nodeid)
    if _in_vm(nodeid) or ("test_labs.py" in nodeid and not turns.mark(lab_id)):
        return "vm"
    return nodeid if lab_id else nodeid.partition("::")[0]


class _Scheduling(LoadScopeScheduling):
    """Gives the workers of pytest-xdist their tests."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        """Give a worker its next test when it begins its last one, not two tests before that.

        A test that waits for a long walk to end could have been taken by another worker.
        """
        if self._pending_of(self.assigned_work[node]) < 2:  # it needs to know the next one
            super()._reschedule(node)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Boot the lab VM before the first test that needs it, or wait until run.sh has done so."""
    if WORKER and _in_vm(item.nodeid):
        _boot_the_vm()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let a test that is marked `alone` wait until no other worker has one, and others for it."""
    alone = item.get_closest_marker("alone") is not None
    with (lock.private(lock.folder()) / "tests.lock").open("w") as room:
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skip what the machine is too busy to judge, in a quick run: it has other turns."""
    try:
        return (yield)
    except CannotRun as problem:
        if rotation.quick() and TOO_BUSY in problem.message:
            pytest.skip(problem.message)
        raise


_boot_the_vm = cache(boot_the_vm)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Tell pytest-xdist how to share out the tests."""
    return _Scheduling(config, log)


def _turn(item: pytest.Item) -> tuple[str, float]:
    """Return what has its turn together with this test, its file or it alone, and its minutes."""
    marker = item.get_closest_marker("rotates")
    facts = marker.kwargs if marker else {}
    name = item.nodeid.split("::")[0] if facts.get("together") else item.nodeid
    return name, facts.get("minutes", 0.2)


def _fixed(item: pytest.Item) -> int | None:
    """Return the turn that a test has by its mark, whose minutes turns.py has counted."""
    marker = item.get_closest_marker("rotates")
    return marker.kwargs.get("turn") if marker else None


def _beside(item: pytest.Item) -> bool:
    return item.get_closest_marker("beside") is not None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what a quick run has left out."""
    left: list[str] = config.stash.get(OUT, [])
    out = Counter(left)
    if not out:
        return
    terminalreporter.section("left out of this quick run")
    terminalreporter.write_line(
        f"Commit {git.commits()}: {out.total()} tests and the remedies of labs that are not"
        f" next. Each has its turn within {rotation.EVERY} commits; all of them: make test-all"
    )
    for test, count in sorted(out.items()):
        terminalreporter.write_line(f"  {count:3} x {test.removeprefix('tests/live/')}")


@pytest.fixture(scope="module")
def engine() -> LocalEngine:
    """The engine, whose images the session has ensured."""
    return LocalEngine()


@pytest.fixture
def nothing_up(engine: LocalEngine) -> Iterator[None]:
    """A test that begins and ends with nothing of ours up."""
    assert finish(spawn("sweep"))[0] == 0
    yield
    assert finish(spawn("sweep"))[0] == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium, without a window. It ends with the module, as its event loop must."""
    where = shutil.which("chromium")
    if where is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE)
        launched = playwright.chromium.launch(executable_path=where, args=["--no-sandbox"])
        yield launched
        launched.close()
