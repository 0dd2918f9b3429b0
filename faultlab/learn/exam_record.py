"""Exam record: `runs/exams/ID.jsonl`, one exam, a line for its begin and one for each answer.

A line is on the disk before the next draw begins, so a `kill -9` costs the draw under way alone.
"""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from faultlab.core import paths
from faultlab.core.statistics import Sensitivity, sensitivity

SCHEMA = 1
_BEGAN, _ANSWERED = "began", "answered"


@dataclass(frozen=True)
class Said:
    """One answer: the lab that it was, the one that was said, and how sure, in per cent.

    `seconds`: since its stack was up, and `took` until it was. `run`: of that stack.
    """

    lab: str
    said: str
    sure: int
    right: bool
    seconds: float
    took: float
    run: str


@dataclass
class Exam:
    """An exam of two labs, and its answers so far."""

    file: Path
    labs: list[str]
    seed: int
    draws: int
    began: float
    answers: list[Said] = field(default_factory=list)

    @classmethod
    def begin(cls, labs: Sequence[str], seed: int, draws: int) -> Exam:
        """Begin an exam, with a file of its own. Raises CannotRun if it cannot be written."""
        folder = _folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise paths.unwritable(folder, error) from error
        now = datetime.now(UTC)
        file = folder / f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}.jsonl"
        made = cls(file, [*labs], seed, draws, round(now.timestamp(), 3))
        facts = {"labs": made.labs, "seed": seed, "draws": draws}
        made._add(_BEGAN, made.began, schema=SCHEMA, **facts)
        return made

    @classmethod
    def going_on(cls, labs: Sequence[str], seed: int | None, draws: int | None) -> Exam | None:
        """Return the newest exam of these two labs that lacks answers; None without one.

        It has this seed and this number of draws, if they are given.
        """
        folder = _folder()
        files = sorted(folder.glob("*.jsonl"), reverse=True) if folder.is_dir() else []
        for found in filter(None, map(_read, files)):
            asked = (found.seed if seed is None else seed, found.draws if draws is None else draws)
            if {*found.labs} == {*labs} and (found.seed, found.draws) == asked and found.left:
                return found
        return None

    @property
    def left(self) -> list[str]:
        """Return the labs of the draws that were not answered yet, in their order."""
        return order(self.labs, self.seed, self.draws)[len(self.answers) :]

    @property
    def pace(self) -> float:
        """Return the seconds that the slower lab takes to be proven, at its quickest."""
        of = {lab: [one.took for one in self.answers if one.lab == lab] for lab in self.labs}
        return max(min(each, default=0.0) for each in of.values())

    def add(self, said: Said) -> None:
        """Write an answer down. Raises CannotRun if it cannot be written."""
        self._add(_ANSWERED, time.time(), **asdict(said))
        self.answers.append(said)

    def _add(self, event: str, t: float, **facts: object) -> None:
        paths.add_line(self.file, json.dumps({"t": round(t, 3), "event": event, **facts}))

    @property
    def sensitivity(self) -> Sensitivity | None:
        """Return d' of the answers so far: saying the first lab is a hit where it is there."""
        first = self.labs[0]
        here = [one.said == first for one in self.answers if one.lab == first]
        elsewhere = [one.said == first for one in self.answers if one.lab != first]
        return sensitivity(sum(here), len(here), sum(elsewhere), len(elsewhere))


def order(labs: Sequence[str], seed: int, draws: int) -> list[str]:
    """Return which of two labs comes at each draw.

    It depends on the seed and the two labs alone. Each draw is a throw of a coin, so nothing can be
    concluded from the draws before; but each of the two has a quarter of them at least, because
    nothing can be told apart that comes once.
    """
    chance, pair = random.Random(seed), sorted(labs)
    while True:
        found = [pair[chance.random() < 0.5] for _ in range(draws)]
        if min(map(found.count, pair)) >= draws // 4:
            return found


def _folder() -> Path:
    return paths.runs() / "exams"


def _read(file: Path) -> Exam | None:
    """Return the exam of a file; None if it is damaged. A last line that was cut off is left."""
    with suppress(OSError, ValueError, KeyError, TypeError, IndexError):
        whole = file.read_text()
        first, *more = [json.loads(line) for line in whole[: whole.rfind("\n") + 1].splitlines()]
        if first["schema"] != SCHEMA or len(first["labs"]) != 2:
            return None
        made = Exam(file, first["labs"], first["seed"], first["draws"], first["t"])
        its = Said.__dataclass_fields__
        made.answers += [Said(**{key: row[key] for key in its}) for row in more]
        return made
    return None
