"""Unit tests in turns with the loads of labs, as tests/run.sh has them: `pytest -p` this module."""

import time
from contextlib import ExitStack

import pytest

from faultlab.core import lock

_SECONDS = 0.5
_PAUSE = 0.1  # seconds: a load that waits tries more often than that
_turn = ExitStack()
_began = [0.0]


def pytest_configure(config: pytest.Config) -> None:
    """Leave the process of pytest-xdist out that only collects what its workers report."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.unregister(name=__name__)


def pytest_sessionstart() -> None:
    """Wait for the first turn: to find the tests takes some seconds of CPU time, too."""
    _wait()


def pytest_runtest_logfinish() -> None:
    """After half a second of tests, pause, so that a load can have its turn."""
    if time.monotonic() > _began[0] + _SECONDS:
        _turn.close()
        time.sleep(_PAUSE)
        _wait()


def pytest_sessionfinish() -> None:
    """Give the last turn back."""
    _turn.close()


def _wait() -> None:
    _turn.enter_context(lock.turn(alone=False))
    _began[0] = time.monotonic()
