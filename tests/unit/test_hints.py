"""Which hint comes next: for the state that a lab is in."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Done, Shell
from faultlab.lab import loader as labs
from faultlab.lab.model import Hint, Lab, Sign, Step
from faultlab.learn import hints

OLD = Sign(at="web", run="is the process old")


def lab_with(*rungs: Hint, of: str = "packet-loss") -> Lab:
    return labs.load(of).model_copy(update={"hint": [*rungs]})


def rung(fault: str = "", when: Sign | None = None) -> Hint:
    half = [Step(at="web", restart=True)] if when else []
    return Hint(cost=1, text="?", fault=fault, when=when, half=half)


@dataclass
class Web(Shell):
    """A machine on which the command of a sign ends in one way."""

    code: int | None
    name: str = "web"
    ran: list[str] = field(default_factory=list)

    def run(self, command: str, timeout: float = 30) -> Done:
        self.ran.append(command)
        if self.code is None:
            raise CannotRun("web is not running.")
        return Done(command, self.code, "", "", 0.0)


def asked(lab: Lab, *given: int, gone: tuple[int, ...] = (), holds: bool = False) -> int | None:
    web = Web(0 if holds else 1)
    return hints.following(lab, hints.possible(lab, given, gone), lambda: {"web": web})


def test_one_after_the_other() -> None:
    lab = lab_with(rung(), rung())
    assert (asked(lab), asked(lab, 1), asked(lab, 1, 2)) == (1, 2, None)


def test_a_sign_decides() -> None:
    lab = lab_with(rung(when=OLD), rung(), rung(when=OLD))
    assert (asked(lab), asked(lab, holds=True)) == (2, 1)
    assert (asked(lab, 1, holds=True), asked(lab, 1, 2, holds=True), asked(lab, 2)) == (2, 3, None)


def test_only_what_may_come_next_is_asked() -> None:
    lab = lab_with(rung(), rung(when=OLD))
    assert list(hints.possible(lab, [], [])) == [1]
    assert list(hints.possible(lab_with(rung(when=OLD), rung(), rung()), [], [])) == [1, 2]


def test_machines_are_looked_up_once_and_only_for_a_condition() -> None:
    looked: list[int] = []

    def stack() -> dict[str, Web]:
        looked.append(1)
        return {"web": Web(1)}

    gone = Sign(at="app", run="true")  # on a machine that was removed
    lab = lab_with(rung(), rung(when=gone), rung(when=OLD), rung())
    assert (hints.following(lab, [1], stack), looked) == (1, [])
    assert (hints.following(lab, [2, 3, 4], stack), looked) == (4, [1])


def test_hints_of_faults_that_are_left() -> None:
    lab = lab_with(rung(), *(rung(fault.id) for fault in labs.load("packet-loss").fault))
    assert (asked(lab), asked(lab, 1), asked(lab, 1, gone=(1,))) == (1, 2, 3)
    assert asked(lab, 1, gone=(1, 3)) == 3
    assert asked(lab, 1, gone=(1, 2, 3)) is None


@pytest.mark.parametrize(("code", "so"), [(0, True), (1, False), (None, False)])
def test_a_sign_holds_where_its_command_succeeds(code: int | None, so: bool) -> None:
    web = Web(code)
    assert (hints.holds(web, OLD), web.ran) == (so, [OLD.run])
