"""Report: what a shift's journal says about each fault that came, and about who was on call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from faultlab.core.terminal import Terminal
from faultlab.lab import loader as labs
from faultlab.lab.collection import Collection
from faultlab.lab.model import Lab, Truth
from faultlab.oncall.journal import Event


@dataclass(frozen=True)
class Incident:
    """One fault that came. Times in seconds: `came` since the shift began, the others since a page.

    `looked`: until a shell on a machine where it is; `named`: until the right diagnosis;
    `repaired`: until users did not meet it any more. None: that never was. `itself`: it went by
    itself. `lost`: the visits that failed while it was there.
    """

    fault: str
    came: float
    paged: float | None = None
    looked: float | None = None
    named: float | None = None
    repaired: float | None = None
    itself: bool = False
    lost: int = 0


@dataclass(frozen=True)
class Report:
    """A shift: its run, how long it took, each fault, and the visits and answers in it.

    `false`: the answers that named no fault that was there.
    """

    run: str
    seed: int
    seconds: float
    incidents: list[Incident]
    visits: int
    lost: int
    answers: int
    false: int
    amiss: list[str]


def made(run: str, events: Sequence[dict[str, Any]], its: Collection) -> Report:
    """Return the report of a journal."""
    began = events[0]
    ended = next((e["t"] for e in events if e["event"] == Event.ENDED), events[-1]["t"])
    answers = [e for e in events if e["event"] == Event.ANSWERED]
    visited = [e for e in events if e["event"] == Event.VISITED]
    incidents = [
        _incident(came, events, its, began["t"], ended)
        for came in events
        if came["event"] == Event.CAME
    ]
    fits = [
        any(_names(answer, _truth(its, e["fault"])) for e in _there(events, answer["t"], ended))
        for answer in answers
    ]
    return Report(
        run,
        began["seed"],
        round(ended - began["t"], 1),
        incidents,
        sum(e["visits"] for e in visited),
        sum(e["lost"] for e in visited),
        len(answers),
        fits.count(False),
        [e["text"] for e in events if e["event"] == Event.AMISS],
    )


def _incident(
    came: dict[str, Any],
    events: Sequence[dict[str, Any]],
    its: Collection,
    began: float,
    ended: float,
) -> Incident:
    number, truth = came["number"], _truth(its, came["fault"])
    own = {e["event"]: e["t"] for e in reversed(events) if e.get("number") == number}
    paged = own.get(Event.FELT)
    over = _over(events, number, ended)
    machines = {truth.component, *_homes(its, came["fault"], truth)}

    def since(times: list[float]) -> float | None:
        inside = [t for t in times if paged is not None and paged <= t <= over]
        return round(inside[0] - paged, 1) if inside and paged is not None else None

    looked = [e["t"] for e in events if e["event"] == Event.LOOKED and e["machine"] in machines]
    named = [e["t"] for e in events if e["event"] == Event.ANSWERED and _names(e, truth)]
    lost = [e["lost"] for e in events if e["event"] == Event.VISITED and came["t"] < e["t"] <= over]
    return Incident(
        came["fault"],
        round(came["t"] - began, 1),
        round(paged - came["t"], 1) if paged is not None else None,
        since(looked),
        since(named),
        since([own[Event.CLEAR]]) if Event.CLEAR in own else None,
        Event.WENT in own,
        sum(lost),
    )


@dataclass(frozen=True)
class Page:
    """A page of a shift: its number, when it came, its ticket, and whether it is over."""

    number: int
    t: float
    ticket: str
    over: bool


def pages(events: Sequence[dict[str, Any]], its: Collection) -> list[Page]:
    """Return the pages of a shift so far, the newest first."""
    ends = {e["number"] for e in events if e["event"] in (Event.CLEAR, Event.WENT)}
    felt = [e for e in events if e["event"] == Event.FELT]
    return [
        Page(e["number"], e["t"], _lab(its, e["fault"]).ticket, e["number"] in ends)
        for e in reversed(felt)
    ]


def _over(events: Sequence[dict[str, Any]], number: int, ended: float) -> float:
    """Return when a fault was gone, by a repair or by itself; else the end of the shift."""
    ends = (Event.CLEAR, Event.WENT)
    return next((e["t"] for e in events if e.get("number") == number and e["event"] in ends), ended)


def _there(events: Sequence[dict[str, Any]], when: float, ended: float) -> list[dict[str, Any]]:
    """Return the comings of the faults that were there at a time."""
    came = [e for e in events if e["event"] == Event.CAME]
    return [e for e in came if e["t"] <= when <= _over(events, e["number"], ended)]


@cache  # each view of a page asks for them, and each answer for each fault
def _lab(its: Collection, fault: str) -> Lab:
    return labs.load_in(its, fault)


def _truth(its: Collection, fault: str) -> Truth:
    return _lab(its, fault).truth


def _homes(its: Collection, fault: str, truth: Truth) -> list[str]:
    """Return the machine of a daemon that is at fault; none if the component is a machine."""
    home = _lab(its, fault).services.daemons.get(truth.component)
    return [home] if home else []


def _names(answer: dict[str, Any], truth: Truth) -> bool:
    return all(answer.get(part) == word for part, word in truth.model_dump().items())


def show(term: Terminal, report: Report) -> None:
    """Print a report."""

    def said(seconds: float | None) -> str:
        return "-" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02}"

    term.heading(f"The shift of {said(report.seconds)} min (seed {report.seed}, run {report.run})")
    rows = [
        (
            each.fault,
            said(each.came),
            said(each.paged),
            said(each.looked),
            said(each.named),
            "by itself" if each.itself else said(each.repaired),
            str(each.lost),
        )
        for each in report.incidents
    ]
    term.table(("fault", "came", "paged", "looked", "named", "repaired", "lost"), rows)
    share = report.lost / report.visits if report.visits else 0.0
    term.say(f"{report.lost} of {report.visits} visits were lost ({share:.1%}).")
    term.say(f"{report.answers} answers, {report.false} of them about a fault that was not there.")
    for text in report.amiss:
        term.say(f"Amiss: {text}")
    term.say("came: since the shift began; paged: after it came; the rest: after the page.")
