"""Tryout: one look of one tool at one lab: what it printed, and how that is read."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from faultlab.core import lock, paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Engine
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.lab.reading import Reading
from faultlab.lab.services import CLIENT
from faultlab.run import placement
from faultlab.run.attached import attached
from faultlab.run.background_load import traffic
from faultlab.run.phase import FAULTY, HEALTHY
from faultlab.run.run import Run
from faultlab.score import diagnosis, metrics, setups, trial
from faultlab.score import tool as tools
from faultlab.score.alone import share_out
from faultlab.score.diagnosis import Broken, Diagnosis, Said, Stream
from faultlab.score.setups import Setup
from faultlab.score.tool import FILE, SERVERS, STACK, Tool

_NOW = "now"  # the phase of a stack that was up


@dataclass(frozen=True)
class Line:
    """A line that the tool printed, and what its [[alarm]] entries make of it.

    `alarms`: the numbers of those that match, from 1; `causes`: what they name.
    """

    seconds: float
    machine: str
    stream: Stream
    line: str
    alarms: list[int]
    causes: list[str]


@dataclass(frozen=True)
class Tried:
    """One look. `diagnosis`: None if the tool gave nothing, and `reason` says why.

    `phase`: `now` for a stack that was up before. `caught`, `named`: it raised an alarm at the
    fault, and named its cause; None where nothing is wrong. `run`: the id of the run, whose folder
    has the record.
    """

    tool: str
    lab: str
    phase: str
    lines: list[Line]
    diagnosis: Diagnosis | None
    reason: str
    caught: bool | None
    named: bool | None
    run: str


def try_out(
    term: Terminal, name: str, lab_id: str, *, phase: str | None, wanted: str, network: bool
) -> Tried:
    """Let a tool look once, and print what it printed. Raises CannotRun if it has no diagnosis.

    `phase`: of a fresh stack. Without one it looks at the lab's stack as it is, if that is up, and
    else at a fresh one with the fault.
    """
    lab, tool = labs.load(lab_id), tools.load(name)
    _refuse(tool, lab)
    up = None if phase else placement.up(placement.standing(lab_id).alias)
    known = phase or (_NOW if up else FAULTY)
    engine = up.engine if up else placement.choose(term, lab, wanted)
    with term.step("image", tool.id) as step:
        engine.images.ensure(step.note, {tool.image}, network=network)
        step.done("ready")
    look, felt = Setup(lab, known, 1), list[Any]()
    with _on(term, engine, look) as (run, cpus):
        with term.step("look", tool.id) as step:
            step.note(f"{tool.id} looks, for {tool.window:g} s at most")
            users = traffic(lambda: felt.append(run.check.look(run.stack)), wait=True)
            with lock.turn(alone=True), users:
                outcome = trial.examine(run.stack, lab, [tool], cpus)[tool.id]
            setups.made_in(look, tool, outcome, run=run.record.id)
            step.done(f"{tool.id}, {lab.id} {'as it is now' if known == _NOW else known}")
        fault = not lab.control and (not _served(run, felt) if known == _NOW else known == FAULTY)
    told = outcome.diagnosis
    found = Tried(
        *(tool.id, lab.id, known, _read(tool, outcome.printed), told, outcome.reason),
        caught=told.alarm if fault and told else None,
        named=metrics.names_cause(lab, told) if fault and told else None,
        run=run.record.id,
    )
    _show(term, found, lab)
    if told is None:
        why = f"{tool.id} has given no diagnosis: {outcome.reason}."
        file = paths.show(tool.folder / FILE)
        raise CannotRun(why, f"edit {file}; docs/verifying-a-tool.md lists the keys", found)
    return found


@contextmanager
def _on(term: Terminal, engine: Engine, look: Setup) -> Iterator[tuple[Run, str]]:
    """Yield the run of a look's stack, and the processors of the tool; empty for all."""
    if look.phase == _NOW:
        with attached(look.lab.id, "try") as run:
            run.stack.dice = Random(secrets.token_hex(4))
            yield run, ""
        return
    cpus = share_out(engine, term.say)
    with ExitStack() as after:
        with term.step("stack", look.text) as step:
            run = after.enter_context(setups.on_show(engine, look.lab, look.phase))
            step.done(look.text)
        yield run, cpus


def _served(run: Run, felt: list[Any]) -> bool:
    """Return whether the last users beside the tool were served as before the fault."""
    if not felt:
        return False
    found = run.check.good(Reading(felt[-1]), run.reading(HEALTHY))
    return all(finding.holds for finding in found)


def _refuse(tool: Tool, lab: Lab) -> None:
    """Raise BadInput if the lab has no machine that the tool looks from."""
    there = [name for name in lab.services.needed(lab.daemons) if name not in lab.daemons]
    servers = [name for name in there if name != CLIENT] if SERVERS in tool.at else []
    if STACK not in tool.at and not servers and not {*tool.at} & {*there}:
        what = f"{tool.id} looks from {' or '.join(tool.at)}, and {lab.id} has {', '.join(there)}."
        raise BadInput(what, "faultlab list")


def _read(tool: Tool, printed: list[Said]) -> list[Line]:
    """Return each line with the alarms that it means; only `out` is read for a diagnosis."""
    found = []
    for said in sorted(printed, key=lambda one: one.seconds):
        alarms = []
        with suppress(Broken):  # the reason of the outcome says it
            alarms = [a for a, _ in diagnosis.matching(tool, said.line) if said.stream == "out"]
        causes = list(dict.fromkeys(cause for alarm in alarms for cause in alarm.causes))
        found.append(
            Line(**vars(said), alarms=[tool.alarm.index(a) + 1 for a in alarms], causes=causes)
        )
    return found


def _show(term: Terminal, found: Tried, lab: Lab) -> None:
    term.say()
    for each in found.lines:
        said = Said(each.seconds, each.machine, each.line, each.stream).text
        numbers = " and ".join(map(str, each.alarms))
        means = (
            f"  <- [[alarm]] {numbers}: {', '.join(each.causes) or 'no cause'}" if numbers else ""
        )
        term.say(said + means)
    if not [each for each in found.lines if each.stream != "end"]:
        term.say("It printed nothing.")
    term.say()
    told = found.diagnosis
    if told is None:
        return
    if told.alarm:
        causes = ", ".join(told.causes) or "no cause"
        term.say(f"Read as an alarm after {told.seconds:g} s: {causes}, at {told.component}.")
    else:
        term.say("Read as silence: nothing is wrong.")
    if found.caught is None:
        well = "The users are served now" if found.phase == _NOW else "Nothing is wrong here"
        term.say(well + (", so this is a false alarm." if told.alarm else "."))
    else:
        truth = f"The fault is {lab.truth.cause} at {lab.truth.component}"
        how = (
            "caught and named"
            if found.named
            else "caught and not named"
            if found.caught
            else "missed"
        )
        term.say(f"{truth}: {how}.")
