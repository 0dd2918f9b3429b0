"""Verbs: the commands `faultlab class start`, `status`, `end` and `export`."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from faultlab.core import extra, paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.run import late
from faultlab.run.placement import engines_of
from faultlab.workshop import export, size
from faultlab.workshop import plan as plans
from faultlab.workshop.address import At
from faultlab.workshop.export import ClassId, Rows
from faultlab.workshop.folder import Folder, begun
from faultlab.workshop.journal import Entry, Event, Journal
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import WORDS, Roster
from faultlab.workshop.session import Session
from faultlab.workshop.stacks import Stacks

_PATIENCE = 600.0  # seconds for a server to end its class


def start(term: Terminal, file: str, *, names: Sequence[str], **at: Unpack[At]) -> None:
    """Open a class, or continue it, and serve its pages until Ctrl-C or its end.

    Raises BadInput, CannotRun.
    """
    with extra.needed(f"class CLASS={file}"):
        from faultlab.workshop import server
    plan = plans.read(file)
    folder = Folder(plan.id)
    if bool(at["cert"]) != bool(at["key"]):
        raise BadInput("--cert and --key go together.", "faultlab class --help")
    with folder.hold(f"class start {file}"):
        journal = _opened(term, plan, file, folder)
        folder.end.unlink(missing_ok=True)
        session = _session(plan, journal)
        if session.roster.ended:
            raise CannotRun(
                f"This class has ended; its results are in {paths.show(folder.path)}.",
                f"faultlab class export {file}; for another one: cp {file} next.toml",
            )
        server.serve(term, session, folder, names, **at)
        _say_what_is_next(term, session.roster, file)


@dataclass(frozen=True)
class Roll:
    """A class as it is now, with a row for each lab that a seat has started.

    `block`: the number of the block that is open, 0 before the first one or without blocks.
    """

    class_: ClassId
    up: bool
    ended: bool
    turns: Rows
    block: int = 0


@dataclass(frozen=True)
class ClassEnded:
    """A class that has ended."""

    class_: ClassId
    ended: bool = True


@dataclass(frozen=True)
class Exported:
    """The files with the results, and their rows."""

    files: list[str]
    turns: Rows


def status(term: Terminal, file: str) -> Roll:
    """Print the roster as it is now. Raises BadInput for a class that was never started."""
    folder, plan, journal = begun(file)
    roster, now = _roster(plan, journal), folder.now()
    held = folder.held()
    how = "has ended" if roster.ended else "is paused" if roster.paused else "goes on"
    term.heading(f"{plan.title}: {how}{'' if held or roster.ended else ', its server is not up'}")
    table = roster.timetable
    if table.blocks:
        left = table.left(now)
        block = table.now
        said = (
            f"{block.title}, {(left or 0) / 60:.0f} of {block.minutes:g} minutes left"
            if block
            else "none is open yet"
        )
        term.say(f"Block {table.at} of {len(table.blocks)}: {said}")
    rows = []
    for seat in roster.seats:
        turn = seat.turn
        lab = f"{turn.known} ({seat.at + 1} of {len(seat.turns)})"
        minutes = f"{turn.seconds(now) / 60:.0f}"
        state = WORDS[turn.state]
        counts = map(str, (turn.checks, len(turn.hints), len(turn.answers)))
        rows.append((str(seat.number), seat.name, lab, state, minutes, *counts))
    term.table(("seat", "name", "lab", "state", "min", "checks", "hints", "answers"), rows)
    return Roll(plan.id, held, roster.ended, export.rows(roster, now), table.at)


def end(term: Terminal, file: str) -> ClassEnded:
    """End a class and remove its stacks, with or without its server. The results stay.

    Raises CannotRun if a stack could not be removed.
    """
    folder, plan, _ = begun(file)
    with term.step("end", "removing the stacks of all seats") as step:
        if folder.held():
            folder.end.touch()  # its server removes them and exits
            step.note("its server removes the stacks")
            deadline = time.monotonic() + _PATIENCE
            while folder.held():
                if time.monotonic() > deadline:
                    raise CannotRun("The server of the class did not end.", "ps x")
                time.sleep(0.2)
        # Also after its server, which can have failed to remove one, or have been stopped before.
        with folder.hold(f"class end {file}"):
            folder.end.unlink(missing_ok=True)
            session = _session(plan, folder.journal(mend=True))
            if not session.roster.ended:
                session.note(Event.OPENED, alive=folder.last_alive())
            asyncio.run(session.end(step.note))
        step.done("ended, its stacks are removed")
    term.say(f"Results: faultlab class export {file}")
    return ClassEnded(plan.id)


def write(term: Terminal, file: str, to: str | None) -> Exported:
    """Write the results in each format, or in that of the file name. Raises BadInput."""
    folder, plan, journal = begun(file)
    roster, now = _roster(plan, journal), folder.now()
    usual = [folder.path / f"results.{kind}" for kind in export.KINDS]
    wanted = [paths.in_a_folder(to)] if to else usual
    for target in wanted:
        kind = target.suffix.removeprefix(".")
        if kind not in export.KINDS:
            raise BadInput(
                f"--to: expected a name that ends with .{', .'.join(export.KINDS)}, got {to!r}",
                f"faultlab class export {file} --to results.csv",
            )
        target.write_text(export.text(roster, journal, kind, now))
        term.say(f"written   {paths.show(target)}")
    return Exported([str(target) for target in wanted], export.rows(roster, now))


def _opened(term: Terminal, plan: ClassPlan, file: str, folder: Folder) -> Journal:
    """Return the journal of a class. If it is new, the labs of each seat are settled now."""
    folder.make()
    journal = folder.journal(mend=True)
    if journal.events:
        if not _same(plan, journal.events[0]):
            raise BadInput(
                f"{file} has been changed since this class began.",
                f"undo the change, or: cp {file} next.toml; faultlab class start next.toml",
            )
        return journal
    wanted = plan.wanted()
    with term.alive("labs", "checking which labs run here"):
        places, cannot = engines_of(term, wanted, plan.engine)
    for lab_id, why in cannot.items():
        if lab_id in plan.named:
            raise CannotRun(f"{lab_id} cannot run in a class here: {why}.", f"edit {file}")
    turns = plan.turns_of_all({*places})
    given = plan.model_dump(exclude_unset=True)
    journal.add(Event.PLANNED, plan=plan.model_dump(), given=given, labs=turns)
    for queue in size.queues(plan, turns):
        term.say(f"Note: {queue.says(plan)}")
    return journal


def _same(plan: ClassPlan, began: Entry) -> bool:
    """Return whether a file sets what it set when its class began.

    A default can differ, as limits go by the number of CPUs. A journal of an older version does not
    tell what the file set.
    """
    if "given" in began:
        return bool(began["given"] == plan.model_dump(exclude_unset=True))
    # Keys that an older class has not.
    new = {"engine": "local", "later": late.MINUTES, "block": [], "opens": "by hand", "grace": 3}
    new |= {"event": [], "room": [], "ranking": False, "farewell": ""}
    then, now = {**new, **began.get("plan", {})}, plan.model_dump()
    differ = {key for key in {*then, *now} if then.get(key) != now.get(key)}
    return differ <= {"limits", "seat_limits"} - plan.model_fields_set


def _say_what_is_next(term: Terminal, roster: Roster, file: str) -> None:
    if roster.ended:
        term.say(f"The class has ended; results: faultlab class export {file}")
    else:
        term.say("Stopped. The stacks are still up; the same command continues the class.")
        term.say(f"To end the class: faultlab class end {file}")


def _roster(plan: ClassPlan, journal: Journal) -> Roster:
    found = Roster(plan, journal.events[0]["labs"])
    for event in journal.events:
        found.apply(event)
    return found


def _session(plan: ClassPlan, journal: Journal) -> Session:
    return Session(plan, _roster(plan, journal), journal, Stacks(plan))
