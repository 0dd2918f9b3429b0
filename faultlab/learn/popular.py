"""Popular: the public answers that a learner has typed and that are no repair, with a number."""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from faultlab.core.errors import BadInput
from faultlab.engine.shell import Shell
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.lab.repair import Repair
from faultlab.learn import hints
from faultlab.run import judge_error
from faultlab.run.judge_error import Tried


def sentences(lab: Lab, machines: Mapping[str, Shell]) -> list[str]:
    """Return a sentence for each public answer that is in place and helps no user by itself.

    None while the lab is secret, because an answer names what it changes. A file that cannot be
    read gives no sentence: no verdict may depend on it.
    """
    with suppress(BadInput):
        if not lab.blind:
            return [*_yielded(lab, machines)]
    return []


def _yielded(lab: Lab, machines: Mapping[str, Shell]) -> Iterator[str]:
    signs = [each for each in labs.repairs(lab) if each.when and each.when.at in machines]
    tried = {row.title: row for row in judge_error.recorded() if row.lab == lab.id} if signs else {}
    for repair in signs:
        row = tried.get(repair.title)
        helped = row is not None and row.got == "accept"
        if repair.when and not helped and hints.holds(machines[repair.when.at], repair.when):
            yield _sentence(repair, row)


def _sentence(repair: Repair, row: Tried | None) -> str:
    several = ";" in repair.source
    who = "Several public answers say this" if several else "A public answer says this"
    said = f"{who}: {repair.title}."
    if row is None or not row.deciding:
        return f"{said} It is not the whole repair here."
    share = (seen for seen in row.deciding if "%" in seen.measured)
    seen = next(share, row.deciding[0])
    return f"{said} Alone it gave this here: {seen.words}."
