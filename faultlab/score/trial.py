"""Trial: one tool, once, on one stack: its containers, its output, and how they end.

A tool runs in its own image, in the namespaces of the machine that it looks from. It sees that
machine's files and nothing of ours: no Docker socket, no folder of the host. Its output, memory,
processes and time are limited. What it used is read from its cgroup when it has ended.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from shlex import quote
from typing import Literal

from faultlab.core import archive
from faultlab.core.errors import CannotRun, Problem
from faultlab.engine.contract import Engine, Machine, Part, Process, Program
from faultlab.engine.stack import Stack
from faultlab.lab import asks, checks
from faultlab.lab.model import Lab
from faultlab.observe.use import table as use
from faultlab.probes import cgroup
from faultlab.score import diagnosis
from faultlab.score.diagnosis import Broken, Diagnosis, InstanceEnd, Said
from faultlab.score.tool import SERVERS, STACK, Alerts, Tool

Kind = Literal["diagnosis", "unknown", "absent"]

_MOST_OUTPUT = 1_000_000  # bytes of one instance
_GRACE = 5.0  # seconds beyond its window for a tool that ends by itself
_POLL = 1.0  # seconds between looks at its alerts
_MEMORY = "1g"
_PROCESSES = 512
_BUNDLE = "/bundle"  # where a bundle is unpacked for a tool, which reads its current folder
URLS = "etc/urls"  # in the container of a tool that looks: each page of the users, and its seconds
_KILLED = 128 + 9
_STOPPED = (124, _KILLED)  # by `timeout`
# Runs a command, then prints $0 and what the container has used on standard error.
_METERED = f'"$@"; code=$?; printf "\\n%s\\n" "$0" >&2; {{ {cgroup.SPENT}; }} >&2; exit $code'


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial: a diagnosis, or the reason for none, or no machine to look from.

    `cpu`: the CPU seconds of all instances; `memory`: the bytes of the largest. None if unknown.
    `printed`: what all instances printed, whatever came of it.
    """

    kind: Kind
    diagnosis: Diagnosis | None = None
    reason: str = ""
    cpu: float | None = None
    memory: int | None = None
    printed: list[Said] = field(default_factory=list, compare=False)


def seen_from(tool: Tool, stack: Stack) -> list[str]:
    """Return the machines of this stack that the tool looks from."""
    machines = [machine.name for machine in stack.machines]
    if STACK in tool.at:
        return machines
    servers = [name for name in machines if name != stack.client] if SERVERS in tool.at else []
    return [name for name in machines if name in tool.at or name in servers]


def examine(stack: Stack, lab: Lab, tools: Sequence[Tool], cpus: str = "") -> dict[str, Outcome]:
    """Let tools look at a stack, side by side, and return what each of them said.

    `cpus`: those that the tools can use; empty for all.
    """
    pool = ThreadPoolExecutor(max_workers=max(1, len(tools)))
    try:
        waiting = {tool.id: pool.submit(_examine, stack, lab, tool, cpus) for tool in tools}
        return {tool_id: future.result() for tool_id, future in waiting.items()}
    finally:  # if we are stopped, do not wait for a window: remove the containers at once
        pool.shutdown(wait=False, cancel_futures=True)


def _examine(stack: Stack, lab: Lab, tool: Tool, cpus: str) -> Outcome:
    machines, printed = seen_from(tool, stack), list[Said]()
    if not machines:
        return Outcome("absent", reason=f"no machine called {' or '.join(tool.at)} is there")
    try:
        if STACK in tool.at:
            found = Outcome("diagnosis", _use(stack, lab, tool, machines, printed))
        else:
            urls = _urls(stack, lab)
            look = partial(_instance, tool, stack, urls=urls, cpus=cpus, printed=printed)
            with ThreadPoolExecutor(max_workers=len(machines)) as pool:
                found = _outcome(tool, list(pool.map(look, machines)))
    except (Broken, Problem) as problem:
        found = Outcome("unknown", reason=str(problem))
    except Exception as error:  # if one tool breaks, the others still have their diagnoses
        found = Outcome("unknown", reason=repr(error))
    return replace(found, printed=printed)


