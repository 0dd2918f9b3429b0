"""Verbs: `faultlab class start`, `status`, `end` and `export`.

A class is a folder, `classes/NAME/`: the journal, the tokens, the certificate. `start` serves until
Ctrl-C; the same command goes on where it was. `end` can be typed beside it, or when it is gone.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from faultlab.core import command, lock, paths
from faultlab.core.defaults import CLASS_PORT, LOOPBACK
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.run.placement import engines_of
from faultlab.workshop import access, export
from faultlab.workshop import plan as plans
from faultlab.workshop import roster as what
from faultlab.workshop.access import TRAINER, Keys
from faultlab.workshop.journal import Journal
from faultlab.workshop.plan import Plan
from faultlab.workshop.roster import Roster
from faultlab.workshop.session import Session
from faultlab.workshop.stacks import Stacks

_PLANNED = "planned"
_JOURNAL, _KEYS, _ALIVE, _END = "events.jsonl", "keys.json", "alive", "end"
_PATIENCE = 600.0  # seconds for a server to end its class


def start(
    term: Terminal,
    file: str,
    *,
    listen: str,
    port: int,
    names: Sequence[str],
    cert: str | None,
    key: str | None,
) -> None:
    """Open a class, or go on with it, and serve its pages until Ctrl-C or its end.

    Raises BadInput, CannotRun.
    """
    try:
        from faultlab.workshop import door, site
    except ModuleNotFoundError as error:
        raise CannotRun(
            f"The pages of a class need {error.name}, which is not installed.",
            f"make class CLASS={file}",
        ) from error
    plan = plans.read(file)
    folder = _folder(plan.id)
    if bool(cert) != bool(key):
        raise BadInput("--cert and --key go together.", "faultlab class --help")
    secure = bool(cert) or not _loopback(listen)
    with lock.hold(f"class-{plan.id}", f"class start {file}"):
        journal = _opened(term, plan, file, folder)
        (folder / _END).unlink(missing_ok=True)
        roster = _roster(plan, journal)
        if roster.ended:
            raise CannotRun(
                f"This class has ended; its results are in {paths.show(folder)}.",
                f"faultlab class export {file}; for another one: cp {file} next.toml",
            )
        hosts = _hosts(listen, names)
        files: tuple[str | None, str | None] = (cert, key)
        if secure and not cert:
            files = tuple(map(str, access.certificate(folder, hosts)))  # type: ignore[assignment]
        keys = Keys(folder / _KEYS)
        keys.make([TRAINER, *(seat.number for seat in roster.seats)], plan.hours)
        line = _listening(listen, port)
        alive = folder / _ALIVE
        since = alive.stat().st_mtime if alive.exists() else time.time()
        session = Session(plan, roster, journal, Stacks(plan))
        session.note(what.OPENED, alive=round(since, 3))
        url = f"{'https' if secure else 'http'}://{_shown(listen, hosts)}:{line.getsockname()[1]}"
        front = door.Server(
            door.config(
                site.Site(session, keys, hosts, secure, alive).app(), len(plan.seats), *files
            ),
            lambda: _welcome(term, roster, keys, url, files[0]),
        )

        async def serve() -> None:
            ending = asyncio.create_task(_end_when_told(session, folder / _END, front.stop))
            await front.serve(sockets=[line])
            ending.cancel()

        try:
            asyncio.run(serve())
        except KeyboardInterrupt:
            pass
        finally:
            line.close()
        if roster.ended:
            term.say(f"The class has ended; results: faultlab class export {file}")
        else:
            term.say("Stopped. The stacks are still up; the same command goes on.")
            term.say(f"To end the class: faultlab class end {file}")


def status(term: Terminal, file: str) -> None:
    """Print the roster as it is now. Raises BadInput for a class that never began."""
    plan, journal = _begun(file)
    roster, now = _roster(plan, journal), time.time()
    held = _held(plan.id)
    how = "has ended" if roster.ended else "is paused" if roster.paused else "goes on"
    term.heading(f"{plan.title}: {how}{'' if held or roster.ended else ', its server is not up'}")
    term.table(
        ("seat", "name", "lab", "state", "min", "checks", "hints", "answers"),
        [
            [
                str(seat.number),
                seat.name,
                f"{seat.turn.lab} ({seat.at + 1} of {len(seat.turns)})",
                seat.turn.state,
                f"{seat.turn.seconds(now) / 60:.0f}",
                str(seat.turn.checks),
                str(seat.turn.hints),
                str(len(seat.turn.answers)),
            ]
            for seat in roster.seats
        ],
    )
    term.json(
        {"class": plan.id, "up": held, "ended": roster.ended, "turns": export.rows(roster, now)}
    )


def end(term: Terminal, file: str) -> None:
    """End a class and remove its stacks; its results stay. Raises CannotRun for a rest."""
    plan, _ = _begun(file)
    folder = _folder(plan.id)
    with term.step("end", "removing the stacks of all seats") as step:
        try:
            with lock.hold(f"class-{plan.id}", f"class end {file}"):
                journal = Journal(folder / _JOURNAL, mend=True)
                roster = _roster(plan, journal)
                asyncio.run(Session(plan, roster, journal, Stacks(plan)).end(step.note))
        except lock.Held:
            (folder / _END).touch()  # its server does it, and goes
            step.note("its server removes the stacks")
            deadline = time.monotonic() + _PATIENCE
            while _held(plan.id):
                if time.monotonic() > deadline:
                    raise CannotRun("The server of the class does not end.", "ps x") from None
                time.sleep(0.2)
        step.done("ended, its stacks are removed")
    term.say(f"Results: faultlab class export {file}")
    term.json({"class": plan.id, "ended": True})


def write(term: Terminal, file: str, to: str | None) -> None:
    """Write the results, in each form or as the name of the file says. Raises BadInput."""
    plan, journal = _begun(file)
    roster, now = _roster(plan, journal), time.time()
    wanted = (
        [paths.in_a_folder(to)]
        if to
        else [_folder(plan.id) / f"results.{kind}" for kind in export.KINDS]
    )
    for target in wanted:
        kind = target.suffix.removeprefix(".")
        if kind not in export.KINDS:
            raise BadInput(
                f"--to: expected a name that ends with .{', .'.join(export.KINDS)}, got {to!r}",
                f"faultlab class export {file} --to results.csv",
            )
        target.write_text(export.text(roster, journal, kind, now))
        term.say(f"written   {paths.show(target)}")
    term.json({"files": [str(target) for target in wanted], "turns": export.rows(roster, now)})


def _folder(name: str) -> Path:
    return paths.root() / "classes" / name


def _opened(term: Terminal, plan: Plan, file: str, folder: Path) -> Journal:
    """The journal of a class, begun if there is none: what each seat gets is settled then."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    journal = Journal(folder / _JOURNAL, mend=True)
    if journal.events:
        if journal.events[0].get("plan") != plan.model_dump():
            raise BadInput(
                f"{file} has been changed since this class began.",
                f"undo the change, or: cp {file} next.toml; faultlab class start next.toml",
            )
        return journal
    wanted = plan.wanted()
    with term.alive("labs", "looking what runs here"):
        places, cannot = engines_of(term, wanted, "local")
    for lab_id, why in cannot.items():
        if plan.labs:
            raise CannotRun(f"{lab_id} cannot run in a class here: {why}.", f"edit {file}")
    turns = [plan.turns(number, set(places)) for number in range(1, len(plan.seats) + 1)]
    journal.add(_PLANNED, plan=plan.model_dump(), labs=turns)
    return journal


