"""The contract of an engine, as tests: each engine's test class inherits them.

A class gives the fixture `engine`, and a stack of the lab mtu that is up on it.
"""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

import pytest

from faultlab.core import naming
from faultlab.core.errors import CannotRun
from faultlab.core.lock import Held
from faultlab.core.naming import stack_name
from faultlab.engine.contract import Engine, Program
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs


class EngineContract:
    """The verbs that all engines have, and what a caller may rely on."""

    @pytest.fixture(scope="class")
    @classmethod
    def stack(cls, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Stack:
        """A stack of mtu without its fault. The class of the engine takes it down."""
        raise NotImplementedError

    def test_a_stack_is_found_by_its_name(self, engine: Engine, stack: Stack) -> None:
        assert stack.name in engine.stacks() and engine.all_stacks()[stack.name] == stack.lab_id
        assert [*Stack(engine, stack.name)] == [*stack] == ["client", "web", "nginx", "php-fpm"]
        assert stack["nginx"].joins == "web" and not stack["web"].joins
        assert [machine.name for machine in stack.machines] == ["client", "web"]
        assert stack.run_id and stack["web"].created and not stack.stopped()
        assert len({machine.mark for machine in stack.values()}) == len(stack)

    def test_a_command_that_ends(self, stack: Stack) -> None:
        done = stack["web"].run("echo one two")
        assert (done.code, done.out, done.err) == (0, "one two\n", "")
        assert stack["web"].must("echo three") == "three\n"

    def test_a_command_that_fails(self, stack: Stack) -> None:
        assert stack["web"].run("exit 3").code == 3
        with pytest.raises(CannotRun, match=r"On web this failed with exit code 3: exit 3"):
            stack["web"].must("exit 3")

    def test_a_program_that_hears_and_ends_with_its_input(self, stack: Stack) -> None:
        with stack["web"].talk(["cat"]) as talk:
            talk.send(b"one\n")
            assert next(talk.output) == b"one\n"
            talk.send(b"two\n")
            assert next(talk.output) == b"two\n"
        left = "sleep 2; ps -e -o comm= | grep -x cat || true"
        assert stack["web"].run(left).out == ""

    def test_the_steps_of_a_lab(self, stack: Stack) -> None:
        lab = labs.load("mtu")
        for step in (*lab.inject, *lab.fix):
            assert step.run is not None
            stack.shell(step.at).must(step.run)

    def test_a_daemon_starts_again(self, stack: Stack) -> None:
        before = stack["nginx"].state
        stack["nginx"].restart()
        stack.wait_ready()
        after = stack["nginx"].state
        assert before.running and after.running and after.started != before.started
        assert stack["nginx"].typed("restart").split()[-2] == "restart"

    def test_limits_and_files(self, stack: Stack) -> None:
        stack["nginx"].limit(0.5, "256m")
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w"):
            pass
        stack["web"].put("/tmp", archive.getvalue())
        assert isinstance(stack["nginx"].last_log_line(), str)

    def test_down_leaves_the_stack_of_another_user(
        self, engine: Engine, stack: Stack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = naming.owner()
        monkeypatch.setattr(naming, "owner", lambda: "anna in /home/anna/faultlab")
        with pytest.raises(Held, match=f"belongs to {re.escape(mine)}"):
            engine.down(stack.name)
        assert [*Stack(engine, stack.name)] == [*stack]

    def test_helpers(self, engine: Engine, stack: Stack) -> None:
        assert engine.once("machine", "echo once", stack.name).strip() == "once"
        with engine.sidecar(stack.name, 60, whole=True) as helper:
            assert helper.must("echo beside") == "beside\n"
        with engine.lines("machine", ["echo", "a line"], stack["web"]) as lines:
            assert next(lines) == "a line"
        with engine.process(Program("machine", ["echo", "said"], stack.name)) as process:
            assert b"".join(out or b"" for out, _ in process.output) == b"said\n"
            assert process.wait(10) == 0
        assert [*Stack(engine, stack.name)] == [*stack]

    def test_the_kernel_belongs_to_somebody(self, engine: Engine, stack: Stack) -> None:
        if engine.owns_kernel:
            assert engine.kernel(stack.name).must("id -u") == "0\n"
            return
        with pytest.raises(CannotRun, match="must not be changed"):
            engine.kernel(stack.name)

    def test_facts_and_images(self, engine: Engine) -> None:
        facts = engine.facts()
        assert facts.version and facts.kernel and facts.cpus > 0 and facts.memory > 0
        assert engine.unfit() == "" and engine.images.missing() == []

    def test_a_stack_on_one_processor_leaves_nothing(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine, "cpus", "0")
        name = stack_name("pinned")
        try:
            engine.launch(labs.load("mtu").called("pinned"), name, "r", tmp_path)
            for machine in ("web", "nginx"):
                assert Stack(engine, name)[machine].must("nproc") == "1\n"
            program = Program("machine", ["echo", "said"], name, cpus="0")
            with engine.process(program) as process:
                assert process.wait(10) == 0
            assert (tmp_path / "compose.yaml").is_file()
            assert len(engine.leftovers(name)) >= 4
            gone = Stack(engine, name)["web"]
        finally:
            engine.down(name)
        assert engine.leftovers(name) == [] and not Stack(engine, name)
        with pytest.raises(CannotRun):
            gone.run("echo here")

    def test_another_stack_is_not_there(self, engine: Engine) -> None:
        name = stack_name("nothing")
        assert not Stack(engine, name) and engine.leftovers(name) == []
        engine.down(name)
        with pytest.raises(CannotRun, match="web is not there any more"):
            _ = Stack(engine, name)["web"]
