"""A class on a server in the process of the tests: the real server, on loopback, without Docker.

Stacks that say what a test wants take the place of the command line, and a pair of sockets that of
a shell in a container.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync import client
from websockets.typing import Origin

from faultlab.core.events import Step
from faultlab.core.processes import Outcome
from faultlab.engine.docker.docker_list import Part
from faultlab.lab import loader as labs
from faultlab.learn import hints
from faultlab.workshop import connections
from faultlab.workshop.access import TRAINER, Keys
from faultlab.workshop.guard import Guard
from faultlab.workshop.journal import Journal
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import Roster, Seat
from faultlab.workshop.session import Session
from faultlab.workshop.site import Site
from faultlab.workshop.stacks import Stacks
from tests.waiting import until

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # httpx would read all authorities at each request
FOUND = [{"name": "pages", "value": 0, "unit": "", "wanted": "at least 57", "holds": False}]


def planned(**facts: Any) -> ClassPlan:
    whole = {"title": "Tuesday", "seats": ["Ada", "Grace", "Linus"], "labs": ["mtu", "somaxconn"]}
    return ClassPlan.model_validate({"id": "class", **whole, **facts})


RIGHT = {"component": "web", "resource": "network", "cause": "mtu"}
Happened = tuple[float, str, dict[str, Any]]


def roster(*events: Happened, **facts: Any) -> Roster:
    """Return what these events lead to."""
    found = Roster(planned(**facts), [["mtu", "somaxconn"]] * 3)
    for t, what, more in events:
        found.apply({"t": t, "event": what, **more})
    return found


class FakeStacks(Stacks):
    """Stacks whose commands say at once what a test wants."""

    def __init__(self, plan: ClassPlan) -> None:
        super().__init__(plan)
        self.well: set[int] = set()
        self.full: set[int] = set()
        self.acted: list[tuple[int, str, Any]] = []
        self.slow = 0.01
        self.outcome = Outcome(0)
        self.ran: list[tuple[int, tuple[str, ...]]] = []
        self.found = FOUND  # by a check
        self.steps: list[Step] = []  # of a check, each after a while
        self.there: dict[str, dict[str, Part]] | None = None
        self.visitor: Callable[..., None] | None = None

    async def run(self, seat: Seat, *words: str, seconds: float = 0, hear: Any = None) -> Outcome:
        self.ran.append((seat.number, words))
        for step in self.steps if words[0] == "check" else ():
            hear(step)
            await asyncio.sleep(self.slow)
        await asyncio.sleep(self.slow)
        if words[0] == "check":
            well = seat.number in self.well
            if "--late" in words and self.outcome.code:
                return self.outcome
            return Outcome(0, {"verdict": "pass" if well else "fail", "findings": self.found})
        return self.outcome

    def parts(self) -> dict[str, dict[str, Part]] | None:
        return super().parts() if self.there is None else self.there

    async def hint(self, seat: Seat) -> int | None:
        lab = labs.load(seat.turn.lab)
        return hints.following(lab, seat.turn.next_hints(), dict)

    async def too_large(self, seats: Iterable[Seat]) -> list[Seat]:
        return [seat for seat in seats if seat.number in self.full]

    async def cut_off(self, seat: Seat) -> None:
        self.full.discard(seat.number)

    async def act(self, seat: Seat, daemon: str, act: Any) -> None:
        def note(what: Any) -> None:
            self.acted.append((seat.number, daemon, what))

        act(SimpleNamespace(restart=lambda: note("restart"), limit=lambda *most: note(most)))

    def visits(self, seat: Seat, begun: Any, hear: Any, over: threading.Event) -> None:
        """Be the visitor that a test has made up; none by default, and nothing is shown."""
        if self.visitor:
            self.visitor(seat, begun, hear, over)

    def terminal(self, seat: Seat, machine: str) -> Mirror:
        return Mirror(f"{self.name(seat)}-{machine}")


class Fake(Session):
    """A session that knows what its journal says."""

    stacks: FakeStacks

    def __init__(self, folder: Path, **facts: Any) -> None:
        journal = Journal(folder / "events.jsonl")
        found = Roster(planned(**{"later": 0, **facts}), [["mtu", "somaxconn"]] * 3)
        for event in journal.events:
            found.apply(event)
        super().__init__(found.plan, found, journal, FakeStacks(found.plan))


class Mirror:
    """In place of a shell: it says back what it hears."""

    opened: list[str] = []  # noqa: RUF012
    last: Mirror
    first = b""
    is_gone = False

    def __init__(self, container: str) -> None:
        self.opened.append(container)
        self.ours, self.its = socket.socketpair()
        Mirror.last = self

    def open(self) -> socket.socket:
        self.ours.setblocking(False)
        threading.Thread(target=self._echo, daemon=True).start()
        return self.ours

    def _echo(self) -> None:
        with suppress(OSError):
            while heard := self.its.recv(65536):
                self.its.sendall(heard)

    def flood(self, size: int) -> None:
        with suppress(OSError):
            self.its.sendall(bytes(size))

    def resize(self, columns: int, rows: int) -> None:
        self.its.sendall(f"{columns}x{rows}".encode())

    def ended(self) -> bool:
        return self.is_gone

    def close(self) -> None:
        self.its.close()
        self.ours.close()


class Served:
    """A class on a port of loopback, and its clients."""

    def __init__(
        self,
        session: Fake,
        keys: Keys,
        port: int,
        site: Site,
        front: connections.Server,
        *,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.session = session
        self.stacks = session.stacks
        self.site = site
        self.keys = keys
        self.port = port
        self.front = front
        self.loop = loop
        self.url = f"http://127.0.0.1:{port}"

    def headers(self, who: int | str | None, **more: str) -> dict[str, str]:
        token = self.keys.token(who) if isinstance(who, int) else who
        cookie = {"cookie": f"faultlab-{self.session.plan.id}={token}"} if token is not None else {}
        return {"origin": self.url, **cookie, **more}

    def get(self, who: int | str | None, path: str, **headers: str) -> httpx.Response:
        headers = self.headers(who, **headers)
        return httpx.get(self.url + path, headers=headers, timeout=10, verify=NO_TLS)

    def post(
        self, who: int | str | None, path: str, facts: Any = None, **headers: str
    ) -> httpx.Response:
        body = facts if isinstance(facts, bytes) else json.dumps(facts or {}).encode()
        headers = self.headers(who, **headers)
        url = self.url + path
        return httpx.post(url, content=body, headers=headers, timeout=10, verify=NO_TLS)

    def terminal(self, who: int | str | None, path: str, **headers: str) -> Any:
        facts = self.headers(who, **headers)
        origin = facts.pop("origin", None)
        return client.connect(
            f"ws://127.0.0.1:{self.port}{path}",
            origin=Origin(origin) if origin is not None else None,
            additional_headers=facts,
            open_timeout=10,
            compression=None,
        )

    @property
    def held(self) -> int:
        """Return how many connections the server has."""
        return len(self.front.places.all)

    def connect(self, sent: bytes = b"", **options: int) -> socket.socket:
        """Return a connection on which something was sent."""
        line = socket.socket()
        for name, value in options.items():
            line.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        line.settimeout(10)
        line.connect(("127.0.0.1", self.port))
        line.sendall(sent)
        return line

    def head(self, who: int | str | None, first: str, **more: str) -> bytes:
        """Return the head of a request, as it is sent."""
        facts = {"Host": f"127.0.0.1:{self.port}", **self.headers(who), **more}
        lines = "".join(f"{name}: {value}\r\n" for name, value in facts.items())
        return f"{first}\r\n{lines}\r\n".encode()

    def upgrade(self, who: int | str | None, path: str) -> bytes:
        """Return the request with which a page asks for a terminal, as it is sent."""
        return self.head(
            who,
            f"GET {path} HTTP/1.1",
            **{
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            },
        )

    def status(self, who: int | str | None, path: str, **headers: str) -> int:
        """Return the status with which a terminal is refused."""
        with pytest.raises(InvalidStatus) as caught, self.terminal(who, path, **headers):
            pass
        return int(caught.value.response.status_code)

    @contextmanager
    def events(self, who: int, path: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The views that a page gets, one after the other."""
        url, headers = self.url + path, self.headers(who)
        with httpx.stream("GET", url, headers=headers, timeout=10, verify=NO_TLS) as answer:
            assert answer.status_code == 200, answer.read()
            lines = answer.iter_lines()
            yield (json.loads(line[6:]) for line in lines if line.startswith("data: "))

    def wait(self, seat: int, state: str, at: int | None = None) -> None:
        """Until the seat is in this state; `at`: of this turn, for a state may be gone at once."""
        found = self.session.roster.seat(seat)
        until(lambda: found.turn.state == state and at in (None, found.at), shown=found)


