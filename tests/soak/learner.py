"""Learner: one participant, who types, breaks, repairs, asks and answers, over HTTP and WebSockets.

What the server has acknowledged is noted: it must be in the journal in the end, whatever plug was
pulled. What it has not answered can be there or not.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync import client
from websockets.typing import Origin

from faultlab.lab import loader as labs
from faultlab.lab import vocabulary
from tests.soak import script
from tests.soak.script import Act, Learner

PATIENCE = 330.0  # seconds for a check, which can wait for the checks of others
LISTENS = 1.5  # seconds that a learner looks at what a command prints
FILES = tuple(f"/static/{name}" for name in ("report.css", "workshop.css", "xterm.js", "seat.js"))
Acknowledged = Callable[..., None]  # takes the seat, the act, and its facts


@dataclass
class Told:
    """What all learners of a piece share: the links, what they have met, and when to end.

    `down`: when a plug was pulled last, by time.monotonic; until some time after that, a request
    without an answer is what was to be expected.
    """

    url: str
    cookie: str
    tokens: dict[int, str]  # of each seat, and of the trainer under 0
    labs: Sequence[str]
    note: Acknowledged
    over: threading.Event = field(default_factory=threading.Event)
    down: float = -1e9
    met: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def headers(self, seat: int) -> dict[str, str]:
        """Return what a browser sends that has opened the link of a seat."""
        return {"origin": self.url, "cookie": f"{self.cookie}={self.tokens[seat]}"}

    def count(self, what: str) -> None:
        """Count something that a learner has met."""
        with self._lock:
            self.met[what] += 1

    def amiss(self, what: str) -> None:
        """Note what must not happen."""
        with self._lock:
            self.wrong.append(what)

    def acknowledged(self, seat: int, act: str, **facts: Any) -> None:
        """Note what the server has said yes to."""
        with self._lock:
            self.note(seat, act, **facts)


class Seat:
    """The learner at one seat."""

    def __init__(self, number: int, told: Told, learner: Learner, recovers: float = 150.0) -> None:
        """Begin. `recovers`: seconds after a plug in which the server has to answer again."""
        self.number = number
        self.told = told
        self.script = learner
        self.recovers = recovers
        self.http = httpx.Client(timeout=PATIENCE, trust_env=False)
        self.view: dict[str, Any] = {}
        self.open: list[ExitStack] = []

    def loop(self) -> None:
        """Go on until the piece is over."""
        try:
            while not self.told.over.is_set():
                act = self.script.next(self.view.get("state", ""))
                if self.told.over.wait(act.after):
                    break
                self.act(act)
        finally:
            self.leave()

    def act(self, act: Act) -> None:
        """Do one thing, and look at the page as it is then."""
        try:
            self._do(act)
            self.look()
            self.told.count(act.name)
        except (httpx.HTTPError, WebSocketException, OSError, EOFError) as error:
            self.leave()
            self.told.count("without an answer")
            if time.monotonic() - self.told.down > self.recovers and not self.told.over.is_set():
                self.told.amiss(f"seat {self.number}: {act.name}: {type(error).__name__}: {error}")
        except Exception as error:  # a mistake in this script must be seen, not end one learner
            self.told.amiss(f"seat {self.number}: {act.name}: {error!r}")

    def _do(self, act: Act) -> None:
        dice = act.dice
        match act.name:
            case "type":
                self.type(self._machine(dice), dice.choice(script.LOOKS))
            case "break":
                self.type(self._machine(dice), dice.choice(script.BREAKS))
            case "reload":
                self.reload()
            case "terminals":
                for _ in range(dice.randint(2, 4)):
                    self.type(self._machine(dice), "uptime", listens=0.2)
                    self.told.over.wait(1.1)  # a seat opens one a second
            case "repair":
                self.repair()
            case "guess":
                self.answer(*(dice.choice(words) for words in self._words()))
            case "answer":
                truth = labs.load(self._lab()).truth
                self.answer(truth.component, truth.resource, truth.cause)
            case "restart" | "limit":
                self._host(act.name, dice)
            case "restore":
                self.restore()
            case "next":
                self.restore() if self.view.get("last") else self.press("next")
            case "check" | "hint" | "give up":
                self.press(act.name.replace(" ", "-"))

    def look(self) -> None:
        """Read the page's view, as the first event of its stream."""
        url, headers = f"{self.told.url}/seat/{self.number}/events", self._headers()
        with self.http.stream("GET", url, headers=headers, timeout=30) as answer:
            if not self._fine(answer, "look"):
                return
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    self.view = json.loads(line.removeprefix("data: "))
                    return

    def reload(self) -> None:
        """Fetch the page and its files, and drop the terminals, as a browser does."""
        self.leave()
        for path in (f"/seat/{self.number}", *FILES):
            answer = self.http.get(self.told.url + path, headers=self._headers(), timeout=30)
            self._fine(answer, "page")

    def press(self, button: str, **facts: str) -> bool:
        """Press a button of the page; return whether the server said yes."""
        turn = self.view.get("turn", 1)
        url = f"{self.told.url}/seat/{self.number}/{button}"
        answer = self.http.post(url, headers=self._headers(), json={"turn": turn, **facts})
        if not self._fine(answer, button):
            return False
        self.told.acknowledged(self.number, button, turn=turn, **facts)
        return True

    def restore(self) -> None:
        """Ask the trainer for a fresh stack, who then presses their button."""
        url = f"{self.told.url}/trainer/seat/{self.number}/restore"
        self._fine(self.http.post(url, headers=self.told.headers(0), json={}), "restore")

    def answer(self, component: str, resource: str, cause: str) -> None:
        """Give a diagnosis."""
        self.press("diagnose", component=component, resource=resource, cause=cause)

    def repair(self) -> None:
        """Do the documented fix, and check."""
        for step in labs.load(self._lab()).fix:
            if step.run:
                self.type(step.at, step.run)
            elif step.restart:
                self.press("restart", daemon=step.at)
            elif step.limit:
                self.press("limit", daemon=step.at, **step.limit.model_dump(exclude_none=True))
        self.press("check")

    def type(self, machine: str, command: str, listens: float | None = None) -> None:
        """Type a command into a new terminal of a machine, and read for a while what it prints."""
        url = f"{self.told.url.replace('http', 'ws', 1)}/seat/{self.number}/terminal/{machine}"
        terminal = ExitStack()
        try:
            shell = terminal.enter_context(
                client.connect(
                    url,
                    origin=Origin(self.told.url),
                    additional_headers={"cookie": self._headers()["cookie"]},
                    open_timeout=30,
                    close_timeout=2,
                    compression=None,
                    proxy=None,
                )
            )
        except InvalidStatus as refused:
            self._told(refused.response.status_code, "terminal")
            return
        # Dropped without a word, as by a browser that crashes.
        terminal.callback(shell.socket.close)
        self.open.append(terminal)
        shell.send(json.dumps({"columns": 100, "rows": 30}))
        shell.send(json.dumps({"input": f"{command}\r"}))
        until = time.monotonic() + (LISTENS if listens is None else listens)
        with suppress(TimeoutError, ConnectionClosed):
            while (left := until - time.monotonic()) > 0:
                shell.recv(timeout=left)
        if len(self.open) > 3:  # a page has few terminals; the oldest one goes
            self._close(self.open.pop(0))

    def leave(self) -> None:
        """Close the page: its terminals, and its connections."""
        while self.open:
            self._close(self.open.pop())
        self.http.close()
        self.http = httpx.Client(timeout=PATIENCE, trust_env=False)

    def _close(self, terminal: ExitStack) -> None:
        with suppress(Exception):
            terminal.close()

    def _headers(self) -> dict[str, str]:
        return self.told.headers(self.number)

    def _lab(self) -> str:
        return self.told.labs[int(self.view.get("turn", 1)) - 1]

    def _machine(self, dice: random.Random) -> str:
        return str(dice.choice(self.view.get("machines") or ["web"]))

    def _host(self, button: str, dice: random.Random) -> None:
        if daemons := self.view.get("daemons"):
            more = {"memory": dice.choice(("128m", "256m"))} if button == "limit" else {}
            self.press(button, daemon=dice.choice(daemons), **more)

    def _words(self) -> tuple[Sequence[str], ...]:
        return tuple(vocabulary.answers()[part] for part in ("component", "resource", "cause"))

    def _fine(self, answer: httpx.Response, what: str) -> bool:
        return self._told(answer.status_code, what)

    def _told(self, status: int, what: str) -> bool:
        """Return whether the server said yes. It can say "not now" and "not so often"."""
        if status in (401, 404) or status >= 500:
            self.told.amiss(f"seat {self.number}: {what}: {status}")
        elif status >= 400:
            self.told.count(f"{what}: {status}")
        return status < 400
