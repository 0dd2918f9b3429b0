"""Placement: the engine that a lab runs on. No other module decides that."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from faultlab.core import naming
from faultlab.core.defaults import AUTO, EXAM, MYSTERY, ONCALL
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.engine import trial
from faultlab.engine.contract import Engine
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.kubernetes.disposable import DisposableNodes
from faultlab.engine.kubernetes.engine import KubernetesEngine
from faultlab.engine.stack import Stack
from faultlab.engine.vm.engine import VmEngine
from faultlab.lab import images, numbers
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run import preflight
from faultlab.run.record import Record

# What has a name of its own while its lab is secret, and what starts it.
_HIDDEN = {
    MYSTERY: f"make {MYSTERY}",
    ONCALL: f"faultlab {ONCALL}",
    EXAM: f"faultlab {EXAM} --help",
}
# Every kind of engine by its name, in the order in which `auto` tries them.
ENGINES: dict[str, type[Engine]] = {
    "local": LocalEngine,
    "vm": VmEngine,
    "kubernetes": KubernetesEngine,
    "node": DisposableNodes,
}


def allowed(wanted: str, parts: bool = True) -> list[type[Engine]]:
    """Return the engines that `wanted` allows, the first choice first. Raises BadInput.

    `parts`: an engine that is a part of the wanted one is another choice.
    """
    if wanted == AUTO:
        return [kind for kind in ENGINES.values() if kind.auto_eligible]
    if wanted not in ENGINES:
        known = ", ".join((AUTO, *ENGINES))
        raise BadInput(f"There is no engine {wanted!r}; there are {known}.", "faultlab --help")
    more = [kind for kind in ENGINES.values() if parts and kind.part_of == wanted]
    return [ENGINES[wanted], *more]


def _first() -> type[Engine]:
    return next(iter(ENGINES.values()))


def _another() -> str:
    """Return the name of the engine to suggest if the first one cannot run a lab."""
    return next((name for name, kind in ENGINES.items() if kind.owns_kernel), [*ENGINES][-1])


def choose(term: Terminal, lab: Lab, wanted: str) -> Engine:
    """Return the engine for a lab, up and with its images. Raises CannotRun.

    `auto` takes the first engine whose kernel can run the lab, and prints why the first did not.
    """
    why = "asked for"
    for kind in allowed(wanted):
        if kind is not _first():
            term.say(f"engine    {kind.name}: {why}")
        engine = kind.bring_up(term, lab.services.images(lab.daemons))
        why = cannot_run(engine, lab)
        if not why:
            return engine
    again = f"faultlab {lab.alias if lab.alias in _HIDDEN else f'start {lab.alias}'}"
    again += "" if engine.cannot(lab) else f" --engine {_another()}"
    raise CannotRun(f"{lab.alias} cannot run here: {why}.", again)


def at_hand(lab: Lab) -> Engine:
    """Return an engine that is up and can run the lab. Raises CannotRun if none can."""
    why = []
    for kind in allowed(AUTO):
        if absent := kind.absent():
            why.append(absent)
            continue
        engine = kind.reach()
        engine.images.ensure(lambda _: None, _images([lab]))
        if not (cannot := cannot_run(engine, lab)):
            return engine
        why.append(cannot)
    raise CannotRun(f"{lab.alias} cannot run: {'; '.join(why)}.", "make vm")


def _images(chosen: Iterable[Lab]) -> list[str] | None:
    """Return all images of faultlab and those that these labs bring; None if they bring none."""
    own = images.of_others(name for lab in chosen for name in lab.services.images(lab.daemons))
    return [*images.names(), *own] if own else None


def cannot_run(engine: Engine, lab: Lab) -> str:
    """Return why this engine cannot run the lab, found by trying; empty if it can."""
    if why := engine.cannot(lab):
        return why
    if engine.owns_kernel:
        return ""
    return reason(lab, [] if lab.scope == "kernel" else lacking_for(engine, [lab]))


def lacking_for(engine: Engine, chosen: Iterable[Lab]) -> list[str]:
    """List what the engine's kernel lacks of what these labs require, found by trying."""
    wanted = sorted({name for lab in chosen for name in lab.requires})
    return trial.lacking(engine, "machine", wanted, naming.prefix() + "trial") if wanted else []


def reason(lab: Lab, lacking: Collection[str]) -> str:
    """Return why a kernel that is not ours and lacks these abilities cannot run the lab."""
    if lab.scope == "kernel":
        return "the fault belongs to a whole kernel"
    return next((f"this kernel has no {name}" for name in lab.requires if name in lacking), "")


def refuse_unknown(lab_id: str) -> None:
    """Raise BadInput for what is neither a lab nor a name that hides one, without asking Docker."""
    if lab_id not in _HIDDEN:
        labs.load(lab_id)


def named(lab_id: str) -> Lab:
    """Return a lab; for a name that hides one, what is up as such. Raises BadInput, CannotRun."""
    if lab_id not in _HIDDEN:
        return labs.asked(lab_id)
    stack = up(lab_id)
    record = Record.open(stack.run_id) if stack else None
    if record is None:
        what = f"The record of the {lab_id} is lost." if stack else f"No {lab_id} is up."
        again = _HIDDEN[lab_id]
        raise CannotRun(what, f"faultlab down {lab_id}, then: {again}" if stack else again)
    return labs.load(record.lab).called(lab_id)


