"""Review: a class as the draft of a post-mortem, from its journal alone.

Each time is one of the journal: when an event was written down, which is before it was shown.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from faultlab.core import paths
from faultlab.core import text as texts
from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal
from faultlab.workshop import documents
from faultlab.workshop.export import ClassId
from faultlab.workshop.folder import begun
from faultlab.workshop.journal import Entry, Event, Journal
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import WORDS, Roster, Seat
from faultlab.workshop.surprise import Surprise

KINDS = ("md", "html")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~])")
_OF_CLASS = {
    Event.OPENED: "the server begins",
    Event.PAUSED: "paused",
    Event.RESUMED: "resumed",
    Event.ENDED: "the class ends",
}


@dataclass(frozen=True)
class Reviewed:
    """The files of a review, and how many lines their timeline has."""

    class_: ClassId
    files: list[str]
    lines: int


@dataclass(frozen=True)
class Line:
    """One line of the timeline. `t`: of the journal, in seconds since 1970."""

    t: float
    who: str
    what: str


def write(term: Terminal, file: str, to: str | None) -> Reviewed:
    """Write the review of a class, by default as Markdown and as a page. Raises BadInput."""
    folder, plan, journal = begun(file)
    wanted = [paths.in_a_folder(to)] if to else [folder.path / f"review.{kind}" for kind in KINDS]
    roster = _played(plan, journal)
    for target in wanted:
        kind = target.suffix.removeprefix(".")
        if kind not in KINDS:
            raise BadInput(
                f"--to: expected a name that ends with .{' or .'.join(KINDS)}, got {to!r}",
                f"faultlab class review {file} --to review.md",
            )
        whole = markdown(roster, journal)
        target.write_text(whole if kind == "md" else page(plan.title, whole))
        term.say(f"written   {paths.show(target)}")
    term.say("It is a draft: add why things happened, and what you want to change.")
    return Reviewed(plan.id, [str(target) for target in wanted], len(lines(roster, journal)))


def page(title: str, whole: str) -> str:
    """Return a review as an HTML page that needs no other file."""
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent / "pages"), autoescape=True)
    facts = {"title": title, "body": Markup(documents.html(whole))}
    return pages.get_template("review.html").render(facts)


def markdown(roster: Roster, journal: Journal) -> str:
    """Return the review of a class so far."""
    every = lines(roster, journal)
    began = every[0].t if every else 0.0
    rows = [[clock(line.t), _since(line.t - began), plain(line.who), line.what] for line in every]
    return "\n".join(
        [
            f"# {plain(roster.plan.title)}: what happened",
            "",
            "A draft, made from the journal of the class. Times are those of this machine.",
            "",
            "## In short",
            "",
            *_summary(roster, journal),
            "",
            "## Each seat",
            "",
            *texts.markdown(
                ["seat", "lab", "began", "first check", "repaired", "checks", "hints", "state"],
                [row for seat in roster.seats for row in _rows(seat, journal)],
            ),
            "",
            "## Timeline",
            "",
            *texts.markdown(["time", "since the begin", "who", "what"], rows),
            "",
            "## Why",
            "",
            "What made it hard? Which reading would have told it sooner?",
            "",
            "## What we change",
            "",
            "| what | who | until |",
            "| --- | --- | --- |",
            "|  |  |  |",
            "",
        ]
    )


def lines(roster: Roster, journal: Journal) -> list[Line]:
    """Return the timeline of a class, the oldest first."""
    found = []
    for event in journal.events:
        who = roster.seat(event["seat"]).name if "seat" in event else "the class"
        if what := said(roster, event):
            found.append(Line(float(event["t"]), who, what))
    return sorted(found, key=lambda line: line.t)


def said(roster: Roster, event: Entry) -> str:
    """Return an event in words, as Markdown; empty for one that tells nothing here."""
    kind = event["event"]
    if kind in _OF_CLASS:
        return _OF_CLASS[kind]
    how = _SAID.get(kind)
    return how(roster, event) if how else ""


def _checked(_: Roster, event: Entry) -> str:
    if event["fixed"]:
        return "checks: **repaired**" + (", to be looked at again" if event.get("later") else "")
    amiss = [f["name"] for f in event.get("findings", []) if not f["holds"]]
    why = (
        f"not as it should be: {plain(', '.join(amiss))}" if amiss else plain(event.get("why", ""))
    )
    gone = event.get("gone", [])
    return f"checks: {why}" + (f"; {len(gone)} of its faults gone" if gone else "")


def _looked(_: Roster, event: Entry) -> str:
    return "looked at again: " + ("it **has lasted**" if event["fixed"] else "it did **not** last")


def _answered(_: Roster, event: Entry) -> str:
    each = [event["answer"], *event.get("also", [])]
    return "answers " + "; ".join(plain(", ".join(map(str, one.values()))) for one in each)


def _fired(_: Roster, event: Entry) -> str:
    what = Surprise.model_validate(event["surprise"])
    where = f" (to {plain(', '.join(what.seats))})" if what.seats else ""
    return f"the trainer lets come: {plain(what.text)}{where}"


def _joined(_: Roster, event: Entry) -> str:
    fault = event.get("fault")
    return f"second fault is there: `{fault}`" if fault else f"false lead: `{event['decoy']}`"


_SAID: dict[str, Callable[[Roster, Entry], str]] = {
    Event.BLOCK: lambda roster, e: f"block {e['block']} opens: {_title(roster, e['block'])}",
    Event.READY: lambda _, e: "a lab is ready, its symptom proven",
    Event.FAILED: lambda _, e: f"the lab failed: {plain(e.get('why', ''))}",
    Event.CHECKED: _checked,
    Event.LOOKED: _looked,
    Event.HINTED: lambda _, e: (
        f"gets hint {e['number']} from the trainer" if e.get("free") else "takes a hint"
    ),
    Event.ANSWERED: _answered,
    Event.GAVE_UP: lambda _, e: "gives up",
    Event.TIME_OVER: lambda _, e: "is out of time",
    Event.DISK_FULL: lambda _, e: "has filled the disk",
    Event.MOVED_ON: lambda _, e: "goes on to the next lab",
    Event.STARTING: lambda _, e: "a lab starts",
    Event.SET: lambda _, e: f"set for later: {plain(Surprise.model_validate(e['surprise']).text)}",
    Event.CALLED_OFF: lambda _, e: "a surprise is called off",
    Event.FIRED: _fired,
    Event.JOINED: _joined,
    Event.NOT_JOINED: lambda _, e: f"nothing has come: {plain(e['why'])}",
    Event.HAND: lambda _, e: "raises a hand" if e["up"] else "the hand is down",
}


def _title(roster: Roster, block: int) -> str:
    return plain(roster.plan.block[block - 1].title)


def _summary(roster: Roster, journal: Journal) -> Iterator[str]:
    every = [turn for seat in roster.seats for turn in seat.turns]
    repaired = sum(turn.state == "green" and not turn.gave_up for turn in every)
    began = next((e["t"] for e in journal.events if e["event"] == Event.OPENED), None)
    ended = next((e["t"] for e in journal.events if e["event"] == Event.ENDED), None)
    if began is not None:
        day = time.strftime("%Y-%m-%d", time.localtime(began))
        yield f"- on {day}, from {clock(began)} to {clock(ended) if ended else 'now'}"
    yield f"- {len(roster.seats)} seats; {repaired} of {len(every)} labs repaired"
    fired = [item for item in roster.agenda.items.values() if item.state == "fired"]
    for item in fired:
        there = sum(not why for why in item.came.values())
        came = "" if item.what.message else f", there at {there} of {len(item.turns)} seats"
        yield f"- {clock(item.at)} {plain(item.what.text)}{came}"


def _rows(seat: Seat, journal: Journal) -> Iterator[list[str]]:
    """Yield a row for each lab that a seat has begun, with the times of its events."""
    at = 1
    when: dict[int, dict[str, float]] = {}
    for event in journal.events:
        if event.get("seat") != seat.number:
            continue
        its = when.setdefault(int(event.get("turn", at)), {})
        t, fixed = float(event["t"]), event.get("fixed")
        match event["event"]:
            case Event.READY:
                its.setdefault("began", t)
            case Event.CHECKED:
                its.setdefault("checked", t)
                if fixed:
                    its["repaired"] = t
            case Event.LOOKED if not fixed:
                its.pop("repaired", None)
            case Event.JOINED if "fault" in event:
                its.pop("repaired", None)
            case Event.MOVED_ON:
                at = min(event.get("to", at + 1), len(seat.turns))
    for place, turn in enumerate(seat.turns[: seat.at + 1], 1):
        its = when.get(place, {})
        times = [clock(its[key]) if key in its else "" for key in ("began", "checked", "repaired")]
        counts = [str(turn.checks), str(len(turn.hints))]
        yield [plain(seat.name), f"`{turn.known}`", *times, *counts, WORDS[turn.state]]


def clock(t: float) -> str:
    """Return a time of the journal as a clock shows it, without rounding up."""
    return time.strftime("%H:%M:%S", time.localtime(t))


def _since(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def plain(words: Any) -> str:
    """Return text that Markdown shows as it is, in one cell of a table."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(words).split()))


def _played(plan: ClassPlan, journal: Journal) -> Roster:
    found = Roster(plan, journal.events[0]["labs"])
    for event in journal.events:
        found.apply(event)
    return found
