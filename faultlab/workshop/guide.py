"""Guide: the trainer's papers for a class, as Markdown, made from the labs.

A page for each block, slides, what is needed before, and a form for feedback. Nothing is started.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faultlab.core import paths
from faultlab.core.terminal import Terminal
from faultlab.core.text import markdown
from faultlab.lab import checks, vocabulary
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab, Step, Truth
from faultlab.learn import hints
from faultlab.verify.lesson import typed
from faultlab.workshop import lessons, papers, size, slides
from faultlab.workshop.blocks import what
from faultlab.workshop.export import ClassId
from faultlab.workshop.folder import Folder
from faultlab.workshop.parts import Part, of_seats, of_size, parts
from faultlab.workshop.plan import ClassPlan, read
from faultlab.workshop.timetable import begins, clock

_SILENCE = 5  # minutes from one hint to the next
_TICKET = 3  # minutes to read a ticket aloud
_LINE = 120  # characters of a command; the lesson has the whole


@dataclass(frozen=True)
class Written:
    """The files of a guide."""

    class_: ClassId
    files: list[str]


@dataclass(frozen=True)
class Sized:
    """The needs of a class, as it is and with another number of seats."""

    class_: ClassId
    sizes: list[size.Size]


def write(term: Terminal, file: str, to: str | None) -> Written:
    """Write the papers of a class into a folder. Raises BadInput."""
    plan = read(file)
    folder = Path(to) if to else Folder(plan.id).path / "guide"
    chosen, settled = of_seats(plan)
    every = parts(plan, chosen)
    waits = size.queues(plan, chosen)
    made = {
        part.file: page(plan, part, settled, [w for w in waits if w.block in (0, part.number)])
        for part in every
    }
    made |= {
        "README.md": papers.overview(plan, every, file),
        "prerequisites.md": papers.prerequisites(plan, chosen, file),
        "feedback.md": papers.feedback(plan, every),
        "slides.md": slides.deck(plan, [(p.heading, p.time, p.drawn, p.each) for p in every]),
    }
    if to is None:
        Folder(plan.id).make()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (folder / name).write_text(text)
    term.say(f"Written into {paths.show(folder)}: {', '.join(sorted(made))}.")
    term.say("Begin with README.md. The pages have all answers: they are for you alone.")
    return Written(plan.id, [str(folder / name) for name in sorted(made)])


def lint(term: Terminal, file: str, seats: int | None) -> Sized:
    """Print the timetable of a class, what it needs, and where it waits. Raises BadInput."""
    plan = read(file)
    term.heading(f"{plan.title}: {len(plan.seats)} seats")
    if plan.block:
        rows = [
            (clock(begin), block.title, f"{block.minutes:g}", what(block))
            for begin, block in zip(begins(plan.block), plan.block, strict=True)
        ]
        term.table(("begins", "block", "min", "labs"), rows)
    for one in plan.event:
        where = f" into block {one.block}" if one.block else ""
        term.say(f"{one.at}{where}, {', '.join(one.seats) or 'all seats'}: {one.text}")
    sizes = [
        of_size(plan, count) for count in dict.fromkeys([len(plan.seats), seats or 0]) if count
    ]
    for its in sizes:
        for line in papers.said(its):
            term.say(line)
    return Sized(plan.id, sizes)


# --- the page of a block ---


def page(plan: ClassPlan, part: Part, settled: bool, queues: Sequence[size.Queue]) -> str:
    """Return the trainer's page of a block. `queues`: where its checks wait for each other."""
    how = "blind" if part.blind else "named"
    lines = [f"# {part.heading}", "", f"{part.time}, {part.minutes:g} minutes, {how}."]
    lines += ["", part.note] if part.note else []
    lines += ["", "## Timetable", "", *_timetable(part)]
    if part.drawn:
        lines += ["", *_draws(plan, part, settled)]
    else:
        for lab in part.each:
            lines += ["", *_lab(plan, part, lab)]
    lines += ["", "## Plan B", "", *_plan_b(part, queues), "", "## Debrief", "", *_debrief(part)]
    return "\n".join(lines).rstrip() + "\n"


def _timetable(part: Part) -> list[str]:
    debrief = max(5, round(part.minutes / 5))
    count = max(map(len, part.labs))
    work = max(1, round(part.minutes - debrief - _TICKET))
    each = f"about {work // count} for each of {count} labs" if count > 1 else "for one lab"
    first = "Read the first ticket aloud, and nothing else."
    if part.drawn:
        first = "Each one reads a ticket of their own."
    told = {
        0: f"Say what the block is about. {first}",
        _TICKET: f"They work: {work} minutes, {each}. Walk around, do not type.",
        _TICKET + work // 2: "Ask one seat what it has ruled out, not what it thinks.",
        _TICKET + work: f"Debrief, {debrief} minutes: hands off the keyboards.",
    }
    lines = markdown(["minute", "what"], [[str(minute), text] for minute, text in told.items()])
    if part.drawn:
        return lines
    alone = sum(lab.minutes for lab in part.each)
    if alone > work:
        lines += ["", f"One person alone takes {alone} minutes for these labs, so not every seat"]
        lines += ["will finish. Say so at the beginning: what counts is what was ruled out."]
    return lines


