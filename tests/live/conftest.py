"""How pytest runs the live tests: in a namespace of their own, on a host that they do not change.

In a quick run (FAULTLAB_QUICK, as `make test` sets it) a test that is marked `rotates` runs only
when it is its turn, and with `together` all tests of its file at once. `minutes` is about how long
it takes, so that no run gets too much: faultlab/run/rotation.py. Tests that are marked `beside` run
several at a time, each worker of pytest-xdist in a namespace of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from faultlab.core import lock
from faultlab.core.naming import verify_namespace
from faultlab.engine.local import LocalEngine
from faultlab.run import rotation
from tests.live.host import differences, snapshot

OUT = pytest.StashKey[list[str]]()
BEFORE = pytest.StashKey[dict[str, list[str]]]()
BESIDE = 2  # times as fast as one after the other: 89 s and 183 s, four workers, two processors
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")

# Neither stacks nor sweeps of the tests touch what a learner has up.
os.environ["FAULTLAB_NAMESPACE"] = f"{WORKER}-{verify_namespace()}".lstrip("-")


def pytest_configure(config: pytest.Config) -> None:
    """Let SIGTERM end us through the clean-up, as Ctrl-C does, however we were launched."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove the stacks of tests that were cut off, and note how the host is."""
    if session.config.option.collectonly:
        return
    engine = LocalEngine()
    engine.images.ensure(lambda _: None)
    for name in engine.stacks():
        with lock.hold(name, "tests"):
            engine.down(name)
    if not WORKER and os.geteuid() == 0:  # others have no right to read the packet filter
        session.config.stash[BEFORE] = snapshot()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Compare the host with how it was before the tests, whatever they did."""
    if BEFORE not in session.config.stash:
        return
    before = session.config.stash[BEFORE]
    deadline = time.monotonic() + 10  # Docker's own bridge goes down some time after its last user
    while (amiss := differences(before, snapshot())) and time.monotonic() < deadline:
        time.sleep(0.5)
    if amiss:
        print("\nthe tests have changed the host:", *amiss, sep="\n  ", file=sys.stderr)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not next, in a quick run."""
    turning = {item: _turn(item) for item in items if item.get_closest_marker("rotates")}
    minutes = dict(turning.values())
    runs = dict(zip(minutes, rotation.shared_out(list(minutes.values())), strict=True))
    now = rotation.commit() % rotation.EVERY
    out = [item for item, (turn, _) in turning.items() if rotation.quick() and runs[turn] != now]
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)
    config.stash[OUT] = [item.nodeid.split("[")[0] for item in out]


def _turn(item: pytest.Item) -> tuple[str, float]:
    """Return what has its turn together with this test, its file or it alone, and its minutes."""
    marker = item.get_closest_marker("rotates")
    facts = marker.kwargs if marker else {}
    name = item.nodeid.split("::")[0] if facts.get("together") else item.nodeid
    beside = item.get_closest_marker("beside") is not None
    return name, facts.get("minutes", 0.2) / (BESIDE if beside else 1)


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
        f"Commit {rotation.commit()}: {out.total()} tests and the remedies of labs that are not"
        f" next. Each has its turn within {rotation.EVERY} commits; all of them: make test-all"
    )
    for test, count in sorted(out.items()):
        terminalreporter.write_line(f"  {count:3} x {test.removeprefix('tests/live/')}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium, without a window. It ends with the module, as its event loop must."""
    where = shutil.which("chromium")
    if where is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=where, args=["--no-sandbox"])
        yield launched
        launched.close()
