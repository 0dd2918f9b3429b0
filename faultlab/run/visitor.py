"""Visitor: a user who opens the pages of a lab about once a second, while somebody watches.

It sends one request at a time, each on a connection of its own and with a deadline, from the users'
machine. It pauses while a command works on the stack or has the machine for a load, so it never
disturbs a look. A stack has one, whatever number of commands and pages show it: the one that holds
its lock visits, and the others read its file. visitor.pl, which runs curl, ends with its input.
"""

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

from faultlab.core import lock, paths, text
from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Talk
from faultlab.engine.stack import Stack
from faultlab.lab import browser
from faultlab.run import visit
from faultlab.run.visit import Page, Visit

FILE = "visits.jsonl"
Hear = Callable[[Visit], object]
_EVERY = 1.0  # seconds from one visit to the next
_REST = 0.2  # seconds between two visits, at least
_GLANCE = 0.1  # seconds between two looks at the locks
_SIGN = 3.0  # seconds between signs of life in a pause
_SILENCE = 15  # seconds without one after which visitor.pl ends
_GRACE = 5.0  # seconds that a visit can take beyond its deadline
_TAIL, _LARGE = 1 << 16, 1 << 20  # bytes of the file: what a viewer reads first, and the most
_PROGRAM = Path(__file__).with_suffix(".pl")


class Visitor:
    """The visitor of one stack. `busy` tells whether it has to pause."""

    def __init__(self, stack: Stack, pages: Sequence[Page], busy: Callable[[], bool]) -> None:
        self._stack = stack
        self._pages = pages
        self._busy = busy
        self._numbers = itertools.count(1)

    def go(self, hear: Hear, over: threading.Event) -> None:
        """Visit until it is over. Raises CannotRun if the stack is gone."""
        program = ["perl", "-e", _PROGRAM.read_text(), str(_SILENCE)]
        with self._stack.users().talk(program) as talk:
            said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
            threading.Thread(target=_listen, args=(talk, said), daemon=True).start()
            for page in itertools.cycle(self._pages):
                self._wait_until_free(talk, over)
                if over.is_set():
                    return
                began = time.monotonic()
                if found := self._visited(page, talk, said, over):
                    hear(found)
                over.wait(max(_REST, began + _EVERY - time.monotonic()))

    def _wait_until_free(self, talk: Talk, over: threading.Event) -> None:
        waits = 0
        while self._busy() and not over.wait(_GLANCE):
            if waits % round(_SIGN / _GLANCE) == 0:
                talk.send(b"\n")
            waits += 1

    def _visited(
        self,
        page: Page,
        talk: Talk,
        said: "queue.SimpleQueue[str | None]",
        over: threading.Event,
    ) -> Visit | None:
        """Open a page; None if that was broken off. Raises CannotRun if the machine is gone."""
        number, at, began = str(next(self._numbers)), time.time(), time.monotonic()
        talk.send(request(number, page))
        ended = False
        while time.monotonic() - began < page.seconds + _GRACE:
            with suppress(queue.Empty):
                told = said.get(timeout=_GLANCE)
                if told is None:
                    break
                its, _, result = told.partition(" ")
                if its == number:
                    return None if ended else visit.parse(result, page, at)
            if not ended and (over.is_set() or self._busy()):
                talk.send(b"stop\n")
                ended = True
        raise CannotRun(f"The users' machine of {self._stack.name} is gone.", "faultlab status")


def _listen(talk: Talk, said: "queue.SimpleQueue[str | None]") -> None:
    for told in text.lines(talk.output):
        said.put(told)
    said.put(None)


def request(number: str, page: Page) -> bytes:
    """Return the line for visitor.pl that opens a page as a browser does."""
    # As the probes do. With curl's own list of encodings a request is longer than a segment of 256
    # bytes. Then the kernel hands it over whole, and a veth lets that pass whatever its MTU (mtu).
    headers = ["Accept-Encoding: gzip", *browser.headers(Random().randint(0, 29))]
    sent = [f"-H{header}" for header in headers]
    told = r"-w%{http_code} %{exitcode} %{time_total}\n"
    words = ["-qs", "-o/dev/null", f"-m{page.seconds:g}", told, *sent, page.url]
    return ("\t".join((number, *words)) + "\n").encode()


class Tail:
    """The end of a file of visits, which another process may write."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._at: int | None = None  # up to which byte it was read
        self._last = 0.0  # when the last visit that was read began

    def new(self) -> Iterator[Visit]:
        """Yield the visits since the last time, at first those of the last minutes."""
        try:
            size = self._file.stat().st_size
            if self._at is None or size < self._at:  # also after its beginning was dropped
                self._at = max(0, size - _TAIL)
            with self._file.open("rb") as lines:
                lines.seek(self._at)
                whole = lines.read().rpartition(b"\n")[0]
        except OSError:  # no visit yet
            return
        self._at += len(whole) + bool(whole)
        for each in filter(None, map(visit.read, whole.decode(errors="replace").splitlines())):
            if each.at > self._last:
                self._last = each.at
                yield each


def follow(
    stack: Stack, pages: Sequence[Page], folder: Path, hear: Hear, over: threading.Event
) -> None:
    """Let `hear` get each visit to a stack until it is over. Raises CannotRun if it is gone.

    `folder`: of its run. Visits of the last minutes come first, if another has seen them.
    """
    file = folder / FILE
    tail = Tail(file)

    def all_new(_: object = None) -> None:
        for each in tail.new():
            hear(each)

    def keep(found: Visit) -> None:
        _add(file, visit.line(found))
        all_new()

    while not over.is_set():
        all_new()
        with ExitStack() as mine:
            try:
                mine.enter_context(lock.hold(f"visits-{stack.name}", "top"))
            except lock.Held:  # another command or page visits
                stack.users()
            else:
                all_new()
                Visitor(stack, pages, lambda: lock.looks(stack.name, stack.slot)).go(keep, over)
        over.wait(_EVERY)


def _add(file: Path, told: str) -> None:
    """Add a line. It is no part of a proof, so it need not be on the disk at once."""
    try:
        if file.exists() and file.stat().st_size > _LARGE:
            kept = file.read_bytes()[-_TAIL:].partition(b"\n")[2]
            paths.write_whole(file, kept.decode(errors="replace"))
        with file.open("a") as lines:
            lines.write(told + "\n")
    except OSError as error:
        raise paths.unwritable(file, error) from error