@contextmanager
def served(
    folder: Path,
    tls: tuple[str | None, str | None] = (None, None),
    *,
    apart: float = 0.01,
    patience: float = 10,
    **facts: Any,
) -> Iterator[Served]:
    """Serve a class of three whose labs are up; its clock and its terminals are quick.

    `apart`: seconds between two terminals of a seat. `patience`: those of a connection.
    """
    Mirror.opened.clear()
    session = Fake(folder, **facts)
    keys = Keys(folder / "keys.json", session.journal.now)
    keys.make([TRAINER, 1, 2, 3], 1)
    line = socket.create_server(("127.0.0.1", 0), backlog=1024)
    ready = threading.Event()
    guard = Guard(session, keys, ["127.0.0.1", "localhost"], bool(tls[0]))
    site = Site(session, keys, guard, folder / "alive")
    site.ticks, site.terminals.apart = 0.1, apart
    front = connections.Server(site.app(), 3, *tls, ready.set)
    front.places.patience = patience
    loop = asyncio.new_event_loop()

    def serve() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(front.serve(sockets=[line]))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(10)
        it = Served(session, keys, line.getsockname()[1], site, front, loop=loop)
        for seat in (1, 2, 3):
            before = facts.get("block") and not session.roster.timetable.at
            it.wait(seat, "prepared" if before else "red")
        yield it
    finally:
        front.stop()
        thread.join(10)
        line.close()
    assert not thread.is_alive()
