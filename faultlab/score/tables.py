"""Tables: the figures of a score beside its matrix, for a person, Markdown and the page alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faultlab.core.statistics import Share
from faultlab.score import (
    agent_metrics,
    baselines,
    compare,
    dimensions,
    metrics,
    noise_baseline,
)
from faultlab.score.agent_metrics import AgentRow
from faultlab.score.compare import Better
from faultlab.score.metrics import ToolRow
from faultlab.score.noise_baseline import ABOUT
from faultlab.score.results import ALONE, CROWD, Results

COSTS, AGENTS = "See what a look costs", "Compare the agents"
DOSES = "See how weak a fault each tool still finds"
COMPANY = "See what each tool makes of several faults and of false leads"

Cell = Share | str


@dataclass(frozen=True)
class Table:
    """A table with its title, the sentences that explain it, and its rows."""

    title: str
    text: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def tables(kept: Results) -> list[Table]:
    """Return the tables that these trials have figures for; the first is the headline."""
    ranking = ranked(kept)
    every = (
        _headline(kept, *ranking),
        _ranks(*ranking[1:]),
        _doses(kept),
        _company(kept),
        _floors(kept),
        _costs(kept),
        _agents(kept),
        _agents_by_lab(kept),
    )
    return [table for table in every if table.rows]


def ranked(kept: Results) -> tuple[list[ToolRow], list[Better], dict[str, int]]:
    """Return the rows of the headline and of the guesses, who is better, and the groups."""
    shown = metrics.of_way(kept, metrics.headline(kept))
    guesses = baselines.guesses(shown)
    rows = metrics.rows(shown) + baselines.rows(guesses)
    known = [row for row in rows if row.informed is not None]
    order = [row.tool for row in sorted(known, key=lambda row: -(row.informed or 0))]
    both = Results(kept.file, trials=shown.trials | guesses.trials)
    found = compare.better(both, order)
    return rows, found, compare.groups(order, found)


def number(value: float | None, form: str = ".1f") -> str:
    """Return a number as text, and `-` for an unknown one."""
    return "-" if value is None else format(value, form)


def _headline(kept: Results, rows: list[ToolRow], _: list[Better], groups: dict[str, int]) -> Table:
    way = metrics.headline(kept)
    other_way, so = (CROWD, "in a crowd") if way == ALONE else (ALONE, "alone")
    others = {row.tool: row for row in metrics.rows(metrics.of_way(kept, other_way))}
    headings = ["tool", "group", "catches", "false alarms", "less false"]
    headings += [f"catches {so}", f"false alarms {so}"] if others else []
    headings += ["cause named", "component named", "seconds", "no diagnosis"]

    def cells(row: ToolRow) -> Iterator[Cell]:
        yield from (row.tool, str(groups.get(row.tool, "-")), row.detects, row.false)
        yield number(row.informed, "+.0f")
        if others:
            other = others.get(row.tool)
            yield from (other.detects, other.false) if other else ("-", "-")
        yield from (row.cause, row.component, number(row.seconds), str(row.unknown))

    looked = "Each tool looked alone" if way == ALONE else "All tools looked at the same time"
    text = (
        f"{looked}. Tools of one group cannot be ranked. “Less false” is catches minus false"
        " alarms, so a guess has about 0."
        + (f" What they did {so} can be of fewer looks." if others else "")
    )
    return Table("Compare the tools", text, headings, [[*cells(row)] for row in rows])


def _ranks(found: list[Better], groups: dict[str, int]) -> Table:
    """Return for each tool below the first group the best tool that is better."""
    best: dict[str, Better] = {}
    for each in found:  # the best informed comes first
        if groups[each.better] == groups[each.worse] - 1:
            best.setdefault(each.worse, each)
    lines = [
        (str(groups[tool]), tool, each.better, each.on, str(each.won), str(each.lost), _p(each.p))
        for tool, each in sorted(best.items(), key=lambda pair: groups[pair[0]])
    ]
    text = (
        "A tool is in a lower group if a tool above is right more often on more labs, in faulty"
        " looks or in the others, and on no side worse. Only looks that both had count, and each"
        " lab once, because a tool nearly always says the same about it again. McNemar's exact"
        " test (5%) and the intervals (95%) must both say so."
    )
    headings = ("group", "tool", "worse than", "in looks at", "labs where only that was better")
    return Table(
        "See why a tool is in a lower group", text, (*headings, "where only this was", "p"), lines
    )


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _doses(kept: Results) -> Table:
    rows = [
        [
            *(each.tool, each.lab, ", ".join(each.doses), each.felt or "-", each.caught or "-"),
            *(", ".join(each.blind) or "-", ", ".join(each.early) or "-"),
        ]
        for each in dimensions.doses(kept)
    ]
    text = (
        "Labs at several severities, the strongest first. “Weakest felt” is the weakest dose looked"
        " at that users feel, “weakest caught” the weakest at which each look raised an alarm."
        " “Blind at” are doses that users feel and the tool missed at least once. “Early at” are"
        " doses that no user feels yet and the tool caught each time."
    )
    headings = ("tool", "lab", "doses", "weakest felt", "weakest caught", "blind at", "early at")
    return Table(DOSES, text, headings, rows)


def _company(kept: Results) -> Table:
    rows: list[list[Cell]] = [
        [each.tool, each.right, each.found, each.whole, each.astray]
        for each in dimensions.company(kept)
    ]
    text = (
        "Looks at several faults at once, and at false leads. “Named rightly” is the share of the"
        " named causes that were there (precision), “found” the share of the faults that were named"
        " (recall), “whole” the looks in which all were named and nothing else. “Led astray” are"
        " looks in which a false lead was taken for the fault."
    )
    return Table(COMPANY, text, ("tool", "named rightly", "found", "whole", "led astray"), rows)


def _floors(kept: Results) -> Table:
    found = sorted(noise_baseline.floors(kept), key=lambda floor: _place(kept, floor.tool))
    rows: list[list[Cell]] = [
        [
            *(each.tool, each.empty, each.idle, each.load),
            *(str(each.false[kind]) for kind in ABOUT),
            *(str(each.caught[kind]) for kind in ABOUT),
            *(each.new, each.new_false),
        ]
        for each in found
    ]
    text = (
        "Alarms where nothing can be wrong: on machines without daemons, on an idle stack, on a"
        " healthy stack under load. Then what the alarms in labs are about, by their lines without"
        " numbers. The empty host also has those about the machine, and the idle stack those about"
        " the stack. One about the lab is new against the healthy look at the same lab. The others"
        " are about the load."
    )
    headings = ["tool", "empty host", "healthy, idle", "healthy, load"]
    headings += [f"false: {kind}" for kind in ABOUT] + [f"caught: {kind}" for kind in ABOUT]
    return Table(
        "Tell alarms about the machine from alarms about the lab",
        text,
        [*headings, "new with the fault", "new without"],
        rows,
    )


def _costs(kept: Results) -> Table:
    found = sorted(noise_baseline.costs(kept), key=lambda cost: _place(kept, cost.tool))
    rows = [
        [
            *(each.tool, number(each.seconds), number(each.cpu, ".2f")),
            "-" if each.memory is None else f"{each.memory / 1e6:.0f}",
            number(each.slowdown, ".2f"),
            str(each.looks),
        ]
        for each in found
    ]
    text = (
        "The seconds of a trial, and the CPU seconds of the tool's containers, are medians. Memory"
        " is the peak of a container, with cached files. Slowdown says how many times as slow the"
        " lab was meanwhile. It is a median of the looks in which a time or a rate is measured."
    )
    headings = ("tool", "seconds", "CPU seconds", "memory, MB", "slowdown", "looks")
    return Table(COSTS, text, headings, rows)


def _place(kept: Results, tool: str) -> int:
    order = [row.tool for row in metrics.rows(metrics.of_way(kept, ALONE))]
    return order.index(tool) if tool in order else len(order)


def _agents(kept: Results) -> Table:
    found = agent_metrics.rows(kept)
    rows: list[list[Cell]] = [
        [
            *(each.tool, each.repaired, each.cause, each.component, each.false),
            *(number(each.commands, ".0f"), number(each.seconds), number(each.tokens, ".0f")),
            *(number(each.cost, ".2f"), each.aborted, each.lost),
        ]
        for each in found
    ]
    text = (
        "Shares of the looks at a fault; false alarms are of the other looks. Commands, seconds,"
        " tokens and cost are medians. Aborted looks count: the agent ended a machine, so no user"
        " is served. Looks that we could not make count nowhere else. The guesses see no stack."
    )
    headings = ["agent", "repaired", "cause named", "component named", "false alarms"]
    headings += ["commands", "seconds", "tokens", "cost", "aborted by it", "not made"]
    for title, about, cells in _more_of_agents(found):
        if any(cell not in ("-", "") and cell != Share(0, 0) for cell in cells):
            headings.append(title)
            text += about
            rows = [[*row, cell] for row, cell in zip(rows, cells, strict=True)]
    return Table(AGENTS, text, headings, rows)


def _more_of_agents(found: Sequence[AgentRow]) -> Iterator[tuple[str, str, list[Cell]]]:
    """Yield the columns that only some files have figures for, each with its sentence."""
    yield (
        "cause by the ticket alone",
        " By the ticket alone: what the agent named without any machine.",
        [each.ticket_cause for each in found],
    )
    yield (
        "component by the ticket alone",
        "",
        [each.ticket_component for each in found],
    )
    yield (
        "visits lost",
        " Visits lost are those of users who were not served while the agent worked at a fault.",
        [each.unserved for each in found],
    )
    yield (
        "harmed",
        " Harmed are those where nothing was wrong.",
        [each.harmed for each in found],
    )
    yield (
        "with more tries",
        " With more tries: the share of labs that one of them repairs, and that all of them do.",
        [_again(each) for each in found],
    )
    yield ("model", "", [", ".join(each.models) or "-" for each in found])


def _again(row: AgentRow) -> str:
    last = row.again[-1] if row.again else None
    if last is None or last.tries == 1:
        return "-"
    return f"{last.tries}: {last.one:.0f}%, all {last.all:.0f}%"


def _agents_by_lab(kept: Results) -> Table:
    names, by_lab = agent_metrics.grid(kept)
    rows = [(lab, *marks) for lab, marks in by_lab.items()]
    text = "   ".join((agent_metrics.LEGEND, *metrics.LEGEND)).replace("   ", ". ") + "."
    return Table("See what each agent did in each lab", text, ("lab", *names), rows)
