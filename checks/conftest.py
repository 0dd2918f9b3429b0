"""How pytest runs the checks: one walk through the lab for each test class, judged by its tests.

The class is the same for every lab, and so it is added here to each file that has a CHECK.
The verdict of a test is `fail` for an assertion, `unknown` for anything else that goes wrong, and
`skip` with its reason. Verdicts go into the run's record, and to the file that --verdicts names.
"""

import inspect
import json
import os
import signal
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from faultlab.core import lock
from faultlab.core.errors import CannotRun, Problem
from faultlab.core.naming import stack_name, verify_namespace
from faultlab.engine.contract import Engine
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.check import Check
from faultlab.lab.model import Lab
from faultlab.run import placement
from faultlab.run.contract import Contract, of_file, walk
from faultlab.run.run import Run
from faultlab.run.stack_in_phase import stack_in_phase

VERDICTS = pytest.StashKey[list[dict[str, str]]]()
RUN_ID = pytest.StashKey[str]()

# A namespace of our own: neither stacks nor sweeps of the checks touch what a learner has up.
os.environ["FAULTLAB_NAMESPACE"] = verify_namespace()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that `faultlab verify` uses."""
    parser.addoption("--verdicts", type=Path, help="write the verdicts to this file as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Start with no verdicts, and let SIGTERM end us through the clean-up, as Ctrl-C does."""
    config.stash[VERDICTS] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> pytest.Class | None:
    """Add the tests of every lab to a check file, where it does not write their class itself."""
    whole = name == "CHECK" and isinstance(obj, Check)
    by_dose = name == checks.BY_DOSE and inspect.isfunction(obj)
    if not (whole or by_dose) or of_file(collector.obj):
        return None
    module: Any = collector.obj
    module.TestContract = type("TestContract", (Contract,), {"__module__": module.__name__})
    return pytest.Class.from_parent(collector, name="TestContract")


def engine_for(lab: Lab) -> Engine:
    """Return the engine that verify has chosen, else one that is up and can run the lab."""
    if chosen := os.environ.get("FAULTLAB_ENGINE"):
        return placement.ENGINES[chosen].reach()
    try:
        return placement.at_hand(lab)
    except CannotRun as problem:
        pytest.skip(problem.message)


@pytest.fixture(scope="class")
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """The lab of this check file, walked through all its phases and taken down."""
    lab_id = request.path.stem.removeprefix("test_").replace("_", "-")
    lab = labs.load(os.environ.get("FAULTLAB_LAB", lab_id))  # by hand, the file names it
    lab_id = lab.id
    name = stack_name(lab_id)
    with lock.hold(name, f"verify {lab_id}"):
        engine = engine_for(lab)
        started = time.monotonic()
        with stack_in_phase(engine, lab, name) as walked:
            request.config.stash[RUN_ID] = walked.record.id
            facts = walked.record.facts
            try:
                walk(walked)
            except BaseException as error:
                facts["tests"] = [{"test": "walk", "verdict": "unknown", "text": str(error)}]
                raise
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
    hint = ""
    if report.skipped and call.excinfo is not None:
        verdict, text = "skip", str(call.excinfo.value)
    elif report.failed and call.excinfo is not None:
        said_no = call.when == "call" and call.excinfo.errisinstance(AssertionError)
        verdict = "fail" if said_no else "unknown"
        error = call.excinfo.value
        text = (str(error).splitlines() or [call.excinfo.typename])[0]
        if isinstance(error, Problem):
            hint = error.hint
        elif not said_no:
            text = f"{call.excinfo.typename}: {text}"
    elif report.passed and call.when == "call":
        verdict = "pass"
    if verdict:
        entry = {"test": item.name, "verdict": verdict, "text": text}
        entry |= {"hint": hint} if hint else {}
        item.config.stash[VERDICTS].append(entry)
    return report


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write which tests are to come, so that a part of them cannot pass for the whole."""
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
