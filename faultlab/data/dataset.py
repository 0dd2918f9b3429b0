"""Dataset: record a stack of each lab in each phase, and go on where an earlier command ended."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from faultlab.core import lock, paths
from faultlab.core.errors import BadInput, CannotRun, Problem
from faultlab.core.terminal import Terminal
from faultlab.data import card, item, scrape, truth
from faultlab.data.item import Item
from faultlab.data.scrape import Span
from faultlab.data.truth import DATA, ITEMS, TRUTH, Key, Truth
from faultlab.engine.contract import Engine
from faultlab.lab import loader as labs
from faultlab.lab.severity import AT
from faultlab.run import digest, placement
from faultlab.run.background_load import traffic
from faultlab.run.phase import FAULTY, HEALTHY, PHASES
from faultlab.score import setups
from faultlab.score.alone import share_out
from faultlab.score.setups import Setup

_SHORTEST = 10.0  # seconds of an item


@dataclass(frozen=True)
class Made:
    """The folder, what is in it now, and what could not be recorded, each with the reason."""

    folder: str
    items: int
    labs: int
    bytes: int
    seconds: float
    failed: list[str] = field(default_factory=list)


def make(
    term: Terminal,
    out: str,
    lab_ids: Sequence[str],
    phases: Sequence[str],
    *,
    span: Span,
    severities: bool = False,
    repeat: int = 1,
    seed: int = 0,
    wanted: str = "local",
) -> Made:
    """Record what is missing in a data set. Raises BadInput, CannotRun."""
    began, folder = time.monotonic(), Path(out)
    _refuse(phases, repeat, span)
    chosen = [labs.load(lab_id) for lab_id in lab_ids or labs.ours()]
    if severities:
        chosen = [row for lab in chosen for row in labs.rows(lab)]
    with lock.hold(f"data-{_mark(folder)}", "dataset"):
        kept = {each.key: each for each in _kept(folder)}
        places = placement.places_of(term, chosen, wanted)
        here = [lab for lab in chosen if lab.id in places]
        looks = [each for each in setups.order(here, repeat, seed) if each.phase in phases]
        missing = [look for look in looks if not _has(kept, look, span)]
        if len(missing) < len(looks):
            term.say(f"resuming: {len(looks) - len(missing)} of {len(looks)} items are there")
        failed = []
        for number, look in enumerate(missing, 1):
            with term.step("item", look.text) as step:
                try:
                    _add(folder, kept, *_record(places[look.lab.id], look, span))
                    step.done(f"{number} of {len(missing)}: {look.text}")
                except Problem as problem:
                    failed.append(f"{look.text}: {problem.message}")
                    step.done(f"could not be recorded: {failed[-1]}")
        size = card.write(folder / DATA, {each.item: each.seconds for each in kept.values()})
    count, took = len({each.lab for each in kept.values()}), time.monotonic() - began
    made = Made(out, len(kept), count, size, round(took, 1), failed)
    term.say(f"{made.items} items of {made.labs} labs, {size / 1e6:.1f} MB, are in {folder / DATA}")
    if failed:
        what = f"{len(failed)} of {len(missing)} items could not be recorded: {failed[-1]}"
        raise CannotRun(what, "type the same command again: it makes only the missing ones", made)
    return made


def _refuse(phases: Sequence[str], repeat: int, span: Span) -> None:
    if unknown := [name for name in phases if name not in PHASES]:
        known = ", ".join(PHASES)
        what = f"There is no phase {unknown[0]!r}; there are {known}."
        raise BadInput(what, "faultlab dataset --help")
    if repeat < 1 or span.every <= 0 or span.seconds < max(_SHORTEST, 5 * span.every):
        what = f"An item takes {_SHORTEST:g} seconds and five readings at least."
        raise BadInput(what, "faultlab dataset --help")


def _mark(folder: Path) -> str:
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]


def _kept(folder: Path) -> list[Truth]:
    """Return what is in the folder, which is made if it is not there. Raises BadInput.

    An item that a killed command left without its truth is removed.
    """
    if (folder / TRUTH).is_dir():
        known = truth.read(folder)
        for item_folder in (folder / DATA / ITEMS).glob("*"):
            if item_folder.name not in {each.item for each in known}:
                shutil.rmtree(item_folder, ignore_errors=True)
        return known
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is no data set and not empty.", f"ls -l {folder}")
    try:
        (folder / DATA / ITEMS).mkdir(parents=True, exist_ok=True)
        (folder / TRUTH).mkdir()
    except OSError as error:
        raise paths.unwritable(folder, error) from error
    truth.write(folder, [])
    return []


def _has(kept: dict[Key, Truth], look: Setup, span: Span) -> bool:
    its = kept.get((look.lab.id, look.phase, look.number))
    wanted = (span.seconds, span.every, digest.fault(look.lab))
    return its is not None and (its.seconds, its.every, its.lab_digest) == wanted


def _record(engine: Engine, look: Setup, span: Span) -> tuple[Truth, Item]:
    """Record one stack. Raises Problem, also if the fault has ended meanwhile."""
    engine.images.ensure(lambda _: None, {scrape.image()})
    beside = replace(span, cpus=share_out(engine, lambda _: None))
    with setups.on_show(engine, look.lab, look.phase) as run:
        come = all(run.stack[name].state.running for name in run.check.may_stop)
        users = traffic(lambda: run.check.look(run.stack), wait=True) if come else nullcontext()
        with lock.turn(alone=True), users:
            recorded = item.of(run, beside)
        if look.phase != HEALTHY:
            run.prove(look.phase)
        return truth_of(look, span, run.record.id), recorded


def truth_of(look: Setup, span: Span, run: str) -> Truth:
    """Return what an item is, with a drawn name."""
    return Truth(
        item=secrets.token_hex(4),
        lab=look.lab.id,
        phase=look.phase,
        number=look.number,
        fault=look.phase == FAULTY and not look.lab.control,
        **look.lab.truth.model_dump(),
        severity=look.lab.id.partition(AT)[2],
        seconds=span.seconds,
        every=span.every,
        lab_digest=digest.fault(look.lab),
        run=run,
    )


def _add(folder: Path, kept: dict[Key, Truth], made: Truth, recorded: Item) -> None:
    """Write an item and then its truth, in place of an older one. Raises CannotRun."""
    place = folder / DATA / ITEMS / made.item
    try:
        place.mkdir()
    except OSError as error:
        raise paths.unwritable(place, error) from error
    for name, text in recorded.files.items():
        paths.write_whole(place / name, text)
    old = kept.get(made.key)
    kept[made.key] = made
    truth.write(folder, kept.values())
    if old is not None:
        shutil.rmtree(folder / DATA / ITEMS / old.item, ignore_errors=True)