def _urls(stack: Stack, lab: Lab) -> bytes:
    """Return the file of the users' pages, the same in each phase; empty without daemons."""
    pages = asks.limits(checks.load(lab).asks) if any(m.joins for m in stack.values()) else {}
    text = "".join(f"{url} {seconds:g}\n" for url, seconds in pages.items())
    return archive.packed({URLS: text.encode()})


def _outcome(tool: Tool, ended: Sequence[InstanceEnd]) -> Outcome:
    """Return the diagnosis of all instances, and what they used. Raises Broken."""
    cpu = [one.spent.cpu for one in ended if one.spent.cpu is not None]
    memory = [one.spent.memory for one in ended if one.spent.memory is not None]
    return Outcome(
        "diagnosis",
        diagnosis.of(tool, ended),
        cpu=round(sum(cpu), 3) if len(cpu) == len(ended) else None,
        memory=max(memory, default=None),
    )


def _use(stack: Stack, lab: Lab, tool: Tool, machines: list[str], printed: list[Said]) -> Diagnosis:
    """Look with our own USE table, through the engine. It knows only the containers of the lab."""
    began = time.monotonic()
    tables = use.tables(lab, stack, machines, tool.window)
    seconds = round(time.monotonic() - began, 2)
    lines = [
        Said(seconds, table.name, f"{table.name}: {row.resource}: {each.why}")
        for table in tables
        for row in table.rows
        for each in row.wrong
    ]
    printed += lines
    return diagnosis.of(tool, [InstanceEnd("host", seconds, 0, lines)])


def _instance(
    tool: Tool, stack: Stack, name: str, *, urls: bytes, cpus: str, printed: list[Said]
) -> InstanceEnd:
    """Run the tool once beside a machine until it or its window ends. Raises Broken, CannotRun."""
    machine = stack[name]
    where = partial(_running, stack=stack.name, inside=machine, files=urls, cpus=cpus)
    with where(stack.engine, tool, tool.command, printed) as instance:
        if tool.alerts is not None:
            instance.poll(machine, tool.alerts)
        return instance.end()


def version(engine: Engine, tool: Tool, stack: str) -> str:
    """Return the line in which the tool reports its version; empty if it does not."""
    if not tool.version:
        return ""
    command = f"({tool.version}) 2>&1 || true"  # a plugin prints its version and exits with 3
    said = engine.once(tool.image, command, stack)
    return next((line.strip() for line in said.splitlines() if line.strip()), "")


def replay(engine: Engine, tool: Tool, bundle: bytes, stack: str, cpus: str = "") -> Outcome:
    """Let a tool read a bundle (a tar file) in its current folder, without a network."""
    if not tool.replay:
        return Outcome("absent", reason="it reads no bundles")
    printed = list[Said]()
    try:
        with _running(
            engine, tool, tool.replay, printed, stack=stack, files=bundle, cpus=cpus
        ) as instance:
            found = _outcome(tool, [instance.end()])
    except (Broken, CannotRun) as problem:
        found = Outcome("unknown", reason=str(problem))
    return replace(found, printed=printed)


@contextmanager
def _running(
    engine: Engine,
    tool: Tool,
    command: str,
    printed: list[Said],
    *,
    stack: str,
    inside: Machine | None = None,
    files: bytes | None = None,
    cpus: str = "",
) -> Iterator[_Instance]:
    """Run the tool in a container while the body runs; `printed` gets what it prints."""
    mark = secrets.token_hex(8)
    told = ["env", f"URLS=/{URLS}"] if inside else []
    words = [*told, "timeout", "-k", "1", str(tool.window), "sh", "-c", command]
    program = Program(
        tool.image,
        ["sh", "-c", _METERED, mark, *words],
        stack,
        inside=inside,
        rights=tool.capabilities,
        memory=_MEMORY,
        processes=_PROCESSES,
        cpus=cpus,
        files=files,
        folder="/" if inside else _BUNDLE,
    )
    with engine.process(program) as process:
        yield _Instance(tool, process, inside.name if inside else "", mark, printed)


