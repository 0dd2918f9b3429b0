"""Harmless: decoys on stacks without a fault, judged by the measures of the labs that have them.

`docs/decoys.json` keeps the last trial of each decoy on each lab. Only a decoy that was harmless in
each of them is drawn for a mystery.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from faultlab.core import document, git, lock, paths, text
from faultlab.core.errors import BadInput, CannotRun, SaidNo
from faultlab.core.naming import stack_name, verify_namespace
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Engine
from faultlab.lab import decoys
from faultlab.lab import loader as labs
from faultlab.lab.collection import Collection, bare
from faultlab.lab.model import Decoy, Lab
from faultlab.run import digest
from faultlab.run.phase import CHECK, HEALTHY
from faultlab.run.placement import engines_of
from faultlab.run.stack_in_phase import stack_in_phase

FILE = "docs/decoys.json"
SCHEMA = 1
LOOKS = 3  # with the decoy; each must find its users as well served as before
LABS = 2  # on which a decoy is tried

Verdict = Literal["harmless", "felt", "unknown"]


@dataclass(frozen=True)
class Trial:
    """One decoy on one lab without its fault. `reason`: what users felt, or why it is unknown."""

    decoy: str
    lab: str
    verdict: Verdict
    reason: str
    looks: int
    seconds: float
    run: str
    commit: str
    engine: str
    digest: str


@dataclass(frozen=True)
class Trials:
    """The content of the file."""

    trials: list[Trial]
    schema: int = SCHEMA


def proven(its: Collection) -> list[Decoy]:
    """Return the decoys of a collection that were tried and harmed no user. Raises BadInput."""
    kept = [trial for trial in _read() if _now(its, trial) == trial.digest]
    harmed = {trial.decoy for trial in kept if trial.verdict != "harmless"}
    names = dict.fromkeys(trial.decoy for trial in kept if trial.decoy not in harmed)
    return [labs.decoy(its, name) for name in names]


def with_decoys(lab: Lab, number: int, chance: random.Random) -> Lab:
    """Return a lab with so many of its proven decoys, drawn by chance. Raises BadInput for fewer.

    Two that suggest the same fault are not drawn together.
    """
    left = proven(lab.collection) if number else []
    chance.shuffle(left)
    for have in range(number):
        left = [decoy for decoy in left if not decoys.clash(decoy, lab)]
        if not left:
            what = f"This can have {have} false lead{'' if have == 1 else 's'} at most"
            raise BadInput(f"{what}, not {number}.", "faultlab decoys")
        lab = decoys.among(lab, [left.pop()])
    return lab


def _now(its: Collection, trial: Trial) -> str:
    """Return what the digest of a trial would be today; empty if it cannot be made any more."""
    try:
        return digest.decoy(labs.decoy(its, trial.decoy), labs.load_in(its, trial.lab))
    except (BadInput, OSError):
        return ""


def prove(
    term: Terminal, names: Sequence[str], wanted: str, json_file: str | None, its: Collection
) -> Trials:
    """Try decoys, all by default, each on two labs. Raises SaidNo if users feel one of them.

    `json_file`: keeps the last trial of each decoy on each lab.
    """
    chosen = [labs.decoy(its, name) for name in names or labs.decoy_ids(its)]
    file = paths.in_a_folder(json_file) if json_file else None
    kept = {(t.decoy, t.lab): t for t in _read(file)} if file else {}
    pairs = [(decoy, lab) for decoy in chosen for lab in _hosts(its, decoy)]
    every = {lab.id: lab for _, lab in pairs}
    places, cannot = engines_of(term, [*every.values()], wanted)
    found = []
    for decoy, lab in pairs:
        if lab.id in cannot:
            term.say(f"{'skip':<9} {lab.id}: {cannot[lab.id].partition(':')[0]}")
            continue
        found.append(_tried(term, places[lab.id], decoy, lab))
        kept[decoy.id, bare(lab.id)] = found[-1]
        if file:
            _write(file, kept.values())
    if not found:
        raise CannotRun("None of these decoys can be tried here.", "faultlab doctor")
    told = Trials(found)
    if felt := [trial for trial in found if trial.verdict == "felt"]:
        what = f"{len(felt)} of {len(found)} trials were felt: {felt[0].decoy} on {felt[0].lab}"
        raise SaidNo(f"{what}: {felt[0].reason}.", "", told)
    return told


def _hosts(its: Collection, decoy: Decoy) -> list[Lab]:
    """Return the labs on which a decoy is tried: controls first, then those with a load."""
    every = [labs.load_in(its, lab_id) for lab_id in its.ids()]
    fit = [
        lab
        for lab in every
        if not lab.several and lab.scope == "machine" and not decoys.clash(decoy, lab)
    ]
    return sorted(fit, key=lambda lab: (not lab.control, not lab.load, lab.minutes))[:LABS]


def _tried(term: Terminal, engine: Engine, decoy: Decoy, lab: Lab) -> Trial:
    its = decoys.among(lab, [decoy])
    name, began = stack_name(its.id, verify_namespace()), time.monotonic()
    verdict: Verdict = "unknown"
    run_id = ""
    with (
        term.step("decoy", f"{decoy.id} on {lab.id}") as step,
        lock.hold(name, f"decoys {decoy.id}"),
    ):
        try:
            with stack_in_phase(engine, its, name, HEALTHY) as run:
                run_id = run.record.id
                run.plant()
                amiss: list[str] = []
                for _ in range(LOOKS):
                    run.measure(CHECK)
                    amiss += [found.words for found in run.good(CHECK) if not found.holds]
                verdict, reason = ("felt", amiss[0]) if amiss else ("harmless", "")
        except CannotRun as problem:
            reason = problem.message
        step.done(f"{decoy.id} on {lab.id}: {verdict}")
    return Trial(
        decoy.id,
        bare(lab.id),
        verdict,
        reason,
        LOOKS,
        round(time.monotonic() - began, 1),
        run_id,
        git.commit(),
        engine.name,
        digest.decoy(decoy, lab),
    )


def show(term: Terminal, its: Collection, *, markdown: bool) -> Trials:
    """Print the decoys with what they look like, and on which labs they harmed no user."""
    kept = [*_read()]
    rows = []
    for decoy in (labs.decoy(its, name) for name in labs.decoy_ids(its)):
        tried = [t for t in kept if t.decoy == decoy.id and _now(its, t) == t.digest]
        where = ", ".join(f"{t.verdict} on {t.lab}" for t in tried) or "not tried"
        rows.append((decoy.id, decoy.title, decoy.suggests, where, decoy.kind, decoy.why))
    columns = ("decoy", "what an engineer finds", "it suggests", "users", "kind", "why it is none")
    if markdown:
        term.console.width = 2000
        term.say("\n".join(text.markdown(columns, rows)))
    else:
        term.table(columns[:4], [row[:4] for row in rows])
    return Trials(kept)


def _read(file: Path | None = None) -> Iterable[Trial]:
    """Return the trials of a file; none where there is no file. Raises BadInput."""
    file = file or paths.root() / FILE
    if not file.is_file():
        return []
    missing = BadInput(f"There is no file {file}.", "faultlab decoys --help")
    found = document.read(file, SCHEMA, missing, "holds no trials of decoys")
    return document.shaped(Trials, found, file).trials


def _write(file: Path, trials: Iterable[Trial]) -> None:
    found = Trials(sorted(trials, key=lambda trial: (trial.decoy, trial.lab)))
    paths.write_whole(file, json.dumps(asdict(found), indent=1) + "\n")
