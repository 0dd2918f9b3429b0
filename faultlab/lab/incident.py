"""Incident: several faults on one stack, each of them judged by the check of its own lab."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import make_dataclass, replace
from operator import attrgetter
from typing import Any

from faultlab.lab import services
from faultlab.lab.asks import Ask
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.collection import bare
from faultlab.lab.model import Lab, Remedy


def facts(labs: Sequence[Lab]) -> dict[str, Any]:
    """Return the facts of a lab that has the faults of these labs at once."""
    return {
        "fault": [fault for lab in labs for fault in lab.faults],
        "daemons": _each_once(labs, "daemons"),
        "requires": _each_once(labs, "requires"),
        "scope": "kernel" if any(lab.scope == "kernel" for lab in labs) else "machine",
        "load": any(lab.load for lab in labs),
    }


def clash(one: Lab, other: Lab) -> str:
    """Return why two labs cannot be there at once; empty if nothing is known against it."""
    if one.folder == other.folder:
        return "it is the same lab"
    both = [what for what in one.touches if what in other.touches]
    both += [services.both_change(one.overlays, other.overlays, one.collection)]
    return f"both change {both[0]}" if both[0] else ""


def texts(parts: Sequence[Lab]) -> dict[str, Any]:
    """Return what a lab that was put together from others says, and how it is repaired.

    An alternative of one fault, with the fixes of the others, is an alternative. So is a cheat a
    cheat, also if all else is mended.
    """
    first = parts[0]
    return {
        "title": "; ".join(part.title for part in parts),
        "origin": first.origin,
        "tier": first.tier,
        "track": first.track,
        "minutes": sum(part.minutes for part in parts),
        "difficulty": min(5, 1 + max(part.difficulty for part in parts)),
        "twins": [part.id for part in parts],
        "truth": first.truth,
        "alternative": [_with_others(part, part.alternative[0], parts) for part in parts],
        "cheat": [_with_others(part, part.cheat[0], parts) for part in parts],
        "hint": [
            hint.model_copy(update={"fault": bare(part.id)}) for part in parts for hint in part.hint
        ],
    }


def _with_others(part: Lab, remedy: Remedy, parts: Sequence[Lab]) -> Remedy:
    others = [step for other in parts if other is not part for step in other.fix]
    return Remedy(why=f"{bare(part.id)}: {remedy.why}", steps=[*remedy.steps, *others])


def _each_once(labs: Sequence[Lab], key: str) -> list[str]:
    return [*dict.fromkeys(word for lab in labs for word in getattr(lab, key))]


def together(checks: Mapping[str, Check[Any, Any]]) -> Check[Any, Any]:
    """Return one check of several faults, by their ids. It looks for one after the other.

    Each measure and each evidence names its fault.
    """
    looks = _record("Looks", checks, "look")
    inspections = _record("Inspections", checks, "inspect")

    def look(stack: Any) -> Any:
        return looks(*(check.look(stack) for check in checks.values()))

    def inspect(stack: Any) -> Any:
        return inspections(*(check.inspect(stack) for check in checks.values()))

    look.__annotations__["return"] = looks
    inspect.__annotations__["return"] = inspections
    every = checks.items()
    idle = [check.idle for check in checks.values()]
    return Check(
        look=look,
        inspect=inspect,
        symptom=tuple(_measure(fault, each) for fault, check in every for each in check.symptom),
        evidence=tuple(_evidence(fault, each) for fault, check in every for each in check.evidence),
        asks=_asks(checks),
        may_stop=tuple(dict.fromkeys(name for _, check in every for name in check.may_stop)),
        idle=(lambda stack: all(each(stack) for each in idle if each)) if all(idle) else None,
    )


def _field(fault: str) -> str:
    return fault.replace("-", "_")


def _record(name: str, checks: Mapping[str, Check[Any, Any]], of: str) -> type[Any]:
    """Return a dataclass that has, for each fault, what this function of its check returns."""
    shapes = [
        (_field(fault), typing.get_type_hints(getattr(check, of))["return"])
        for fault, check in checks.items()
    ]
    return make_dataclass(name, shapes, frozen=True)


def _measure(fault: str, measure: Measure[Any]) -> Measure[Any]:
    part = attrgetter(_field(fault))
    name = f"{fault}: {measure.name}"
    return replace(measure, name=name, of=lambda now: measure.value(part(now)), fault=fault)


def _evidence(fault: str, item: Evidence[Any]) -> Evidence[Any]:
    part = attrgetter(_field(fault))
    of: Callable[[Any, Any], float] = lambda before, after: item.of(part(before), part(after))  # noqa: E731
    return replace(item, name=f"{fault}: {item.name}", of=of, fault=fault)


def _asks(checks: Mapping[str, Check[Any, Any]]) -> tuple[Ask, ...]:
    """Return the asks of all checks, each request once. Two requests can have the same name."""
    found: dict[str, Ask] = {}
    for check in checks.values():
        for ask in check.asks:
            same = _request(found.get(ask.name, ask)) == _request(ask)
            name = ask.name if same else f"{ask.name}, {len(found)}"  # no fault is named
            found[name] = replace(ask, name=name)
    return tuple(found.values())


def _request(ask: Ask) -> tuple[object, ...]:
    return ask.command(range(1, ask.count + 1)), ask.count, ask.most, ask.at
