"""Progress: what a learner has done so far, lab by lab, and which lab to take next.

All of it comes from the recorded runs of this checkout.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import groupby
from typing import Literal

from faultlab.core import paths
from faultlab.core.defaults import MYSTERY
from faultlab.core.errors import BadInput
from faultlab.core.events import MAY_LACK
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.lab import curriculum
from faultlab.lab.model import Lab
from faultlab.lab.severity import AT
from faultlab.learn import repetition
from faultlab.learn.certainty import Certainty
from faultlab.learn.repetition import Due
from faultlab.run import phase
from faultlab.run import record as records
from faultlab.run.record import READY, Record

# Solved by the learner, solved by the documented fix, tried, or not started.
State = Literal["solved", "shown", "tried", "new"]
_ORDER: tuple[State, ...] = ("solved", "shown", "tried", "new")
_WORDS = {"solved": "solved", "shown": "fix shown", "tried": "tried", "new": ""}


@dataclass(frozen=True)
class Taken:
    """A lab and its best run. `seconds`: from the ticket to the check that passed.

    `false_checks`: checks before it that failed. `code`: its neutral name.
    """

    lab: str
    title: str
    track: str
    state: State
    seconds: float | None = None
    hints: int = 0
    false_checks: int = 0
    run: str = ""
    number: int | None = None
    code: str = ""

    @property
    def called(self) -> str:
        """Return its neutral name, and what it is when it is done."""
        names = (self.code, self.lab) if self.done else (self.code,)
        return " ".join(dict.fromkeys(names))

    @property
    def done(self) -> bool:
        """Return whether it is solved, or its fix was shown."""
        return self.state in ("solved", "shown")

    @property
    def cells(self) -> list[str]:
        """Return the cells of its row in a table."""
        time = "" if self.seconds is None else f"{max(1, round(self.seconds / 60))} min"
        counts = [str(self.hints), str(self.false_checks)] if self.run else ["", ""]
        return [self.called, _WORDS[self.state], time, *counts]


@dataclass(frozen=True)
class Progress:
    """All labs in the order of the path, how many are solved, and how sure of mysteries."""

    labs: list[Taken]
    solved: int
    of: int
    certainty: Certainty | None = None


@dataclass(frozen=True)
class Next:
    """The lab to take now; None when all are done. `vm`: it runs in the lab VM only.

    `why`: why it comes back, if it does.
    """

    lab: str | None
    title: str
    track: str
    minutes: int
    vm: bool
    done: int
    of: int
    number: int | None = None
    code: str = ""
    why: str | None = field(default=None, metadata=MAY_LACK)


def show(term: Terminal, page: str | None, by_name: bool = False) -> Progress:
    """Print what was done on each track, and write it as a page. Raises BadInput.

    `by_name`: print the id of each lab, also of one that is not done.
    """
    from faultlab.learn.mystery import certainties  # `list` needs this module, but no engine

    found = replace(so_far(curriculum.labs_in_order()), certainty=certainties())
    for track, its in by_track(found.labs):
        term.heading(f"{track}: {sum(one.done for one in its)} of {len(its)}")
        headings = ("lab", "", "time", "hints", "failed checks")
        named = [" ".join(dict.fromkeys((one.code, one.lab))) for one in its]
        rows = [[name, *one.cells[1:]] for name, one in zip(named, its, strict=True)]
        term.table(headings, rows if by_name else [one.cells for one in its])
        term.say()
    if page is not None:
        from faultlab.report.page import render  # `list` needs this module, but no page

        file = paths.in_a_folder(page)
        paths.write_whole(file, render("progress.html", tracks=by_track(found.labs), found=found))
        term.say(f"Written: {file}")
    if found.certainty:
        term.say("Of mysteries that are over:")
        term.points(found.certainty.sentences)
        term.say()
    term.say("Next: make next")
    return found


def next_(
    term: Terminal,
    track: str | None,
    *,
    new: bool = False,
    by_name: bool = False,
    today: date | None = None,
) -> Next:
    """Print which lab to take now. Raises BadInput for an unknown track.

    What did not go well comes back first, after days; with `new` it does not. `by_name`: print its
    id, too.
    """
    if track is not None and track not in curriculum.tracks():
        raise BadInput(f"There is no track {track!r}.", f"one of {', '.join(curriculum.tracks())}")
    every = curriculum.labs_in_order()
    taken, lab, due = advised(every, track, new, today)
    if lab is None:
        of = [one for one in taken if track in (None, one.track)]
        term.say("You have done every lab on this path. Next: make mystery")
        return Next(None, "", track or "", 0, False, len(of), len(of))
    title = curriculum.heading(lab.id, lab.track)
    its = [one for one in taken if curriculum.heading(one.lab, one.track) == title]
    done = sum(one.done for one in its)
    term.heading(f"{title}: {done} of {len(its)}")
    name = lab.both_names if by_name else lab.code
    term.say(f"{name}: {lab.title}. About {lab.minutes} minutes.")
    if due:
        term.say(f"{due.why} To go on instead: faultlab next --new")
    elif lab.needs:
        needs = [one.called for one in taken if one.lab in lab.needs]
        term.say(f"It builds on {', '.join(needs)}.")
    vm = lab.scope == "kernel"
    if vm:
        term.say("It needs a kernel of its own: make vm")
    term.say()
    term.say(f"Next: make lab-{lab.code}")
    return Next(
        lab.id,
        lab.title,
        lab.track,
        lab.minutes,
        vm,
        done,
        len(its),
        lab.number,
        lab.code,
        why=due.why if due else None,
    )


def advised(
    every: Sequence[Lab], track: str | None = None, new: bool = False, today: date | None = None
) -> tuple[list[Taken], Lab | None, Due | None]:
    """Return what was done in each lab, the lab to take now, and why it comes back, if it does."""
    of_id = {lab.id: lab for lab in every}
    records = [*_records(of_id)]
    taken = so_far(every, records).labs
    back = repetition.now_due(every, [] if new else records, today or datetime.now(UTC).date())
    due = next((one for one in back if track in (None, of_id[one.lab].track)), None)
    return taken, of_id[due.lab] if due else following(every, taken, track), due


def following(every: Sequence[Lab], taken: Iterable[Taken], track: str | None = None) -> Lab | None:
    """Return the first lab that is not done, preferably on the track of the last run.

    The labs that it needs come first, from other tracks too.
    """
    of = {one.lab: one for one in taken}
    left = [lab for lab in every if not of[lab.id].done and track in (None, lab.track)]
    last = max((one for one in of.values() if one.run), key=lambda one: one.run, default=None)
    here = [lab for lab in left if last is not None and lab.track == last.track]
    found = next(iter(here or left), None)
    while found is not None:
        missing = [need for need in found.needs if not of[need].done]
        if not missing:
            break
        found = next(lab for lab in every if lab.id == missing[0])
    return found


def by_track(taken: Sequence[Taken]) -> list[tuple[str, list[Taken]]]:
    """Return the title of each track with its labs."""
    groups = groupby(taken, key=lambda one: curriculum.heading(one.lab, one.track))
    return [(title, list(its)) for title, its in groups]


def so_far(every: Sequence[Lab], records: Iterable[tuple[str, Record]] | None = None) -> Progress:
    """Return each lab with its best run, and how many are solved.

    `records`: of the learner's runs, if they were read already.
    """
    best = {
        lab.id: Taken(lab.id, lab.title, lab.track, "new", number=lab.number, code=lab.code)
        for lab in every
    }
    of_id = {lab.id: lab for lab in every}
    for lab_id, record in _records(of_id) if records is None else records:
        one, so_far = _run(best[lab_id], record), best[lab_id]
        if _rank(one) < _rank(so_far):
            best[one.lab] = one
    taken = list(best.values())
    return Progress(taken, sum(one.state == "solved" for one in taken), len(taken))


def new(labs: Iterable[Lab]) -> list[Lab]:
    """Return the labs that were not started in this checkout yet."""
    found = list(labs)
    return [lab for lab, one in zip(found, so_far(found).labs, strict=True) if one.state == "new"]


def _rank(one: Taken) -> tuple[int, int, int, float]:
    return _ORDER.index(one.state), one.hints, one.false_checks, one.seconds or 0.0


def _records(labs: Mapping[str, Lab]) -> Iterator[tuple[str, Record]]:
    """Yield each learner's run in this checkout with its lab; a mystery's only once it is told."""
    for run_id in Record.ids():
        with suppress(BadInput):
            record = Record.read(run_id)
            lab_id = record.lab.partition(AT)[0]  # a lab is solved at any severity
            if lab_id not in labs or not record.happened(READY):
                continue
            blind = record.stack == stack_name(MYSTERY)
            lab = labs[lab_id]
            names = record.lab, lab.code + record.lab.removeprefix(lab_id)
            if record.stack in map(stack_name, names) or (blind and record.told):
                yield lab_id, record


def _run(lab: Taken, record: Record) -> Taken:
    """Return what a learner did in one run, up to the first check whose verdict is a yes."""
    began, passed, refused, hints = 0.0, 0.0, 0, 0
    shown = False
    state: State = "tried"
    seconds = None
    for event in record.events:
        match event["event"]:
            case records.READY:
                began = event["t"]
            case phase.LATER if not event["fixed"]:  # it overrules the check before it
                state, seconds, refused = "tried", None, refused + 1
            case _ if seconds is not None:
                pass  # it is solved
            case "hint":
                hints += 1
            case "fix" | records.GAVE_UP:
                shown = True
            case phase.CHECK if not event["fixed"]:
                refused += 1
            case phase.CHECK | phase.LATER as verdict:
                passed = event["t"] if verdict == phase.CHECK else passed
                if not event.get(phase.LATER):  # this one counts
                    state, seconds = "shown" if shown else "solved", passed - began
    return replace(
        lab, state=state, seconds=seconds, hints=hints, false_checks=refused, run=record.id
    )
