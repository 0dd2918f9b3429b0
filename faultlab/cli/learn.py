"""Learn: the verbs for one person who works on a lab."""

from functools import partial
from typing import Any

from click import Choice, IntRange, argument, option

from faultlab.cli.verb import BY_NAME, ENGINE, EVENTS, LAB, MINUTES, many, spelled, verb
from faultlab.core import defaults
from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal


@verb("2", "mtu somaxconn gzip", "mtu --engine vm", "mtu --blind")
@many("labs", "one or more labs of `faultlab list`", required=True)
@option("--blind", is_flag=True, help="hide which lab it is, for somebody else")
@option("--decoys", type=int, default=0, metavar="N", help="with --blind: how many false leads (0)")
@option("--room", default="", metavar="LAB", callback=spelled, help="whose fault can join later")
@ENGINE
@EVENTS
def start(
    term: Terminal, labs: tuple[str, ...], *, blind: bool, decoys: int, room: str, wanted: str
) -> object:
    """Start a lab, prove its symptom and print the ticket; several labs start side by side."""
    if decoys and (not blind or len(set(labs)) > 1):
        raise BadInput("--decoys needs one lab and --blind.", "faultlab start --help")
    if len(set(labs)) > 1:
        from faultlab.learn import start_many

        return start_many.start(term, labs, wanted, blind)
    from faultlab.learn import learner

    return learner.start(term, labs[0], wanted, blind, decoys, room=room)


@verb("mtu", "mtu web")
@LAB
@argument("machine", default="", help="machine or daemon (client)")
def shell(_term: Terminal, lab: str, machine: str) -> None:
    """Log in to a machine of a lab that is up."""
    from faultlab.learn import learner
    from faultlab.oncall import shift

    if lab == defaults.ONCALL:
        shift.looked(machine or "client")
    learner.shell(lab, machine)


@verb("mtu")
@LAB
@EVENTS
def hint(term: Terminal, lab: str) -> object:
    """Show the next hint."""
    from faultlab.learn import hints

    return hints.hint(term, lab)


@verb("mtu", "mtu --later", "mtu --later 10 --json")
@LAB
@option(
    "--later",
    type=MINUTES,
    is_flag=False,
    flag_value="3",
    metavar="[MINUTES]",
    help="look again after this many minutes, which counts (3); 0 for a mystery: never",
)
@option("--late", "only_late", is_flag=True, hidden=True)
@EVENTS
def check(term: Terminal, lab: str, later: float | None, only_late: bool) -> object:
    """Measure the symptom as it is now: is it fixed?"""
    from faultlab.learn import checking

    return checking.check(term, lab, later, only_late=only_late)


@verb("mtu", "packet-loss 2")
@LAB
@argument("fault", required=False, type=int, help="fix only this one of several faults (all)")
@EVENTS
def fix(term: Terminal, lab: str, fault: int | None) -> object:
    """Apply the documented fix."""
    from faultlab.learn import learner

    return learner.fix(term, lab, fault)


@verb("mtu", "mystery --give-up")
@LAB
@option("--give-up", is_flag=True, help="end a mystery and show its solution")
def debrief(term: Terminal, lab: str, give_up: bool) -> object:
    """Show the lesson; for a mystery, also the solution and your points."""
    from faultlab.learn import learner, mystery

    if lab == defaults.MYSTERY:
        return mystery.debrief(term, give_up)
    return learner.debrief(term, lab)


@verb("", "--track queries", "--new")
@option("--track", metavar="TRACK", help="packets, queues, memory, queries or bytes")
@option("--new", is_flag=True, help="leave out labs that come back because they went badly")
@BY_NAME
def next_(term: Terminal, track: str | None, *, new: bool, by_name: bool) -> object:
    """Recommend the lab to take now."""
    from faultlab.learn import progress

    return progress.next_(term, track, new=new, by_name=by_name)


@verb("", "--page progress.html")
@option("--page", metavar="FILE", help="also write an HTML page")
@BY_NAME
def progress(term: Terminal, page: str | None, *, by_name: bool) -> object:
    """Show what you have solved so far."""
    from faultlab.learn import progress

    return progress.show(term, page, by_name)


@verb("mystery session-lock", "mtu --decoy old-overflow")
@LAB
@argument("fault", default="", callback=spelled, help="the lab whose fault joins (none)")
@option("--decoy", default="", metavar="ID", help="a false lead of `faultlab decoys` joins")
@EVENTS
def join(term: Terminal, lab: str, fault: str, decoy: str) -> object:
    """Let a second fault or a false lead join a lab that is up, as a trainer does."""
    from faultlab.learn import join

    return join.join(term, lab, fault, decoy)


