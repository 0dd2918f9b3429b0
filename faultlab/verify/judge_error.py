"""Judge error: try repairs on fresh faults, and count how often a check says the wrong thing.

The file is written after each repair. The same command goes on with it: what was tried counts as
long as the repair, the fault and the check are the same.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from faultlab.core import document, paths
from faultlab.core.defaults import AUTO, RELIABILITY
from faultlab.core.errors import BadInput, CannotRun, SaidNo
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Engine
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run import judge_error
from faultlab.run.judge_error import ALL_KINDS, ALTERNATIVE, CHEAT, Document, Tried
from faultlab.run.placement import engines_of
from faultlab.verify import beside, trials
from faultlab.verify.trials import Trial
from faultlab.verify.walks import Walks
from faultlab.verify.walks import read as read_walks

_HELP = "faultlab judge-error --help"
_SHARE = re.compile(r"([1-9]\d*)/([1-9]\d*)")


@dataclass(frozen=True)
class Wish:
    """Which repairs to try. `walks`: also the alternatives and cheats of the labs' own walks.

    `later`: minutes after which what was accepted is looked at again; None as `trials.minutes`.
    """

    kind: str = ""
    only: str = ""
    walks: bool = False
    later: float | None = None

    def __contains__(self, row: Tried) -> bool:
        """Return whether a repair is to be tried."""
        if self.only:
            return row.title == self.only
        if self.kind:
            return row.kind == self.kind
        return self.walks or row.kind not in (ALTERNATIVE, CHEAT)

    @property
    def words(self) -> list[str]:
        """Return the options of the command line."""
        kind = ["--kind", self.kind] if self.kind else []
        only = ["--only", self.only] if self.only else []
        later = [] if self.later is None else ["--later", str(self.later)]
        return [*kind, *only, *later, *["--walks"] * self.walks]


class Tally:
    """The rows so far, printed as they come and written to the file after each."""

    def __init__(
        self, term: Terminal, rows: Iterable[Tried], asked: Iterable[Tried], to: Path | None
    ) -> None:
        self.term = term
        self._place = {(row.lab, row.title): place for place, row in enumerate(asked)}
        self.rows = {(row.lab, row.title): row for row in rows}
        self.new: list[Tried] = []
        self._to = to

    def add(self, row: Tried) -> None:
        """Keep a row, in place of an older one of the same repair, and print it."""
        self.rows[row.lab, row.title] = row
        self.new.append(row)
        self.write()
        said = "WRONG" if row.wrong else "right" if row.decided else ""
        name = f"{row.lab}: {row.title}"
        self.term.say(f"{row.got:<8} {said:<6} {name[:50]:<50} {row.seconds:6.1f} s")
        if row.wrong or not row.decided:
            self.term.say(f"         {row.reason or '; '.join(s.words for s in row.deciding)}")

    def lacks(self, row: Tried, wish: Wish) -> bool:
        """Return whether a repair is still to be tried; one that was unknown is tried again."""
        found = self.rows.get((row.lab, row.title))
        if row not in wish or found is None:
            return row in wish
        early = found.later < trials.minutes(row, wish.later)
        return found.got == "unknown" or (found.got == "accept" and early and not found.walks)

    def write(self) -> None:
        """Write the file, by lab."""
        if self._to:
            judge_error.write(self.by_lab, self._to)

    @property
    def by_lab(self) -> list[Tried]:
        """Return all rows by lab, each lab's own in the order of its files."""
        places = self._place
        return sorted(
            self.rows.values(), key=lambda row: (row.lab, places.get((row.lab, row.title), 0))
        )


def try_repairs(
    term: Terminal,
    lab_ids: Sequence[str],
    *,
    everything: bool = False,
    wish: Wish,
    jobs: int = 1,
    json_file: str | None = None,
    share: str = "",
    more: Sequence[str] = (),
    wanted: str = AUTO,
) -> Document:
    """Try repairs and print a line each. Raises SaidNo for a wrong verdict, CannotRun for none.

    `more`: files of other commands, whose rows are taken over. `share`: `2/3` takes the second of
    three parts of the labs.
    """
    if jobs < 1:
        raise BadInput("--jobs takes a number from 1 up.", _HELP)
    document.all_known([("--kind", wish.kind, ["", *ALL_KINDS])], "judge-error", _HELP)
    chosen = _part(labs.chosen(lab_ids, everything, "judge-error"), share)
    every = {lab.id: trials.of(lab) for lab in chosen}
    asked = [trial.row for each in every.values() for trial in each]
    _must_exist(wish.only, asked)
    to = paths.in_a_folder(json_file) if json_file else None
    tally = Tally(term, _kept(every, _earlier(to, more)), asked, to)
    tally.write()
    todo = {lab_id: [t for t in each if tally.lacks(t.row, wish)] for lab_id, each in every.items()}
    places = _places(term, [lab for lab in chosen if todo[lab.id]], wanted)
    here = [lab for lab in chosen if lab.id in places]
    if jobs > 1 and len(here) > 1:
        rows = [*tally.rows.values()]
        with term.alive("try", f"repairs of {len(here)} labs, {jobs} at a time"):
            beside.run(here, places, rows, words=wish.words, jobs=jobs, add=tally.add)
    else:
        _one_by_one(places, here, todo, wish.later, tally)
    return _concluded(term, tally, asked)


