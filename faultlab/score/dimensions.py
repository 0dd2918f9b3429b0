"""Dimensions: what a tool makes of weak faults, of several at once, and of false leads.

A lab at a severity (`netem-loss@3%`), labs put together (`mtu+gzip`) and a lab with decoys
(`mtu~old-overflow`) are looked at as any other. Here their trials are compared.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from faultlab.core.statistics import Share
from faultlab.lab import loader as labs
from faultlab.lab.collection import bare
from faultlab.lab.model import Lab
from faultlab.lab.severity import AT
from faultlab.run.phase import FAULTY
from faultlab.score.metrics import GUESSES, grouped
from faultlab.score.results import Results, Trial


@dataclass(frozen=True)
class DoseRow:
    """One tool on one lab at several of its severities.

    `doses`: those that it looked at, the strongest first. `felt`: the weakest of them that users
    feel. `caught`: the weakest at which it raised an alarm in each look; empty for none of them.
    `blind`: those that users feel and it missed at least once. `early`: those that no user feels
    and it caught each time.
    """

    tool: str
    lab: str
    doses: list[str]
    felt: str
    caught: str
    blind: list[str]
    early: list[str]


@dataclass(frozen=True)
class CompanyRow:
    """One tool where a fault was not alone.

    `right`: of the causes that it named beside several faults, those that were there (precision).
    `found`: of the faults that were there, those that it named (recall). `whole`: looks in which it
    named each of them and nothing else. `astray`: of the looks with false leads, those in which it
    took one for the fault.
    """

    tool: str
    right: Share
    found: Share
    whole: Share
    astray: Share


def doses(kept: Results) -> list[DoseRow]:
    """Return a row for each tool and lab that it has looked at in several severities."""
    by_lab: defaultdict[tuple[str, str], list[Trial]] = defaultdict(list)
    for one in _faulty(kept):
        lab = labs.loaded(one.lab)
        if lab.severity and not lab.folders and not lab.decoys:
            by_lab[one.tool, one.lab.partition(AT)[0]].append(one)
    found = (_dose_row(*key, trials) for key, trials in sorted(by_lab.items()))
    return [row for row in found if len(row.doses) > 1]


def company(kept: Results) -> list[CompanyRow]:
    """Return a row for each tool that looked at several faults at once or at false leads."""
    looked = [(one, labs.loaded(one.lab)) for one in _faulty(kept)]
    some = [(one, lab) for one, lab in looked if lab.folders or lab.decoys]
    by_tool = grouped(some, lambda pair: pair[0].tool)
    return [_company_row(tool, pairs) for tool, pairs in sorted(by_tool.items())]


def _faulty(kept: Results) -> list[Trial]:
    """Return the trials of today's tools that gave a diagnosis of a fault."""
    told = [one for one in kept.trials.values() if one.diagnosis and one.phase == FAULTY]
    return [one for one in told if kept.current(one) and not labs.loaded(one.lab).control]


def _dose_row(tool: str, lab_id: str, trials: Sequence[Trial]) -> DoseRow:
    looked = grouped(trials, lambda one: bare(labs.loaded(one.lab).id, dosed=True))
    rows = [lab for lab in labs.rows(labs.loaded(lab_id)) if _name(lab) in looked]
    always = [lab for lab in rows if all(one.alarm for one in looked[_name(lab)])]
    felt = [lab for lab in rows if not lab.silent]
    return DoseRow(
        tool,
        lab_id,
        [_dose(lab) for lab in rows],
        felt=_dose(felt[-1]) if felt else "",
        caught=_dose(always[-1]) if always else "",
        blind=[_dose(lab) for lab in felt if lab not in always],
        early=[_dose(lab) for lab in always if lab.silent],
    )


def _name(lab: Lab) -> str:
    return bare(lab.id, dosed=True)


def _dose(lab: Lab) -> str:
    assert lab.dose is not None
    return lab.dose.name


def _company_row(tool: str, pairs: Sequence[tuple[Trial, Lab]]) -> CompanyRow:
    named = there = both = whole = 0
    several = [(_causes(one), lab) for one, lab in pairs if lab.folders]
    for causes, lab in several:
        true = {fault.truth.cause for fault in lab.faults}
        named, there, both = named + len(causes), there + len(true), both + len(causes & true)
        whole += causes == true
    led = [bool(labs.taken(lab, _causes(one))) for one, lab in pairs if lab.decoys]
    return CompanyRow(
        tool,
        right=Share(named, both),
        found=Share(there, both),
        whole=Share(len(several), whole),
        astray=Share(len(led), sum(led)),
    )


def _causes(one: Trial) -> set[str]:
    """Return the causes that a trial names; more than a few are a list, and name none."""
    causes = set(one.diagnosis.causes) if one.diagnosis else set()
    return causes if len(causes) <= GUESSES else set()
