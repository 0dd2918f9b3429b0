"""Exam of agents: each agent at each lab, healthy, faulty and fixed, in a random order.

Each trial has a fresh stack of its own with a neutral number. The results are trials in the file
format of a score, so the same card shows them.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from faultlab.agents import adapter, session, trajectory
from faultlab.agents.agent import Agent, load
from faultlab.agents.agent_protocol import Usage
from faultlab.agents.builtin import BUILT_IN, BuiltIn
from faultlab.agents.session import Session, Verdict
from faultlab.agents.ticket import TicketOnly
from faultlab.core import paths
from faultlab.core.errors import BadInput, CannotRun, Problem
from faultlab.core.naming import flat
from faultlab.core.statistics import Share
from faultlab.core.terminal import Terminal
from faultlab.core.text import number
from faultlab.engine.contract import Engine, Say
from faultlab.lab import loader as labs
from faultlab.lab.model import NO_FAULT, Lab
from faultlab.run import digest, late, placement
from faultlab.run.phase import PHASES
from faultlab.score import agent_metrics, metrics, results
from faultlab.score.diagnosis import Diagnosis
from faultlab.score.results import ALONE, TICKET, Results, Trial

_FILE = "agents.json"  # in runs/
_ABOUT = ("aborted by it", "not made", "commands", "s")  # of all its trials


@dataclass(frozen=True)
class Case:
    """One agent at one lab in one phase, for the n-th time."""

    agent: Agent | BuiltIn
    lab: Lab
    phase: str
    number: int

    @property
    def what(self) -> str:
        """Return it as text for the person who examines."""
        return f"{self.agent.id}, {self.lab.id} {self.phase} {self.number}"


def examine(
    term: Terminal,
    names: Sequence[str],
    lab_ids: Sequence[str],
    *,
    repeat: int,
    seed: int,
    json_file: str | None,
    later: float = late.MINUTES,
    ticket_only: bool = False,
) -> None:
    """Examine agents, write their trials, and print what they reached. Raises CannotRun.

    `later`: minutes after which a repair is looked at again; 0 for never. `ticket_only`: give them
    the tickets and no stacks, which needs no Docker.
    """
    if not names:
        raise BadInput("Name some agents.", "faultlab agent --help")
    if repeat < 1:
        raise BadInput("--repeat takes a number from 1 up.", "faultlab agent --help")
    examined = [BUILT_IN.get(name) or load(name) for name in dict.fromkeys(names)]
    chosen = [labs.load(lab_id) for lab_id in lab_ids or labs.ours()]
    if ticket_only and (known := [each.id for each in examined if isinstance(each, BuiltIn)]):
        raise BadInput(f"{known[0]} knows the labs, so its ticket tells nothing.", "leave it out")
    with results.opened(json_file, _FILE, "agent") as kept:
        if ticket_only:
            places = {}
            every = _tickets(examined, chosen, repeat, seed)
        else:
            places = placement.places_of(term, chosen)
            every = cases(examined, [lab for lab in chosen if lab.id in places], repeat, seed)
        kept.tools |= {
            each.id: {"title": each.title, "digest": each.digest, "version": "", "kind": "agent"}
            for each in examined
        }
        troubles = _all(term, places, every, kept, later)
        show(term, kept, [each.id for each in examined])
        if troubles:
            raise CannotRun(
                f"{len(troubles)} of {len(every)} trials could not be made: {troubles[-1]}",
                "type the same command again: it makes only the missing ones",
            )


def cases(
    examined: Sequence[Agent | BuiltIn], chosen: Sequence[Lab], repeat: int, seed: int
) -> list[Case]:
    """Return all trials in a random order, so that the number of a case tells nothing."""
    found = []
    for agent in examined:
        phases = agent.phases if isinstance(agent, BuiltIn) else PHASES
        for lab in chosen:
            times = agent.times(lab, repeat) if isinstance(agent, BuiltIn) else repeat
            found += [Case(agent, lab, phase, n + 1) for phase in phases for n in range(times)]
    random.Random(seed).shuffle(found)
    return found


def _tickets(
    examined: Sequence[Agent | BuiltIn], chosen: Sequence[Lab], repeat: int, seed: int
) -> list[Case]:
    """Return the cases of the tickets of labs with a fault, in a random order."""
    ill = [lab for lab in chosen if not lab.control]
    found = [Case(a, lab, TICKET, n + 1) for a in examined for lab in ill for n in range(repeat)]
    random.Random(seed).shuffle(found)
    return found


def _all(
    term: Terminal,
    places: dict[str, Engine],
    every: Sequence[Case],
    kept: Results,
    later: float = 0.0,
) -> list[str]:
    """Make the missing trials. One that fails is reported and left for the next time."""
    troubles = []
    for i, case in enumerate(every, 1):
        made_of = case.agent.digest, digest.fault(case.lab)
        key = case.agent.id, case.lab.id, case.phase, case.number, ALONE
        if kept.has(key, made_of) and kept.trials[key].kind == "diagnosis":
            continue
        with term.step("case", case.what) as step:
            try:
                if case.phase == TICKET:
                    trial = _by_ticket(case, i, made_of)
                else:
                    engine = places[case.lab.id]
                    trial = _trial(engine, case, i, made_of, later=later, note=step.note)
            except Exception as problem:  # the judge can break too
                why = str(problem) if isinstance(problem, Problem) else repr(problem)
                troubles.append(f"{case.what}: {why}")
                kept.add([_failed(case, made_of, why)])
                step.done(f"{i} of {len(every)}: {case.what}: could not be made")
                term.say(f"{'':<9} {why}")
                continue
            kept.add([trial])
            step.done(f"{i} of {len(every)}: {case.what}: {_words(trial)}")
    return troubles


def _trial(
    engine: Engine,
    case: Case,
    number: int,
    made_of: tuple[str, str],
    *,
    later: float = 0.0,
    note: Say = lambda _: None,
) -> Trial:
    """Make one trial. Raises Lost, SaidNo or CannotRun, which are no results."""
    with session.open(engine, case.lab, case.phase, number, later) as its:
        usage, ended = Usage(), ""
        if isinstance(case.agent, BuiltIn):
            case.agent.work(its, case.phase, case.number)
        else:
            usage, ended = adapter.work(case.agent, its, paths.runs() / its.record / adapter.LOG)
        verdict = its.finish(note)
        return Trial(
            *(case.agent.id, case.lab.id, case.phase, case.number, *made_of),
            "diagnosis",
            diagnosis(its, verdict, ended),
            run=its.record,
            way=ALONE,
            agent=_facts(verdict, usage),
        )


def _by_ticket(case: Case, number: int, made_of: tuple[str, str]) -> Trial:
    """Make one trial with the ticket alone. It repairs nothing, and has no commands."""
    assert isinstance(case.agent, Agent)
    folder = paths.runs() / "tickets" / f"{case.agent.id}-{flat(case.lab.id)}-{case.number}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / trajectory.FILE).unlink(missing_ok=True)
    its, began = TicketOnly(case.lab, number, folder), time.monotonic()
    usage, ended = adapter.work(case.agent, its, folder / adapter.LOG)
    seconds = round(time.monotonic() - began, 3)
    agent: results.AgentTrial = {  # type: ignore[typeddict-item]  # its configuration is no key
        "repaired": None,
        "commands": 0,
        "seconds": seconds,
        "tokens": usage.tokens,
        "cost": usage.cost,
    }
    if usage.model:
        agent["model"] = usage.model
    key = case.agent.id, case.lab.id, TICKET, case.number
    said = _said(its.answer, seconds, ended)
    return Trial(*key, *made_of, "diagnosis", said, way=ALONE, agent=agent)


def _facts(verdict: Verdict, usage: Usage) -> results.AgentTrial:
    found: results.AgentTrial = {  # type: ignore[typeddict-item]  # its configuration is no key
        "repaired": verdict.repaired,
        "commands": verdict.commands,
        "seconds": verdict.seconds,
        "tokens": usage.tokens,
        "cost": usage.cost,
        "waited": verdict.waited,
        "visits": verdict.visits,
        "visits_lost": verdict.visits_lost,
    }
    if usage.model:
        found["model"] = usage.model
    if verdict.later:
        found["later"] = verdict.later
    if verdict.aborted:
        found["aborted"] = verdict.aborted
    if verdict.decoys:
        found["decoys"] = verdict.decoys
    return found


def _failed(case: Case, made_of: tuple[str, str], why: str) -> Trial:
    """Return a trial that ended with an error of ours. The same command makes it again."""
    return Trial(
        *(case.agent.id, case.lab.id, case.phase, case.number, *made_of),
        "unknown",
        reason=why,
        way=ALONE,
        agent=results.AgentTrial(  # type: ignore[typeddict-item]  # its configuration is no key
            repaired=None, commands=0, seconds=0.0, tokens=None, cost=None
        ),
    )


def diagnosis(its: Session, verdict: Verdict, ended: str = "") -> Diagnosis:
    """Return what an agent named in the form of a tool's diagnosis. `ended`: how it ended."""
    return _said(its.answer, verdict.seconds, ended)