def _one_by_one(
    places: Mapping[str, Engine],
    here: Sequence[Lab],
    todo: Mapping[str, Sequence[Trial]],
    later: float | None,
    tally: Tally,
) -> None:
    for lab in here:
        with tally.term.alive("try", f"{len(todo[lab.id])} repairs of {lab.id}"):
            for row in trials.tried(places[lab.id], lab, todo[lab.id], later):
                tally.add(row)


def _part(chosen: list[Lab], share: str) -> list[Lab]:
    if not share:
        return chosen
    match = _SHARE.fullmatch(share)
    if not match or int(match[1]) > int(match[2]):
        raise BadInput(f"--share: expected a part such as 2/3, got {share!r}.", _HELP)
    return chosen[int(match[1]) - 1 :: int(match[2])]


def _must_exist(only: str, asked: Sequence[Tried]) -> None:
    titles = [row.title for row in asked]
    if only and only not in titles:
        near = difflib.get_close_matches(only, titles, n=1, cutoff=0.4)
        more = f"; did you mean {near[0]!r}?" if near else "."
        raise BadInput(f"No repair of these labs has the title {only!r}{more}", _HELP)


def _earlier(to: Path | None, more: Sequence[str]) -> list[Tried]:
    """Return the rows of these files; of two for one repair the last one counts."""
    files = [Path(name) for name in more]
    files += [to] if to and to.is_file() and to.stat().st_size else []
    return [row for file in files for row in judge_error.read(file)]


def _kept(every: Mapping[str, Sequence[Trial]], old: Sequence[Tried]) -> list[Tried]:
    """Return the rows that still count, with today's words, and those of labs not asked for.

    An alternative or a cheat that was not tried is judged as the recorded walks judged it.
    """
    rows = [row for row in old if row.lab not in every]
    was = {row.key: row for row in old if not row.walks}
    file = paths.root() / RELIABILITY
    recorded = read_walks(file) if file.is_file() else Walks()
    for trial in (trial for each in every.values() for trial in each):
        row = was.get(trial.row.key) or trials.walked(trial, recorded)
        if row is not None:
            words = ("title", "kind", "expected", "why", "source")
            rows.append(replace(row, **{key: getattr(trial.row, key) for key in words}))
    return rows


def _places(term: Terminal, chosen: Sequence[Lab], wanted: str) -> dict[str, Engine]:
    """Return the engine of each lab that can run here, and name the others."""
    if not chosen:
        return {}
    places, cannot = engines_of(term, chosen, wanted, parts=True)
    for lab_id, why in cannot.items():
        term.say(f"{'skip':<9} {lab_id}: {why.partition(':')[0]}")
    return places


def _concluded(term: Terminal, tally: Tally, asked: Sequence[Tried]) -> Document:
    """Print both errors of the labs that were asked for. Raises SaidNo, CannotRun."""
    names = {(row.lab, row.title) for row in asked}
    its = [row for row in tally.by_lab if (row.lab, row.title) in names]
    found = judge_error.errors(its)
    told = Document(its)
    term.say(
        f"{found.tried} repairs, {len(tally.new)} tried now;"
        f" {found.unknown} unknown, {found.broken} with a step that failed"
    )
    term.say(f"accepted though unsound: {judge_error.share(found.unsound)}")
    term.say(f"refused though sound: {judge_error.share(found.sound)}")
    if wrong := found.unsound.happened + found.sound.happened:
        raise SaidNo(f"{wrong} of {found.tried} verdicts are wrong.", "", told)
    if amiss := found.unknown + found.broken:
        raise CannotRun(f"{amiss} of {found.tried} repairs have no verdict.", "", told)
    return told
