"""How pytest runs the checks: one walk through the lab for each test class, judged by its tests.

The verdict of a test is `fail` for an assertion, `unknown` for anything else that goes wrong, and
`skip` with its reason. Verdicts go into the run's record, and to the file that --verdicts names.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from host import differences, snapshot

from faultlab import engines, lock, stack, vm
from faultlab import lab as labs
from faultlab.case import namespace
from faultlab.contract import walk
from faultlab.engine import Engine
from faultlab.lab import Lab
from faultlab.run import Run, ensure_images, stack_name

VERDICTS = pytest.StashKey[list[dict[str, str]]]()
RUN_ID = pytest.StashKey[str]()

# A namespace of our own: neither stacks nor sweeps of the checks touch what a learner has up.
os.environ["FAULTLAB_NAMESPACE"] = namespace()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that `faultlab verify` uses."""
    parser.addoption("--verdicts", type=Path, help="write the verdicts to this file as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Start with no verdicts, and let SIGTERM end us through the clean-up, as Ctrl-C does."""
    config.stash[VERDICTS] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What takes many minutes (without KVM) runs only when asked for, or in `faultlab verify`."""
    asked = os.environ.get("FAULTLAB_LONG") or item.config.getoption("--verdicts")
    if item.get_closest_marker("long") and not asked:
        pytest.skip("takes minutes: make test LONG=1")


@pytest.fixture(scope="session", autouse=True)
def the_host_is_as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever the checks do, the host is the same before and after all of them."""
    if request.config.getoption("--verdicts") or os.geteuid() != 0:
        yield  # a case of verify, perhaps beside others; or no right to read the packet filter
        return
    engine = Engine()
    ensure_images(engine, lambda _: None)
    for name in stack.names(engine):  # of checks that were cut off: ours to remove, now or later
        with lock.hold(name, "checks"):
            stack.down(engine, name)
    before = snapshot()
    yield
    assert differences(before, snapshot()) == []


def long_but(always: Collection[str], lab_ids: Iterable[str]) -> list[ParameterSet]:
    """These labs as parameters of a test: some of them always, the others with LONG=1."""
    return [
        pytest.param(lab_id, marks=[] if lab_id in always else [pytest.mark.long])
        for lab_id in lab_ids
    ]


def engine_for(lab: Lab) -> Engine:
    """Where this lab runs: the VM if FAULTLAB_ENGINE says so or it has to. Skips without a VM."""
    local = Engine()
    if os.environ.get("FAULTLAB_ENGINE") == "vm":
        return vm.connect()
    ensure_images(local, lambda _: None)
    why = engines.needs_vm(local, lab)
    if why and vm.state() != "running":
        pytest.skip(f"needs the lab VM, which is {vm.state()}: {why}")
    return vm.connect() if why else local


@contextmanager
def untouched(lab_id: str, name: str) -> Iterator[Run]:
    """A run of a lab that is up under a name of its own, without its fault; down in the end."""
    lab = labs.load(lab_id)
    with lock.hold(stack_name(name), name):
        begun = Run.begin(engine_for(lab), lab, stack_name(name))
        try:
            yield begun
        finally:
            begun.down()


@pytest.fixture(scope="class")
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """The lab of this check file, walked through all its phases and taken down."""
    lab_id = Path(str(request.path)).stem.removeprefix("test_").replace("_", "-")
    lab = labs.load(lab_id)
    name = stack_name(lab_id)
    with lock.hold(name, f"verify {lab_id}"):
        engine = engine_for(lab)
        started = time.monotonic()
        walked = Run.begin(engine, lab, name)
        request.config.stash[RUN_ID] = walked.record.id
        facts = walked.record.facts
        try:
            walk(walked)
        except BaseException as error:
            facts["tests"] = [{"test": "walk", "verdict": "unknown", "text": str(error)}]
            raise
        finally:
            walked.down()
        facts["seconds"] = round(time.monotonic() - started, 1)
        walked.record.save()
        verdicts = request.config.stash[VERDICTS]
        already = len(verdicts)
        yield walked
        facts["tests"] = verdicts[already:]
        walked.record.save()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note one verdict for each test, and whether it is the test or the machine that said so."""
    report = yield
    verdict = ""
    text = ""
    if report.skipped and call.excinfo is not None:
        verdict, text = "skip", str(call.excinfo.value)
    elif report.failed and call.excinfo is not None:
        said_no = call.when == "call" and call.excinfo.errisinstance(AssertionError)
        verdict = "fail" if said_no else "unknown"
        lines = str(call.excinfo.value).splitlines() or [call.excinfo.typename]
        text = lines[0] if said_no else f"{call.excinfo.typename}: {lines[0]}"
    elif report.passed and call.when == "call":
        verdict = "pass"
    if verdict:
        entry = {"test": item.name, "verdict": verdict, "text": text}
        item.config.stash[VERDICTS].append(entry)
    return report


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write which tests are to come, so that nobody takes a part of them for the whole."""
    _write(session)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the verdicts where they were asked for."""
    _write(session)


def _write(session: pytest.Session) -> None:
    file = session.config.getoption("--verdicts")
    if file is not None:
        told = {
            "run": session.config.stash.get(RUN_ID, ""),
            "collected": [item.name for item in session.items],
            "tests": session.config.stash[VERDICTS],
        }
        file.write_text(json.dumps(told, indent=1) + "\n")
