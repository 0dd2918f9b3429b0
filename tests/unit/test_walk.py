"""A whole lab without Docker: on the fake engine, which keeps the contract of the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultlab.core.errors import CannotRun, SaidNo
from faultlab.core.naming import stack_name
from faultlab.engine.stack import Stack
from faultlab.lab import load as labs
from faultlab.run import run as runs
from faultlab.run.contract import Contract, cheat, walk
from faultlab.run.readings import FAULTY, FIXED, HEALTHY
from faultlab.run.run import Run
from tests.engine import EngineContract
from tests.unit.conftest import Project
from tests.unit.fake import FakeEngine


class TestFakeEngine(EngineContract):
    """The fake engine keeps the contract."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> FakeEngine:
        return FakeEngine()

    @pytest.fixture(scope="class")
    @classmethod
    def stack(cls, engine: FakeEngine, tmp_path_factory: pytest.TempPathFactory) -> Stack:
        engine.launch(labs.load("mtu"), "faultlab-mtu", "r", tmp_path_factory.mktemp("run"))
        made = Stack(engine, "faultlab-mtu")
        made.make_ready()
        return made


@pytest.fixture
def begun(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A run of mtu on a fake engine."""
    monkeypatch.setattr(runs, "_TAKES_EFFECT", 0.0)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert project.root
    return Run.begin(FakeEngine(), labs.load("mtu"), stack_name("mtu"))


def test_a_whole_lab(begun: Run) -> None:
    walk(begun)
    begun.down()
    wanted = {HEALTHY, FAULTY, FIXED, "alternative 1, before", "alternative 1", cheat(1)}
    assert wanted <= {*begun.phases}
    told = Contract()
    for name in (name for name in dir(Contract) if name.startswith("test_")):
        test = getattr(told, name)
        test(begun)


def test_a_fault_without_effect_is_refused(begun: Run) -> None:
    begun.healthy()
    with pytest.raises(SaidNo, match="the fault has no effect"):
        begun.gate()


def test_a_stack_that_goes_away_proves_nothing(begun: Run) -> None:
    begun.healthy()
    begun.engine.down(begun.stack.name)
    with pytest.raises(CannotRun):
        begun.measure(FAULTY)