@verb("", "--tier web --level 3", "--seed 7")
@option("--seed", type=int, metavar="S", help="repeat the draw of this seed (random)")
@option("--tier", metavar="TIER", help="web, app or data (all)")
@option("--level", type=int, metavar="N", help="highest level, 1 to 5 (5)")
@option("--hard", is_flag=True, help="its fault is so weak that users only just feel it")
@option("--faults", type=int, default=1, metavar="N", help="how many faults at once (1)")
@option("--decoys", type=int, default=0, metavar="N", help="how many false leads (0)")
@ENGINE
def mystery(
    term: Terminal,
    *,
    seed: int | None,
    tier: str | None,
    level: int | None,
    **how: Any,
) -> object:
    """Start a lab that is drawn at random and does not say which one it is."""
    from faultlab.learn import mystery

    return mystery.start(term, seed, tier, level, **how)


@verb("mtu netem-loss", "mtu --draws 8 --seed 3")
@many("labs", "a lab and its twin, or a lab", required=True)
@option("--draws", type=int, metavar="N", help=f"how many draws ({defaults.EXAM_DRAWS})")
@option("--seed", type=int, metavar="S", help="repeat the draws of this seed (random)")
@option("--new", "anew", is_flag=True, help="do not continue one that was stopped")
@ENGINE
@EVENTS
def exam(term: Terminal, labs: tuple[str, ...], **how: Any) -> object:
    """Tell two causes with one symptom apart, draw by draw."""
    from faultlab.learn import exam

    return exam.exam(term, labs, **how)


@verb("--hours 2 --seed 3", "mtu gzip nagle --hours 0.7", "--report RUN")
@many("labs", "labs whose faults can happen (those proven together)")
@option("--hours", type=float, default=2.0, metavar="H", help="how long the shift is (2)")
@option("--seed", type=int, metavar="S", help="repeat the draw of this seed (random)")
@option("--webhook", metavar="URL", help="gets each page as JSON")
@option("--agent", metavar="AGENT", help="takes the pages for you: checklist, or your own")
@option("--report", "run", metavar="RUN", help="show the report of a shift that is over")
@ENGINE
def oncall(
    term: Terminal, labs: tuple[str, ...], *, run: str | None, agent: str | None, **how: Any
) -> object:
    """Be on call: faults come, go and return on a stack that lives for hours."""
    from faultlab.agents import oncall
    from faultlab.agents.agent import load
    from faultlab.oncall import shift

    if run:
        return shift.again(term, run)
    taker = partial(oncall.Taker, load(agent)) if agent else None
    return shift.oncall(term, labs, taker=taker, **how)


@verb(
    "--component web --resource network --cause mtu --sure 80",
    "--component none --resource none --cause none",
)
@option("--component", required=True, metavar="WORD", help="component, or none")
@option("--resource", required=True, metavar="WORD", help="resource, or none")
@option("--cause", required=True, metavar="WORD", help="cause, or none")
@option("--also", is_flag=True, help="one more fault, besides the previous answer")
@option("--sure", type=IntRange(0, 100), metavar="N", help="how sure you are, in per cent")
@option(
    "--lab",
    type=Choice((defaults.MYSTERY, defaults.ONCALL)),
    help="which of the two you answer, if both are up",
)
def diagnose(
    term: Terminal,
    component: str,
    resource: str,
    cause: str,
    *,
    also: bool,
    sure: int | None,
    lab: str | None,
) -> object:
    """Answer what is wrong in the mystery or the shift that is up, in the words of `terms`."""
    from faultlab.learn import mystery
    from faultlab.oncall import shift

    if shift.is_answered(lab):
        if sure is not None:
            raise BadInput(
                "--sure goes with a mystery, not with a shift.", "type it without --sure"
            )
        return shift.answered(term, component, resource, cause)
    return mystery.diagnose(term, component, resource, cause, also=also, sure=sure)


@verb("mtu")
@LAB
@ENGINE
@EVENTS
def reset(term: Terminal, lab: str, wanted: str) -> object:
    """Go back to the injected state."""
    from faultlab.learn import learner

    return learner.reset(term, lab, wanted)


@verb("mtu")
@LAB
@EVENTS
def down(term: Terminal, lab: str) -> object:
    """Remove a lab."""
    from faultlab.learn import learner

    return learner.down(term, lab)
