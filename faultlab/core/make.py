"""Make: what is typed with `make` in a checkout is typed with `faultlab` where no Makefile is."""

import re

from faultlab.core import paths

# Targets of the Makefile, as messages name them, and their verbs if these have other names.
_OF_A_LAB = "lab|shell|use|watch|hint|check|fix|flame|debrief|reset|down|verify"
_OTHERS = "setup|next|progress|mystery|page|class|list|doctor|status|clean|vm|vm-ssh|vm-down"
_VERBS = {
    "lab": "start",
    "class": "class start",
    "clean": "sweep",
    "vm": "vm up",
    "vm-ssh": "vm ssh",
    "vm-down": "vm down",
}
_TARGET = rf"(?:(?:{_OF_A_LAB})-[A-Za-z0-9]+(?:[-/][a-z0-9]+)*|{_OTHERS})"
# A target of make cannot have a `/`, which an id of another collection has.
_ELSEWHERE = rf"\bmake (?=(?:{_OF_A_LAB})-[a-z0-9-]+/)"
# A text and not a pattern, because compiling it costs each command in a checkout 0.7 ms.
_COMMAND = (
    rf"\bmake (?P<targets>{_TARGET}(?: {_TARGET})*)(?P<values>(?: [A-Z]+=\S+)*)(?![\w-])(?P<gap> *)"
)


def plain(text: str) -> str:
    """Return a text in which each command of `make` is one of `faultlab`.

    In a checkout this holds only for the labs of other collections. A column that begins after the
    command stays in its place if there is room.
    """
    if paths.checkout() is not None and not ("/" in text and re.search(_ELSEWHERE, text)):
        return text
    return re.sub(_COMMAND, _typed, text).replace("(FAULT=1: ", "(add 1: ")


def _typed(found: re.Match[str]) -> str:
    values = "".join(f" {value.partition('=')[2]}" for value in found["values"].split())
    typed = "; ".join(f"faultlab {_verb(target)}{values}" for target in found["targets"].split())
    if len(found["gap"]) < 2:
        return typed + found["gap"]
    return typed.ljust(len(found[0]) - 1) + " "


def _verb(target: str) -> str:
    verb, dash, lab = target.partition("-")
    if target in _VERBS or not dash:
        return _VERBS.get(target, target)
    return f"{_VERBS.get(verb, verb)} {lab}"
