"""Tracing: every command of docs/tracing.md, typed again on the running lab in the VM."""

from __future__ import annotations

import re

import pytest

from faultlab.core import lock, paths
from faultlab.core.naming import stack_name
from faultlab.engine.vm import libvirt
from faultlab.engine.vm.engine import VmEngine
from faultlab.lab import loader as labs
from faultlab.run.stack_in_phase import stack_in_phase
from faultlab.verify import transcript

PAGE = paths.root() / "docs/tracing.md"
_SHOWS = re.compile(r"^<!-- shows: (.*) -->$", re.MULTILINE)


def words(text: str) -> list[list[str]]:
    """Return the words that the outputs of each block must contain."""
    return [line.split(", ") for line in _SHOWS.findall(text)]


def test_each_block_has_shown_what_it_promises() -> None:
    """It was recorded, and what it is there to show is in the record."""
    text = PAGE.read_text()
    for (_, recorded, body), wanted in zip(transcript.blocks(text), words(text), strict=True):
        assert recorded, "a block was never recorded"
        for word in wanted:
            assert word in body, f"not in the record: {word}"


class TestInTheVm:
    """The kernel of the lab VM is traced, so no other test of the VM runs meanwhile."""

    @pytest.mark.rotates(minutes=3)
    def test_every_command_of_the_page_shows_it_again(self) -> None:
        """The output of a new run shows again what each block promises."""
        if libvirt.state() != "running":
            pytest.skip(f"the lab VM is {libvirt.state()}: make vm")
        text = PAGE.read_text()
        lab, name = labs.load("netem-loss"), stack_name("tracing")
        with lock.hold(name, "tracing"), stack_in_phase(VmEngine.reach(), lab, name) as run:
            run.inject()
            for (_, _, body), wanted in zip(transcript.blocks(text), words(text), strict=True):
                typed = transcript.again(run, body)
                for word in wanted:
                    assert word in typed, f"not shown again: {word}: {typed}"