def _lab(plan: ClassPlan, part: Part, lab: Lab) -> Iterator[str]:
    """Yield what a trainer needs for a lab that all seats have."""
    yield from (f"## `{lab.id}`: {lab.title}", "", "### Objectives", "")
    yield f"Track: {lab.collection.tracks[lab.track]}. After it a participant can"
    yield ""
    yield from _objectives(lab)
    yield from ("", "The rule to take home:", "", f"> {lessons.rule(lab.lesson)}", "")
    yield from (
        "### Say",
        "",
        "Read the ticket aloud:",
        "",
        *_quoted(lessons.plain(lab.ticket)),
        "",
    )
    first = next((rung.text for rung in lab.hint if rung.when is None), "")
    yield f'Then wait. If no seat begins: "{_hint(lab, first)}"'
    yield from ("", "### Expected answers", "", *_answers(lab, part.blind))
    yield from ("", "### Typical wrong turns", "", *_wrong_turns(lab))
    yield from ("", "### Hints, when it is quiet", "", *_ladder(plan, part, lab))


def _objectives(lab: Lab) -> Iterator[str]:
    if lab.control:
        yield "- say that nothing is wrong, and by which numbers"
    elif meaning := vocabulary.meanings(lab)["cause"].get(lab.truth.cause):
        yield f"- explain how this leads to what users saw: {meaning}"
    if shown := [each.command for each in checks.load(lab).evidence if each.command]:
        yield f"- find it with {papers.listed(f'`{command}`' for command in dict.fromkeys(shown))}"
    if lab.twins:
        twins = papers.listed(f"`{twin}`" for twin in lab.twins)
        yield f"- tell it apart from {twins}, which look alike"
    yield "- prove the repair by what users get, not by a setting"


def _answers(lab: Lab, blind: bool) -> Iterator[str]:
    """Yield what a diagnosis names, where it shows, and what repairs it."""
    meanings = vocabulary.meanings(lab)
    for truth in labs.truths(lab)[:1]:
        words = truth.model_dump()
        rows = [[part, f"`{word}`", meanings[part].get(word, "")] for part, word in words.items()]
        yield from markdown(["part", "answer", "in words"], rows)
    if others := labs.truths(lab)[1:]:
        yield f"\nAlso right: {papers.listed(map(_truth, others))}."
    if not blind:
        yield "\nNo answer is asked for here. Let them say it aloud all the same."
    check = checks.load(lab)
    shown = [each for each in check.evidence if each.command]
    if shown:
        rows = [[each.name, f"`{each.machine}# {_cell(each.command)}`"] for each in shown]
        yield from ("", "Where it shows:", "", *markdown(["what", "typed"], rows))
    if users := [[each.when_bad, each.when_good] for each in check.symptom if each.when_bad]:
        told = markdown(["what the check says before the repair", "and after it"], users)
        yield from ("", *told)
    if lab.fix:
        yield from ("", "The repair:", "", "```", *map(typed, lab.fix), "```", "")
        yield from ("Also accepted:", "")
        yield from (f"- {_steps(each.steps)}  \n  {each.why}" for each in lab.alternative)


def _truth(truth: Truth) -> str:
    return ", ".join(truth.model_dump().values())


def _cell(words: str) -> str:
    return words.replace("|", r"\|").replace("\n", " ")


def _steps(steps: Sequence[Step], most: int = _LINE) -> str:
    """Return steps in one line, and what is too long for it cut off."""
    return "; ".join(f"`{lessons.short(typed(step), most)}`" for step in steps)


def _quoted(text: str) -> list[str]:
    return [f"> {line}".rstrip() for line in text.strip().splitlines()]


def _wrong_turns(lab: Lab) -> Iterator[str]:
    yield "What participants try, and why it does not help:"
    yield ""
    for remedy in lab.cheat:
        yield f"- {_steps(remedy.steps)}  \n  {remedy.why}"
    if alike := lessons.alike(lab.lesson):
        yield from ("", "What they take it for:", "", *(f"- {each}" for each in alike))


def _hint(lab: Lab, text: str) -> str:
    return lessons.without_make(hints.as_typed(lab, lessons.plain(text)))


def _ladder(plan: ClassPlan, part: Part, lab: Lab) -> Iterator[str]:
    """Yield a hint for each five minutes of silence, and those for a repair that is half done."""
    most = plan.most_hints(part.number if plan.block else 0)
    general = [rung for rung in lab.hint if rung.when is None]
    rows = [
        [f"{_SILENCE * i} min", _cell(_hint(lab, rung.text)), str(rung.cost)]
        for i, rung in enumerate(general, 1)
    ]
    yield from markdown(["silence", "say", "on the page it costs"], rows)
    if most is not None:
        yield f"\nThe page gives at most {most} of them."
    if half := [rung for rung in lab.hint if rung.when is not None]:
        yield from ("", "When the repair is half done:", "")
        yield from (f"- {_hint(lab, rung.text)}" for rung in half)


