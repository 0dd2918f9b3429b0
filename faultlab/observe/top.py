"""Top: what the users of a lab meet, live, with the map of its stack and what fell when."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median

from rich.live import Live
from rich.text import Text

from faultlab.core import events, lock
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.core.text import number
from faultlab.engine.docker import docker_list
from faultlab.engine.stack import Stack
from faultlab.lab.model import Lab
from faultlab.observe.watch import spark
from faultlab.run import placement, visit, visitor
from faultlab.run.mark import Mark, Marks, Restarts
from faultlab.run.run import Run
from faultlab.run.visit import LATELY, Page, Share, Visit

_EVERY = 1.0  # seconds from one picture to the next
_KEPT = 300.0  # seconds in a picture
_COLUMNS = 60  # of a picture, each of five seconds
_LABEL = 9  # columns before it
_MOST = 8  # things that fell, below the map
_SLOW = 5  # pictures for which the states of an engine count that is asked machine by machine
_RUNNING = "running"


@dataclass(frozen=True)
class Part:
    """A machine, or a daemon that has joined one. `state`: such as running, or exited 137."""

    name: str
    joins: str
    state: str


@dataclass(frozen=True)
class Second:
    """A moment, as `top` shows it. `visit`: the last one, if it ended since the line before.

    `share`: of the last visits. `pauses`: no visit is made, because a command works on the stack
    or has the machine for a load. `fell`: since the line before.
    """

    t: float
    lab: str
    visit: Visit | None
    share: Share
    pauses: bool
    parts: list[Part]
    fell: list[Mark]


@dataclass
class _Seen:
    """All that has been seen so far, by the thread that visits and by the one that draws."""

    lab: Lab
    pages: list[Page]
    guard: threading.Lock = field(default_factory=threading.Lock)
    visits: deque[Visit] = field(default_factory=lambda: deque(maxlen=int(_KEPT)))
    marks: list[Mark] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    pauses: bool = False

    def hear(self, found: Visit) -> None:
        with self.guard:
            self.visits.append(found)

    def lately(self) -> list[Visit]:
        with self.guard:
            return [*self.visits]


def top(term: Terminal, lab_id: str, seconds: float | None, as_json: bool) -> Second:
    """Show what users meet until Ctrl-C or for some seconds, and return what was shown last.

    Raises CannotRun if the lab goes away.
    """
    if seconds is not None and not 1 <= seconds <= 86400:
        raise BadInput(f"--seconds takes 1 to 86400, not {seconds:g}.", f"faultlab top {lab_id}")
    lab = placement.standing(lab_id)
    run = Run.attach(placement.up(lab.alias), lab)
    seen, over = _Seen(lab, visit.pages(lab, run.check)), threading.Event()
    visits = threading.Thread(target=_visit, args=(run, seen, over), daemon=True)
    began = time.monotonic()
    last = Second(0.0, lab.alias, None, visit.share([]), False, [], [])
    end = began + (seconds if seconds is not None else math.inf)
    if seen.pages:
        visits.start()
    try:
        with _screen(term, seen, as_json) as draw:
            for last in _seconds(run, seen, began, end):
                draw(last)
    except KeyboardInterrupt:
        pass  # the usual way to end it
    finally:
        over.set()
        if seen.pages:
            visits.join(2)
    if not as_json:
        said = visit.share(seen.lately()).words if seen.pages else "its users open no page"
        term.say(f"Ended after {time.monotonic() - began:.0f} s: {said}.")
    return last


def _visit(run: Run, seen: _Seen, over: threading.Event) -> None:
    while not over.is_set():
        with suppress(CannotRun):  # the thread that draws finds out if the stack is gone
            visitor.follow(run.stack, seen.pages, run.record.folder, seen.hear, over)
        over.wait(_EVERY)


def _seconds(run: Run, seen: _Seen, began: float, end: float) -> Iterator[Second]:
    """Yield what there is to show, once a second. Raises CannotRun when the stack is gone."""
    record, restarts, restarted = Marks(run.record.id), Restarts(), list[Mark]()
    shown, told = 0.0, set[Mark]()
    for count in range(10**9):
        due = began + count * _EVERY
        time.sleep(max(0.0, min(due, end) - time.monotonic()))
        if due > end:
            return
        parts = _parts(run, slow=count % _SLOW > 0)
        if parts is not None:
            seen.parts = [part for part, _ in parts]
            restarted += restarts.seen((part.name, at) for part, at in parts)
        seen.marks = sorted([*record.now(), *restarted], key=lambda mark: mark.at)
        seen.pauses = bool(seen.pages) and lock.looks(run.stack.name, run.stack.slot)
        lately = seen.lately()
        last = lately[-1] if lately and lately[-1].at > shown else None
        shown = last.at if last else shown
        fell = [mark for mark in seen.marks if mark not in told]
        told.update(fell)
        share = visit.share(lately[-LATELY:])
        t = round(time.monotonic() - began, 1)
        yield Second(t, seen.lab.alias, last, share, seen.pauses, seen.parts, fell)


def _parts(run: Run, *, slow: bool) -> list[tuple[Part, float]] | None:
    """Return the parts of the stack, and when each started; 0 for long ago, None for as before.

    Docker lists all of them at once. Another engine is asked machine by machine, so rarely: not
    if `slow`. Raises CannotRun if the stack is gone.
    """
    lab, name = run.lab, run.stack.name
    plan, wanted = lab.services, lab.services.needed(lab.daemons)
    listed = docker_list.stacks() if run.engine.name == "local" else None
    if listed is None:
        if slow:
            return None
        stack = Stack(run.engine, name)
        found = {one: stack[one].state for one in wanted if one in stack}
        state = {
            one: _RUNNING if its.running else f"exited {its.exit_code}"
            for one, its in found.items()
        }
        began = {one: _moment(its.started) for one, its in found.items()}
    else:
        now, parts = time.time(), listed.get(name, {})
        state = {one: parts[one].state for one in wanted if one in parts}
        ages = {one: parts[one].up for one in state}
        began = {one: 0.0 if age is None else now - age for one, age in ages.items()}
    if not state:
        raise CannotRun(f"{lab.alias} is not up any more.", lab.to_start)
    return [
        (Part(one, plan.daemons.get(one, ""), state.get(one, "gone")), began.get(one, 0.0))
        for one in wanted
    ]


def _moment(started: str) -> float:
    try:
        return datetime.fromisoformat(started[:19] + "+00:00").timestamp()
    except ValueError:
        return 0.0


@contextmanager
def _screen(term: Terminal, seen: _Seen, as_json: bool) -> Iterator[Callable[[Second], None]]:
    """Show a picture that stays in its place, or lines where the cursor cannot move."""
    if as_json:
        yield lambda now: print(events.text(now), flush=True)
    elif term.console.is_terminal:
        with Live(console=term.console, auto_refresh=False, transient=True) as live:
            yield lambda now: live.update(Text("\n").join(picture(now, seen)), refresh=True)
    else:
        yield lambda now: term.say("\n".join(plain(now, seen)))


def plain(now: Second, seen: _Seen) -> list[str]:
    """Return the lines for a pipe: the visit, and what fell since the line before."""
    if now.visit:
        what = f"{now.visit.words:<36} {now.share.words}"
    elif not seen.pages:
        what = ", ".join(f"{part.name} {part.state}" for part in now.parts)
    else:
        what = "pauses, because a look is taken" if now.pauses else "no response yet"
    return [f"{now.t:6.0f} s  {what}"[:80], *(f"          {one.what}" for one in now.fell)]


def picture(now: Second, seen: _Seen) -> list[Text]:
    """Return the lines of a screen of 80x24."""
    lines = [Text(f"{seen.lab.alias}: what its users meet", style="bold")]
    if seen.pages:
        names = list(dict.fromkeys(page.name for page in seen.pages))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines += [Text(f"A user opens {names[0][:48]}{more} about once a second."), Text()]
        lines += _drawn(seen, time.time())
        how = now.share.words + ("; pauses, because a look is taken" if now.pauses else "")
        lines += [Text(f"{'now':<{_LABEL}}{how}"), Text()]
    else:
        lines += [Text("Its users open no page, so no visit is made."), Text()]
    for machine in (part for part in now.parts if not part.joins):
        line = Text(f"{machine.name:<{_LABEL}}")
        line.append_text(_said(machine.state))
        for daemon in (part for part in now.parts if part.joins == machine.name):
            line.append(f"   {daemon.name} ")
            line.append_text(_said(daemon.state))
        lines.append(line)
    lines.append(Text())
    for mark in seen.marks[-_MOST:]:
        lines.append(Text(f"{time.strftime('%H:%M:%S', time.localtime(mark.at))}  {mark.what}"))
    lines.append(Text("Ctrl-C ends it."))
    for line in lines:
        line.truncate(80)
    return lines[:23]


def _said(state: str) -> Text:
    return Text(state, style="" if state == _RUNNING else "bold red")


def _drawn(seen: _Seen, now: float) -> list[Text]:
    """Return the lines of the last minutes: the share, the time, and what fell where."""
    width = _KEPT / _COLUMNS
    columns: list[list[Visit]] = [[] for _ in range(_COLUMNS)]
    for one in seen.lately():
        back = int((now - one.at) // width)
        if 0 <= back < _COLUMNS:
            columns[-1 - back].append(one)
    shares = [_share(each) for each in columns]
    times = [median(v.seconds for v in each) if each else None for each in columns]
    fell = [" "] * _COLUMNS
    for mark in seen.marks:
        back = int((now - mark.at) // width)
        if 0 <= back < _COLUMNS:
            fell[-1 - back] = mark.letter
    longest = max((each for each in times if each is not None), default=0.0)
    rows = [
        ("served", spark([100.0, *shares], _COLUMNS + 1)[1:], "of 100 %"),
        ("time", spark(times, _COLUMNS), f"to {number(float(f'{longest:.2g}'), 's')}"),
        ("fell", "".join(fell), ""),
        ("", f"{'5 minutes ago':<{_COLUMNS - 3}}now", ""),
    ]
    return [Text(f"{name:<{_LABEL}}{line} {what}".rstrip()) for name, line, what in rows]


def _share(visits: Sequence[Visit]) -> float | None:
    return 100 * sum(one.served for one in visits) / len(visits) if visits else None