def _said(answer: dict[str, str] | None, seconds: float, ended: str) -> Diagnosis:
    cause = answer["cause"] if answer else NO_FAULT
    evidence = [f"resource: {answer['resource']}"] if answer else []
    evidence += [ended] if ended else []
    if answer is None or cause == NO_FAULT:
        return Diagnosis(False, evidence=evidence, seconds=seconds)
    return Diagnosis(True, [cause], answer["component"], evidence, seconds)


def _words(trial: Trial) -> str:
    named = ", ".join(trial.diagnosis.causes) if trial.diagnosis else ""
    if trial.phase == TICKET:
        return f"by the ticket alone it names {named or 'no fault'}"
    served = "are served" if trial.agent and trial.agent["repaired"] else "are not served"
    how = ", it has ended a machine" if trial.agent and trial.agent.get("aborted") else ""
    astray = trial.agent.get("decoys", []) if trial.agent else []
    led = f", led astray by {', '.join(astray)}" if astray else ""
    return f"the users {served}{how}, and it names {named or 'no fault'}{led}"


def show(term: Terminal, kept: Results, names: Sequence[str]) -> None:
    """Print what each agent reached."""
    term.say()
    term.table(
        ("agent", "repaired", "cause named", "false alarms", "left healthy", *_ABOUT),
        [
            [
                row.tool,
                *(share.text for share in (row.repaired, row.cause, row.false)),
                _left_healthy(kept, row.tool).text,
                *(row.aborted.text, row.lost.text),
                *("-" if each is None else number(each) for each in (row.commands, row.seconds)),
            ]
            for row in agent_metrics.rows(kept)
            if row.tool in names
        ],
    )
    for row in agent_metrics.rows(kept):
        if row.tool in names and row.ticket_cause.of:
            cause, where = row.ticket_cause.text, row.ticket_component.text
            term.say(f"{row.tool}, by the ticket alone: cause {cause}; component {where}.")


def _left_healthy(kept: Results, name: str) -> Share:
    """Return how often an agent left a system as healthy as it was."""
    its = [t for t in kept.trials.values() if t.tool == name and kept.current(t)]
    others = [t.agent for t in its if not metrics.has_fault(t)]
    known = [each["repaired"] for each in others if each and each["repaired"] is not None]
    return Share(len(known), sum(known))