# --- draws ---


def _draws(plan: ClassPlan, part: Part, settled: bool) -> Iterator[str]:
    """Yield who has which lab, and a card for each of these labs."""
    yield from ("## Objectives", "")
    yield "Each participant"
    yield ""
    yield "- begins with what users get, not with a favourite tool"
    yield "- names component, resource and cause, and can say which number decided it"
    yield (
        "- says that nothing is wrong where that is true"
        if _has_control(part)
        else ("- repairs what users feel, and proves it with a check")
    )
    yield from ("", "## Say", "")
    yield '"Each of you has a different fault, and one or two of you may have none. Your page has'
    yield "the ticket. Find out what it is before you change anything. The answer gives 30 points,"
    yield 'the repair ten. The last answer counts, and each one after the first costs five."'
    yield from ("", "## Expected answers", "")
    if not settled:
        yield "The class has not begun, so these are the draws as far as they can be known: a lab"
        yield "that your machine cannot run gives way to another. Write them again after the start."
        yield ""
    rows = []
    for name, its in zip(plan.seats, part.labs, strict=True):
        words = [f"`{lab}`: {_truths(lab)}" for lab in its]
        rows.append([_cell(name), "; ".join(words)])
    yield from markdown(["seat", "lab: component, resource, cause"], rows)
    yield from ("", "## The labs", "")
    for lab in part.each:
        yield from _card(plan, part, lab)


def _has_control(part: Part) -> bool:
    return any(lab.control for lab in part.each)


def _truths(lab_id: str) -> str:
    lab = labs.loaded(lab_id)
    every = [fault.truth for fault in lab.fault] if lab.folders else [lab.truth]
    return " and ".join(map(_truth, every))


def _card(plan: ClassPlan, part: Part, lab: Lab) -> Iterator[str]:
    """Yield a lab in short: where it shows, what repairs it, and where they go wrong."""
    seats = [
        _cell(name)
        for name, its in zip(plan.seats, part.labs, strict=True)
        if any(lab.id in (each, *labs.loaded(each).of) for each in its)
    ]
    yield from (f"### `{lab.id}`: {lab.title}", "", f"At: {', '.join(seats)}.", "")
    if causes := lessons.causes(lab.lesson, 2):
        yield from (" ".join(causes), "")
    shown = [each for each in checks.load(lab).evidence if each.command][:2]
    for each in shown:
        yield f"- shows: {each.name}, `{each.machine}# {each.command}`"
    if lab.control:
        yield "- right: no user is harmed, so the answer is none, none, none"
    if lab.fix:
        yield f"- {'can be put right' if lab.control else 'repair'}: {_steps(lab.fix)}"
    yield f"- wrong turn: {_steps(lab.cheat[0].steps)}. {lab.cheat[0].why}"
    general = [rung for rung in lab.hint if rung.when is None]
    yield f'- when it is quiet: "{_hint(lab, general[0].text)}"' if general else "- no hint"
    yield ""


# --- plan B and debrief ---


def _plan_b(part: Part, queues: Sequence[size.Queue]) -> Iterator[str]:
    first = part.each[0]
    yield "- **One seat says `failed`.** *Start over* in its row. If it fails again, put the person"
    yield "  beside a neighbour: one types and one talks. Nothing of the class is lost by that."
    yield "- **No seat gets the lab.** `faultlab doctor` says what the machine lacks. Meanwhile"
    yield f"  show the transcripts of `labs/{first.folder.name}/README.md` on the projector:"
    yield "  symptom, diagnosis and repair are there, from a real run. Stop before each conclusion,"
    yield "  and let them predict the next number."
    used = {lab.id for lab in part.each}
    if instead := [twin for lab in part.each for twin in lab.twins if twin not in used]:
        yield f"- **You need another lab.** `{instead[0]}` looks alike: play it once yourself with"
        yield f"  `make lab-{instead[0]}` and the projector."
    if queues:
        longest = max(queues, key=lambda queue: queue.last or 0)
        yield f"- **Checks queue.** {longest.text}"
        yield "  Let pairs share a check, or debrief the first half while the others wait."
    yield "- **The machine is slow.** A start that a busy machine has spoiled is made again by"
    yield "  itself. Close other programs, and let pairs work at one seat."


def _debrief(part: Part) -> Iterator[str]:
    """Yield the questions of the lessons, with their answers."""
    if part.drawn:
        yield "Ask each seat in turn, and write the answers where all see them:"
        yield ""
        yield "1. What did users get, and what was the first number that was not as it should be?"
        yield "2. What did you rule out, and by which number?"
        yield '3. Who answered "nothing is wrong"? What would have changed your mind?'
        yield ""
    shown = part.each[:4] if part.drawn else part.each
    for lab in shown:
        found = [*lessons.questions(lab.lesson)][: 1 if part.drawn else 2]
        for question, answer in found:
            yield f"**{question}**" if not part.drawn else f"**`{lab.id}`: {question}**"
            yield from ("", textwrap.dedent(answer), "")