def _begun(file: str) -> tuple[Plan, Journal]:
    """A class that was started, as it was planned then."""
    folder = _folder(Path(file).stem)
    journal = Journal(folder / _JOURNAL) if folder.is_dir() else None
    if journal is None or not journal.events:
        raise BadInput(f"The class of {file} was never started.", f"faultlab class start {file}")
    return Plan.model_validate(journal.events[0]["plan"]), journal


def _roster(plan: Plan, journal: Journal) -> Roster:
    found = Roster(plan, journal.events[0]["labs"])
    found.replay(journal.events)
    return found


def _held(name: str) -> bool:
    try:
        with lock.hold(f"class-{name}", "class status"):
            return False
    except lock.Held:
        return True


def _loopback(address: str) -> bool:
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _hosts(listen: str, names: Sequence[str]) -> list[str]:
    """The names and addresses by which pages may be asked for, the best one first."""
    if _loopback(listen):
        return list(dict.fromkeys(n.lower() for n in [*names, listen, LOOPBACK, "localhost"]))
    own = [listen] if listen not in ("0.0.0.0", "::") else _addresses()
    return list(dict.fromkeys(n.lower() for n in [*names, *own, socket.gethostname(), LOOPBACK]))


def _addresses() -> list[str]:
    """This machine's own, without those of container networks."""
    done = command.run(["ip", "-j", "address", "show", "up", "scope", "global"], timeout=10)
    found = json.loads(done.stdout or "[]")
    return [
        info["local"]
        for link in found
        if not link.get("ifname", "").startswith(("br-", "docker", "veth", "virbr"))
        for info in link.get("addr_info", [])
        if info.get("family") in ("inet", "inet6")
    ]


def _listening(listen: str, port: int) -> socket.socket:
    """A socket that listens. Raises CannotRun when the address cannot be had."""
    if not listen:
        raise BadInput("--listen takes an address.", "faultlab class start --listen 0.0.0.0")
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    try:
        both = listen == "::"
        return socket.create_server(
            (listen, port), family=family, backlog=1024, dualstack_ipv6=both
        )
    except (OSError, OverflowError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise CannotRun(
            f"Cannot listen on {listen}, port {port}: {why}.", f"add --port {CLASS_PORT + 1}"
        ) from error


def _shown(listen: str, hosts: Sequence[str]) -> str:
    name = listen if _loopback(listen) else hosts[0]
    return f"[{name}]" if ":" in name else name


def _welcome(term: Terminal, roster: Roster, keys: Keys, url: str, cert: str | None) -> None:
    """Everybody's link, for the trainer alone to see."""
    plan = roster.plan
    term.heading(f"{plan.title}: {len(plan.seats)} seats")
    links = {seat.name: f"{url}/join?token={keys.token(seat.number)}" for seat in roster.seats}
    trainer = f"{url}/join?token={keys.token(TRAINER)}"
    term.say("You, the trainer:")
    term.command(trainer)
    for name, link in links.items():
        term.say(f"{name}:")
        term.command(link)
    if cert:
        term.say("The certificate is its own; its SHA-256 is what browsers must show:")
        digest = access.fingerprint(Path(cert))
        term.say(f"  {digest[:48]}")
        term.say(f"  {digest[48:]}")
    term.say("Ctrl-C stops the pages, and the same command goes on.")
    term.json({"class": plan.id, "url": url, "trainer": trainer, "seats": links})


async def _end_when_told(session: Session, sign: Path, done: Callable[[], None]) -> None:
    while not sign.exists():
        await asyncio.sleep(0.5)
    sign.unlink()
    try:
        await session.end()
    except CannotRun as problem:
        print(f"faultlab: {problem.message}", file=sys.stderr)
    finally:
        done()
