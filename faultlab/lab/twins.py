"""Twins: two labs with one symptom, and the reading that tells their causes apart."""

from __future__ import annotations

import re

from faultlab.lab import loader as labs
from faultlab.lab import services
from faultlab.lab.collection import bare
from faultlab.lab.model import Lab

_SECTION = re.compile(r"^## Wrong turns\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^- (.*(?:\n  .*)*)", re.MULTILINE)
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def known(lab: Lab) -> list[Lab]:
    """Return the twins of a lab: first those that it names, then those that name it."""
    its = {bare(lab_id): labs.loaded(lab_id) for lab_id in lab.collection.ids()}
    named = [bare(name) for name in lab.twins]
    naming = [name for name, other in its.items() if bare(lab.id) in map(bare, other.twins)]
    return [its[name] for name in dict.fromkeys([*named, *naming])]


def apart(one: Lab, other: Lab) -> str:
    """Return why two labs cannot take each other's place on one stack; empty if they can.

    Their machines must be the same, so that only the fault differs.
    """
    if bare(other.id) not in {bare(twin.id) for twin in known(one)}:
        return f"{one.id} and {other.id}are not twins"
    for lab in (one, other):
        if lab.control or lab.several:
            return f"{lab.id} has {'several faults' if lab.several else 'no fault'}"
        if lab.decoys:
            return f"{lab.id} has a false lead, which would give it away"
        if lab.silent:
            return f"users do not notice {lab.id}"
    both = services.both_change(one.overlays, other.overlays, one.collection)
    return f"the machines of {one.id} and {other.id} differ: both change {both}" if both else ""


def on_one_stack(one: Lab, other: Lab) -> list[Lab]:
    """Return two labs, each with the machines and daemons of both. Raises BadInput."""
    plan = services.read(one.collection, *one.overlays, *other.overlays)
    needed = {"daemons": [*dict.fromkeys([*one.daemons, *other.daemons])], "services": plan}
    return [lab.model_copy(update=needed) for lab in (one, other)]


def telling(lab: Lab, twin: Lab) -> str:
    """Return what a lesson says of a twin in its wrong turns: the reading that tells them apart.

    Empty if it does not speak of that twin.
    """
    section = _SECTION.search(lab.lesson)
    items = _ITEM.findall(section[1]) if section else []
    about = re.compile(rf"\[?`{bare(twin.id)}`|.*\(\.\./{bare(twin.id)}/README\.md\)", re.DOTALL)
    said = next(filter(about.match, items), "")
    return _LINK.sub(r"\1", " ".join(said.split()))
