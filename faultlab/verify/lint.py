"""Lint: the rules that a collection has to keep, found by reading it. Nothing is started.

Code of the checks is imported, so lint only a folder that you trust.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from faultlab.core import paths
from faultlab.core.errors import BadInput, SaidNo
from faultlab.core.naming import flat
from faultlab.core.terminal import Terminal
from faultlab.lab import checks, collection, curriculum, numbers, release, services, vocabulary
from faultlab.lab import loader as labs
from faultlab.lab.check import Check, Measure
from faultlab.lab.collection import Collection, bare
from faultlab.lab.model import KERNEL, Lab
from faultlab.lab.vocabulary import Terms
from faultlab.run.phase import FAULTY, FIXED
from faultlab.verify import lesson, transcript
from faultlab.verify.walks import Walks

HEADINGS = (
    *("Symptom", "Diagnose", "Cause", "Fix", "On your servers", "Wrong turns", "Caveats"),
    "Questions",
)
# Words of commands that say nothing about the fault when a user reports it.
_HARMLESS = {
    *("set", "dev", "add", "del", "root", "link", "eth0", "tcp", "net", "core", "ipv4", "sed"),
    *("dport", "sport", "mode", "random", "probability", "input", "output", "etc", "conf"),
    *("var", "www", "html", "php", "booking", "web", "book", "statement"),
}
_RIDDLES = ("What", "Those", "Who", "Whoever")  # words that begin no sentence about a measure
_SENTENCE = re.compile(r"[A-Z][^.!?\n]*\.")
_PROBED = (0.0, 1e-4, 0.01, 0.5, 1, 4, 28, 33, 50, 100, 400, 999, 1e4, 1e6)
_TOLD = re.compile(r"(?P<file>\S+): (?:(?P<key>[^\s:]+): )?(?P<text>.*)", re.DOTALL)
_FEWEST_WORDS = 10  # of a ticket


@dataclass(frozen=True)
class Breach:
    """A rule that is not kept: where, what was expected, and what to type next."""

    file: str
    key: str
    expected: str
    next: str


@dataclass(frozen=True)
class Linted:
    """The labs that were read, the rules that are not kept, and the lessons that were written."""

    labs: list[str]
    found: list[Breach]
    written: list[str]


def show(term: Terminal, folder: str, write: bool = False) -> Linted:
    """Print each rule that a collection does not keep. Raises SaidNo if there are any.

    `write`: first write the parts of its lessons that repeat lab.toml. Raises BadInput if there is
    no such folder.
    """
    if write:
        release.needs_written("lint --write")
    root = Path(folder).absolute()
    if not root.is_dir():
        raise BadInput(f"There is no folder {folder}.", f"ls {root.parent}")
    try:
        its = collection.read(root)
        ids = its.ids()
    except BadInput as problem:
        return _conclude(term, Linted([], [_of(problem)], []))
    written = _written(its, ids) if write else []
    found = dict.fromkeys([*of_stack(its), *of_labs(its, ids)])
    return _conclude(term, Linted(ids, [*found], written))


def _conclude(term: Terminal, linted: Linted) -> Linted:
    for breach in linted.found:
        term.command(": ".join(filter(None, (breach.file, breach.key, breach.expected))))
        term.command(f"  next: {breach.next}")
    if linted.written:
        term.say(f"Written: {', '.join(linted.written)}.")
    if linted.found:
        count = len(linted.found)
        what = f"{count} rule{' is' if count == 1 else 's are'} not kept."
        raise SaidNo(what, linted.found[0].next, linted)
    keep = "1 lab keeps" if len(linted.labs) == 1 else f"{len(linted.labs)} labs keep"
    term.say(f"{keep} every rule. Next: faultlab verify LAB")
    return linted


def _of(problem: BadInput) -> Breach:
    """Return an error that reads `FILE: KEY: TEXT` as a breach."""
    found = _TOLD.fullmatch(problem.message)
    if found is None:
        return Breach("", "", problem.message, problem.hint)
    return Breach(found["file"], found["key"] or "", found["text"], problem.hint)


def _written(its: Collection, ids: Iterable[str]) -> list[str]:
    found = []
    for lab_id in ids:
        file = its.folder(lab_id) / "README.md"
        try:
            text = lesson.rendered(labs.load_in(its, lab_id), Walks())
        except BadInput:
            continue  # it is told below
        if file.read_text() != text:
            file.write_text(text)
            found.append(paths.show(file))
    return found


def of_stack(its: Collection) -> Iterator[Breach]:
    """Yield the rules that the stack, the images and the order of the labs do not keep."""
    file, hint = paths.show(its.stack), "see docs/adding-a-daemon.md"
    try:
        plan = services.read(its)
    except BadInput as problem:
        yield _of(problem)
        return
    users = its.client + services.USER
    if users not in plan.services:
        yield Breach(
            file, f"services.{users}", "missing key; checks look from there", f"edit {file}"
        )
    for name, machine in plan.daemons.items():
        dockerfile = plan.folder(name) / "Dockerfile"
        where, text = paths.show(dockerfile), dockerfile.read_text()
        if "\nHEALTHCHECK " not in text:
            yield Breach(where, "HEALTHCHECK", "expected one, as the sign that it is up", hint)
        if "ARG BASE\nFROM ${BASE}\n" not in text:
            yield Breach(where, "FROM", "expected `ARG BASE`, then `FROM ${BASE}`", hint)
        log = plan.facts(name).log
        for each in (name, machine):
            mounts = plan.services[each].get("volumes") or []
            if log and log not in [str(entry).partition(":")[2] for entry in mounts]:
                expected = f"expected a volume at {log}, which is the log of {name}"
                yield Breach(file, f"services.{each}.volumes", expected, f"edit {file}")
    yield from _of_order(its)
    yield from _of_numbers(its)


def _of_numbers(its: Collection) -> Iterator[Breach]:
    """Yield the labs without a number of their own; other collections can do without."""
    found = [*numbers.of(its)]
    free = f"{max((each.number for each in found), default=0) + 1} is free"
    first: dict[int, str] = {}
    for each in found:
        where = paths.show(its.folder(each.lab) / "lab.toml")
        if (other := first.setdefault(each.number, each.lab)) != each.lab:
            expected = f"expected another one than that of {other}, got {each.number}; {free}"
            yield Breach(where, "number", expected, f"edit {where}")
    for lab_id in its.ids() if its.ours else ():
        if numbers.read(its.folder(lab_id)) is None:
            where = paths.show(its.folder(lab_id) / "lab.toml")
            yield Breach(where, "number", f"missing key; {free}", f"edit {where}")


def _of_order(its: Collection) -> Iterator[Breach]:
    where = paths.show(its.root / collection.FILE)
    known = [bare(lab_id) for lab_id in its.ids()]
    if its.control and its.control not in known:
        expected = f"expected one of {', '.join(known)}, got {its.control!r}"
        yield Breach(where, "control", expected, f"edit {where}")
    try:
        curriculum.of(its)
    except BadInput as problem:
        if " needs " in problem.message:  # all else is told for the lab itself
            yield Breach(where, "labs", problem.message, problem.hint)


def of_labs(its: Collection, ids: Iterable[str]) -> Iterator[Breach]:
    """Yield the rules that labs of a collection do not keep."""
    whole = []
    for lab_id in its.ids():
        with suppress(BadInput):  # it is told in the place of its lab
            whole.append(labs.load_in(its, lab_id))
    known = vocabulary.of(whole)
    for lab_id in ids:
        yield from _of_lab(its, lab_id, known)


def _of_lab(its: Collection, lab_id: str, known: Terms) -> Iterator[Breach]:
    try:
        lab = labs.load_in(its, lab_id)
        labs.repairs(lab)
    except BadInput as problem:
        yield _of(problem)
        return
    yield from _of_facts(lab)
    try:
        check = checks.load(lab)
    except BadInput as problem:
        yield _of(problem)
    else:
        yield from _of_check(lab, check)
        yield from _of_figures(lab, check)
        yield from _of_sentences(lab, check, known)
    yield from _of_ticket(lab)
    yield from _of_lesson(lab)


def _at(lab: Lab, name: str, key: str, expected: str, hint: str = "") -> Breach:
    where = paths.show(lab.folder / name)
    return Breach(where, key, expected, hint or f"edit {where}")


def _of_facts(lab: Lab) -> Iterator[Breach]:
    """Yield what is wrong in lab.toml beyond its shape."""
    others = sorted({*lab.collection.ids()} - {lab.id})
    for key in ("twins", "needs"):
        for i, other in enumerate(getattr(lab, key)):
            if other not in others:
                allowed = ", ".join(map(bare, others))
                expected = f"expected one of {allowed}, got {bare(other)!r}"
                yield _at(lab, "lab.toml", f"{key}[{i}]", expected)
    if lab.control != (lab.tier == "control"):
        expected = "expected 'control' if truth.cause is 'none', and only then"
        yield _at(lab, "lab.toml", "tier", f"{expected}, got {lab.tier!r}")
    if lab.control:
        return
    if lab.fix == lab.inject:
        yield _at(lab, "lab.toml", "fix", "expected other steps than those of inject")
    for key in ("alternative", "cheat"):
        for i, remedy in enumerate(getattr(lab, key)):
            if remedy.steps == lab.fix:
                expected = "expected other steps than those of fix"
                yield _at(lab, "lab.toml", f"{key}[{i}].steps", expected)


def _of_check(lab: Lab, check: Check[Any, Any]) -> Iterator[Breach]:
    where = paths.show(checks.files(lab)[0])

    def wrong(key: str, expected: str) -> Breach:
        return Breach(where, key, expected, f"edit {where}")

    shows = any(measure.bad and not measure.steady for measure in check.symptom)
    if lab.control and (shows or not check.symptom):
        yield wrong("symptom", "expected measures without a limit `bad`, for nothing is wrong")
    if not (lab.control or shows):
        yield wrong("symptom", "expected a measure whose limits differ with and without the fault")
    if bool(check.evidence) == lab.control:
        yield wrong("evidence", "expected none" if lab.control else "expected some")
    plan = lab.services
    machines = [name for name in plan.services if not name.endswith(services.USER)]
    places = {*machines, KERNEL} - ({*plan.daemons} - {*lab.daemons})
    for item in check.evidence:
        if not item.command:
            yield wrong(
                f"evidence {item.name!r}", "expected .seen(machine, command), which shows it"
            )
        elif item.machine not in places:
            expected = f"expected one of {', '.join(sorted(places))}, got {item.machine!r}"
            yield wrong(f"evidence {item.name!r}", expected)
    for name in check.may_stop:
        if name not in lab.daemons:
            expected = f"expected one of {', '.join(lab.daemons)}, got {name!r}"
            yield wrong("may_stop", expected)
    shape = typing.get_type_hints(check.look).get("return")
    for measure in check.symptom:
        if isinstance(measure.of, str) and not _has(shape, measure.of):
            expected = f"expected a field of what look returns, got {measure.of!r}"
            yield wrong(f"symptom {measure.name!r}", expected)
        if _in_both(measure):
            expected = "expected limits of which no value can keep both"
            yield wrong(f"symptom {measure.name!r}", expected)


def _has(shape: Any, of: str) -> bool:
    """Return whether a path leads to something in a type, as far as the types tell."""
    for part in of.split("."):
        if not is_dataclass(shape):
            return True
        kinds = typing.get_type_hints(shape)
        if part in {each.name for each in fields(shape)}:
            shape = kinds[part]
        elif hasattr(shape, part):
            shape = None  # a property; its type is not told in all cases
        else:
            return False
    return True


def _in_both(measure: Measure[Any]) -> bool:
    """Return whether one value can be both healthy and faulty."""
    bad = measure.bad
    if bad is None or measure.steady:
        return False
    pairs = ((value, healthy) for value in _PROBED for healthy in _PROBED)
    return any(measure.good.holds(*pair) and bad.holds(*pair) for pair in pairs)


def _of_figures(lab: Lab, check: Check[Any, Any]) -> Iterator[Breach]:
    names = {*(each.name for each in check.symptom), *(each.name for each in check.evidence)}
    shape = typing.get_type_hints(check.look).get("return")
    for i, figure in enumerate(lab.figure):
        for of in [figure.of] if isinstance(figure.of, str) else figure.of:
            if of not in names and not (of.replace(".", "").isidentifier() and _has(shape, of)):
                expected = "expected a measure, an evidence or a field of the look"
                yield _at(lab, "lab.toml", f"figure[{i}].of", f"{expected}, got {of!r}")


def _of_sentences(lab: Lab, check: Check[Any, Any], known: Terms) -> Iterator[Breach]:
    """Yield the sentences for learners that are none, or that name the fault."""
    where = paths.show(checks.files(lab)[0])
    spoiling = _spoilers(lab) | {bare(lab.id), *bare(lab.id).split("-"), *known.causes}
    if not lab.control:
        spoiling |= set(lab.truth.cause.split("-"))
    told = "\n".join([lab.title, lab.ticket, *(measure.name for measure in check.symptom)])
    parts = {*known.components, *known.resources}
    spoiling |= parts - {*_in(told, parts)}
    for measure in check.symptom:
        said = (measure.when_good, measure.when_bad)
        wrong = ""
        if not all(said) or said[0] == said[1]:
            wrong = "expected .says(…) with two sentences, which differ"
        elif bad := [t for t in said if not _SENTENCE.fullmatch(t) or t.startswith(_RIDDLES)]:
            wrong = f"expected one plain sentence, got {bad[0]!r}"
        elif named := _in("\n".join(said), spoiling):
            wrong = f"expected no word of inject, id or cause, got {named[0]!r}"
        if wrong:
            yield Breach(where, f"symptom {measure.name!r}", wrong, f"edit {where}")


def _of_ticket(lab: Lab) -> Iterator[Breach]:
    if len(lab.ticket.split()) < _FEWEST_WORDS:
        yield _at(lab, "ticket.md", "", f"expected {_FEWEST_WORDS} words and more")
    ticket = re.sub(r"http://\S+", "", lab.ticket)  # the name of a page gives nothing away
    for name, key, text in (("ticket.md", "", ticket), ("lab.toml", "title", lab.title)):
        if told := _in(text, _spoilers(lab)):
            yield _at(lab, name, key, f"expected no word of inject or cause, got {told[0]!r}")


def _spoilers(lab: Lab) -> set[str]:
    """Return the words of the commands that set a fault up, and its cause."""
    commands = " ".join(step.run or "" for step in lab.inject).lower()
    words = set(re.findall(r"[a-z][a-z0-9_]{2,}", commands)) - _HARMLESS
    if not lab.control:
        words |= {lab.truth.cause, lab.truth.cause.replace("-", " ")}
    return words


def _in(text: str, words: Iterable[str]) -> list[str]:
    return sorted(word for word in words if re.search(rf"\b{re.escape(word)}\b", text.lower()))


def _of_lesson(lab: Lab) -> Iterator[Breach]:
    text = lab.lesson

    def wrong(key: str, expected: str, hint: str = "") -> Breach:
        return _at(lab, "README.md", key, expected, hint)

    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    if [heading for heading in headings if heading in HEADINGS] != [*HEADINGS]:
        yield wrong("##", f"expected the headings {', '.join(HEADINGS)}")
    if text.partition("## Symptom")[0].count("|") <= 4:
        yield wrong("table", "expected versions, memory, minutes and source before Symptom")
    if text.count("<details><summary>Answer</summary>") < 2:
        yield wrong("Questions", "expected two, each with `<details><summary>Answer</summary>`")
    found = transcript.blocks(text)
    again = f"faultlab transcript {lab.id}"
    if lacking := [phase for phase in (FAULTY, FIXED) if phase not in {each[0] for each in found}]:
        yield wrong("transcript", f"expected one of each of faulty and fixed, not of {lacking[0]}")
    name = re.compile(rf"\d{{8}}-\d{{6}}-{flat(lab.id)}-[0-9a-f]{{4}}")
    if [run for _, run, body in found if not name.fullmatch(run) or len(body.splitlines()) < 2]:
        yield wrong("transcript", "expected the output of a run of this lab", again)
    if text.count("```console") != len(found):
        yield wrong("```console", "expected only below `<!-- transcript: PHASE -->`")
    parts = ["wrong turns"] if lab.control else ["fix", "wrong turns"]
    for part in parts:
        if f"<!-- {part} -->" not in text:
            yield wrong(f"<!-- {part} -->", "missing comment, below which lab.toml is repeated")
    if not lab.collection.ours and lesson.rendered(lab, Walks()) != text:
        root = lab.collection.root
        yield wrong("<!-- fix -->", "expected what lab.toml says", f"faultlab lint --write {root}")
