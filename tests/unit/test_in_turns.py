"""In turns: between unit tests a load has the machine for itself."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from faultlab.core import lock
from tests.unit.conftest import REPO
from tests.waiting import until

CONFTEST = """
from pathlib import Path
from faultlab.core import lock
lock._TOP = Path(__file__).parent
"""
TESTS = """
import time
from pathlib import Path
import pytest

@pytest.mark.parametrize("n", range(400))
def test_it(n):
    with Path(__file__).with_name("done").open("a") as file:
        file.write(".")
    time.sleep(0.01)
"""


def test_a_load_has_its_turn_in_the_middle(tmp_path: Path) -> None:
    """It need not wait for the last test, and no test runs while it has its turn."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    done = tmp_path / "done"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "tests.unit.in_turns", str(tmp_path)]
    tests = subprocess.Popen(words, cwd=REPO, stdout=subprocess.DEVNULL)
    try:
        until(done.exists, 30)
        with lock.turn(alone=True):
            before = done.stat().st_size
            time.sleep(0.5)
            assert done.stat().st_size == before < 400
        assert tests.wait(60) == 0
        assert done.stat().st_size == 400
    finally:
        tests.kill()
        tests.wait()
