"""Tryout: one look of one tool at one lab: what it printed, and how that is read."""

from contextlib import suppress
from dataclasses import dataclass

from faultlab.core import lock, paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.lab.services import CLIENT
from faultlab.run import placement
from faultlab.run.background_load import traffic
from faultlab.run.phase import FAULTY
from faultlab.score import diagnosis, metrics, setups, trial
from faultlab.score import tool as tools
from faultlab.score.alone import share_out
from faultlab.score.diagnosis import Broken, Diagnosis, Said, Stream
from faultlab.score.setups import Setup
from faultlab.score.tool import FILE, SERVERS, STACK, Tool


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

    `caught`, `named`: it raised an alarm at the fault, and named its cause; None where nothing is
    wrong. `run`: the id of the run, whose folder has the record.
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
    term: Terminal, name: str, lab_id: str, *, phase: str, wanted: str, network: bool
) -> Tried:
    """Let a tool look once, and print what it printed. Raises CannotRun if it has no diagnosis."""
    lab, tool = labs.load(lab_id), tools.load(name)
    _refuse(tool, lab)
    engine = placement.choose(term, lab, wanted)
    with term.step("image", tool.id) as step:
        engine.images.ensure(step.note, {tool.image}, network=network)
        step.done("ready")
    cpus = share_out(engine, term.say)
    look = Setup(lab, phase, 1)
    with term.step("look", look.text) as step, setups.on_show(engine, lab, phase) as run:
        step.note(f"{tool.id} looks, for {tool.window:g} s at most")
        with lock.turn(alone=True), traffic(lambda: run.check.look(run.stack), wait=True):
            outcome = trial.examine(run.stack, lab, [tool], cpus)[tool.id]
        setups.made_in(look, tool, outcome, run=run.record.id)
        step.done(look.text)
    told, fault = outcome.diagnosis, phase == FAULTY and not lab.control
    found = Tried(
        *(tool.id, lab.id, phase, _read(tool, outcome.printed), told, outcome.reason),
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
        term.say("Nothing is wrong here" + (", so this is a false alarm." if told.alarm else "."))
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
