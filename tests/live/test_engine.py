"""The contract of an engine, on Docker here and in the lab VM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultlab.core.naming import stack_name
from faultlab.engine import libvirt, vm
from faultlab.engine.contract import Engine
from faultlab.engine.local import LocalEngine
from faultlab.engine.stack import Stack
from faultlab.lab import load as labs
from tests.engine import EngineContract


class _OnDocker(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def stack(cls, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
        engine.images.ensure(lambda _: None)
        name = stack_name("engine")
        try:
            engine.launch(labs.load("mtu"), name, "r", tmp_path_factory.mktemp("run"))
            made = Stack(engine, name)
            made.make_ready()
            yield made
        finally:
            engine.down(name)


class TestLocal(_OnDocker):
    """Docker on this machine."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> Engine:
        return LocalEngine()


@pytest.mark.rotates
class TestInTheVm(_OnDocker):
    """Docker in the lab VM."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> Engine:
        if libvirt.state() != "running":
            pytest.skip(f"the lab VM is {libvirt.state()}")
        return vm.VmEngine.reach()