def standing(lab_id: str) -> Lab:
    """Return a lab as `named`, under the name that its stack has: its number or its id.

    A learner can start it by the one and ask for it by the other.
    """
    lab = named(lab_id)
    other = lab.asked(by_number=not lab.by_number)
    return other if other.alias != lab.alias and not up(lab.alias) and up(other.alias) else lab


def name_up(name: str) -> str:
    """Return the name that a stack has as `standing` does, and read no more than numbers."""
    if name in _HIDDEN or up(name):
        return name
    other = numbers.other(name)
    return other if other != name and up(other) else name


def everywhere() -> tuple[list[Engine], CannotRun | None]:
    """Return the engines that are up, and the error of one that cannot be reached."""
    found: list[Engine] = [] if _first().absent() else [local()]
    lost = None
    for kind in [*ENGINES.values()][1:]:
        try:
            if kind.absent():
                kind.require_reachable()
            else:
                found.append(kind.reach())
        except CannotRun as problem:
            lost = problem
    return found, lost


def up(lab: str) -> Stack:
    """Return the stack of a lab, empty if it is not up. Raises Held if another user has it.

    Raises CannotRun if an engine that can have it does not respond.
    """
    stack = _found(stack_name(lab), ENGINES.values())
    stack.refuse_others()
    return stack


def find(lab: Lab, wanted: str) -> Stack:
    """Return the lab's stack, empty if it is not up.

    An engine that is slow to respond is asked only if it can have the stack.
    """
    name = stack_name(lab.alias)
    likely = []
    for kind in ENGINES.values():
        asked = wanted in (kind.name, kind.part_of) or (lab.scope == "kernel" and kind.owns_kernel)
        likely += [kind] if asked or kind.might_host(name) else []
    return _found(name, likely, patient=True)


def _found(name: str, kinds: Iterable[type[Engine]], patient: bool = False) -> Stack:
    first: Stack | None = None
    for kind in kinds:
        if kind.absent():
            if kind.might_host(name):
                kind.require_reachable()
            continue
        stack = Stack(kind.reach(patient), name)
        if stack:
            return stack
        first = first or stack
    return Stack(local(), name) if first is None else first


def local() -> Engine:
    """Return the engine of this machine. Raises CannotRun if Docker does not respond."""
    return _first().reach()


@dataclass(frozen=True)
class Outlook:
    """Where a lab runs: here, in the lab VM only, or nowhere."""

    lab: str
    verdict: Literal["RUN", "VM", "SKIP"]
    reason: str


def outlook(lab: Lab, lacking: dict[str, str], engine: Engine) -> Outlook:
    """Return where this lab runs, with the reason why it does not run on this engine."""
    if why := engine.cannot(lab):
        return Outlook(lab.id, "SKIP", why)
    why = "" if engine.owns_kernel else reason(lab, lacking)
    return Outlook(lab.id, "VM" if why else "RUN", why)


def engines_of(
    term: Terminal, chosen: Sequence[Lab], wanted: str, parts: bool = False
) -> tuple[dict[str, Engine], dict[str, str]]:
    """Return each lab's running engine, and for each lab that `wanted` rules out the reason.

    `parts`: an engine that is a part of the wanted one is allowed, too.
    """
    up: dict[str, tuple[Engine, list[str]]] = {}
    places: dict[str, Engine] = {}
    cannot: dict[str, str] = {}
    for lab in chosen:
        for kind in allowed(wanted, parts):
            if kind.name not in up:
                up[kind.name] = _examined(term, kind, chosen)
            engine, lacking = up[kind.name]
            why = engine.cannot(lab) or ("" if engine.owns_kernel else reason(lab, lacking))
            if not why:
                places[lab.id] = engine
                break
            cannot[lab.id] = _elsewhere(engine, lab, why)
    return places, {lab_id: why for lab_id, why in cannot.items() if lab_id not in places}


def _elsewhere(engine: Engine, lab: Lab, why: str) -> str:
    """Return why a lab cannot be verified on an engine, with the command that can do it."""
    if engine.cannot(lab):
        return f"cannot run on {engine.name} ({why}): faultlab verify {lab.id}"
    return f"needs the lab VM ({why}): faultlab verify {lab.id} --engine {_another()}"


def places_of(term: Terminal, chosen: Sequence[Lab], wanted: str = "local") -> dict[str, Engine]:
    """Return the wanted engine for each lab that it can run, and name the others.

    Raises CannotRun if it can run none of them.
    """
    places, cannot = engines_of(term, chosen, wanted)
    for lab_id, why in cannot.items():
        term.say(f"{'skip':<9} {lab_id}: {why.partition(':')[0]}")
    if not places:
        raise CannotRun("None of these labs runs here.", "faultlab doctor")
    return places


def _examined(
    term: Terminal, kind: type[Engine], chosen: Sequence[Lab]
) -> tuple[Engine, list[str]]:
    """Bring an engine up and list what its kernel lacks for these labs. Raises CannotRun."""
    engine = kind.bring_up(term, _images(chosen))
    if engine.owns_kernel:
        return engine, []
    amiss = [fact for fact in preflight.ready(engine) if not fact.ok]
    if amiss:
        raise CannotRun(f"{amiss[0].name}: {amiss[0].text}.", "faultlab doctor")
    if not any(lab.requires for lab in chosen):
        return engine, []
    with term.step("doctor", "trying what this kernel can do") as step:
        lacking = lacking_for(engine, chosen)
        step.done("tried")
    return engine, lacking