class _Instance:
    """One container of a tool, and its output until it ends or has printed too much.

    `mark`: the line on standard error after which it says what it used. `printed`: the output of
    all instances.
    """

    def __init__(
        self, tool: Tool, process: Process, machine: str, mark: str, printed: list[Said]
    ) -> None:
        self._tool = tool
        self._process = process
        self._machine = machine
        self._lines: list[Said] = []
        self._mark = mark
        self._printed = printed
        self._spent: list[str] | None = None
        self._complaint = ""
        self._over = threading.Event()  # it has ended, or printed too much
        self._flooded = False
        self._reader = threading.Thread(target=self._read, args=(process.output,), daemon=True)
        self._reader.start()

    @property
    def _seconds(self) -> float:
        return round(time.monotonic() - self._process.began, 2)

    def poll(self, machine: Machine, alerts: Alerts) -> None:
        """Ask for the tool's alerts until its window is over. Each new alert is a line.

        Raises Broken if the tool never responds.
        """
        command = f"curl -fsS -m 2 {quote(alerts.url)} | jq -r {quote(alerts.jq)}"
        known: set[str] = set()
        self._over.wait(timeout=self._tool.settle)
        answered, complaint = False, ""
        while self._seconds < self._tool.window and not self._over.is_set():
            asked = machine.run(command, timeout=5)
            complaint = asked.err.strip()
            if asked.code == 0 and not complaint:
                answered = True
                new = [line for line in asked.out.splitlines() if line and line not in known]
                known |= {*new}
                self._add(new)
            time.sleep(_POLL)
        if not answered:
            why = self._complaint or complaint or alerts.url
            raise Broken(f"it served no alerts on {self._machine}: {why}")

    def end(self) -> InstanceEnd:
        """Wait until the tool or its window ends. Raises Broken: too much output, or killed.

        `timeout` ends it with TERM (its exit code is 124 then), and with KILL a second later.
        """
        in_time = self._over.wait(timeout=max(0.0, self._tool.window + _GRACE - self._seconds))
        if self._flooded:
            raise Broken(f"it printed more than {_MOST_OUTPUT // 1000} kB")
        code: int | None = None
        if in_time:
            code = self._process.wait(30)
        if code in _STOPPED and self._seconds >= self._tool.window:
            code = None
        if code == _KILLED:
            raise Broken("it was killed")
        how = "its window was over" if code is None else f"exit code {code}"
        self._printed.append(Said(self._seconds, self._machine, how, "end"))
        spent = cgroup.spent("\n".join(self._spent or []))
        return InstanceEnd(
            self._machine, self._seconds, code, [*self._lines], self._complaint, spent
        )

    def _read(self, output: Iterator[Part]) -> None:
        """Read to the end, even what is dropped: Docker cannot end a stream that is not read."""
        rest, size = [b"", b""], 0
        with suppress(Exception):  # the container disappeared; `end` finds out
            for parts in output:
                size += sum(len(part or b"") for part in parts)
                if size > _MOST_OUTPUT:
                    self._flooded = True
                    self._over.set()
                    continue
                for stream, part in enumerate(parts):
                    *whole, rest[stream] = (rest[stream] + (part or b"")).split(b"\n")
                    self._hear(stream, whole)
        for stream in (0, 1):
            self._hear(stream, [rest[stream]])
        self._over.set()

    def _hear(self, stream: int, lines: Sequence[bytes]) -> None:
        texts = [line.decode(errors="replace").strip() for line in lines]
        texts = [text for text in texts if text]
        if stream == 0:
            self._add(texts)
            return
        for text in texts:
            if self._spent is not None:
                self._spent.append(text)
            elif text == self._mark:
                self._spent = []
            else:
                self._complaint = text
                self._printed.append(Said(self._seconds, self._machine, text, "err"))

    def _add(self, texts: Sequence[str]) -> None:
        said = [Said(self._seconds, self._machine, text) for text in texts]
        self._lines += said
        self._printed += said
