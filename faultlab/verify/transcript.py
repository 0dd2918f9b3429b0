"""Transcript: the terminal sessions in the documents, recorded by a run and never typed by hand.

A block is a comment `<!-- transcript: PHASE -->` and then a fenced `console` block. In a lab's
README the phase is healthy, faulty or fixed, or `fixed2` after the fix of the first two of several
faults. In a document of the project it is `host`.

Lines that begin with a prompt (`web# …`, `$ …`) are run, and the lines below them are replaced. A
document of the project that says `<!-- lab: ID -->` has blocks like a lab's README, from that lab
in the VM.
"""

import re
from collections.abc import Callable
from pathlib import Path

from faultlab.core import lock
from faultlab.core.command import run as run_command
from faultlab.core.errors import BadInput
from faultlab.core.naming import stack_name
from faultlab.core.paths import needs_checkout, root, show
from faultlab.core.terminal import Step, Terminal
from faultlab.engine.contract import Engine
from faultlab.lab import loader as labs
from faultlab.lab import release
from faultlab.lab.model import Lab
from faultlab.run import inject, placement
from faultlab.run.phase import FAULTY, FIXED, HEALTHY
from faultlab.run.run import Run
from faultlab.run.stack_in_phase import stack_in_phase

_BLOCK = re.compile(
    r"<!-- transcript: (?P<phase>\w+)(?:, run (?P<run>\S+))? -->\n```console\n(?P<body>.*?)^```\n",
    re.DOTALL | re.MULTILINE,
)
_LAB = re.compile(r"^<!-- lab: (\S+) -->$", re.MULTILINE)
_PROMPT = re.compile(r"(?P<place>[a-z][a-z0-9-]*#|\$) (?P<command>.+)")
_LINES = 24  # lines of output of one command that a lesson shows
_SECONDS = 180  # a tool that compiles itself takes a minute in a VM without KVM
_PAGE = 80  # and that a document of the project shows
_HOUR = 3600  # `matrix --all` takes a quarter of it without KVM

Execute = Callable[[str, str], str]


def record(term: Terminal, target: str) -> None:
    """Record all transcripts of a lab's README, or of a document of the project (`README.md`)."""
    release.needs_written("transcript")
    if target.endswith(".md") or labs.load(target).collection.ours:
        needs_checkout("transcript")
    if target.endswith(".md") and (its_lab := _LAB.search((root() / target).read_text())):
        _of_lab(term, labs.load(its_lab[1]), root() / target, "vm")
        return
    if target.endswith(".md"):
        with term.step("record", f"running the commands of {target}") as step:
            _rewrite(root() / target, {"host": "host"}, _on_host, _PAGE)
            step.done(target)
        return
    lab = labs.load(target)
    _of_lab(term, lab, lab.folder / "README.md", "auto")


def _of_lab(term: Terminal, lab: Lab, file: Path, wanted: str) -> None:
    name = stack_name(lab.id)
    with lock.hold(name, f"transcript {lab.id}"):
        engine = placement.choose(term, lab, wanted)
        with term.step("record", "starting") as step:
            _walk(engine, lab, file, step)


def _walk(engine: Engine, lab: Lab, file: Path, step: Step) -> None:
    with stack_in_phase(engine, lab, stack_name(lab.id)) as run:
        run.collect(on=False)  # so that a learner's `ps` matches the lesson
        for phase in phases(lab):
            step.note(phase)
            _reach(run, phase)
            _rewrite(file, {phase: run.record.id}, lambda at, cmd: _on_machine(run, at, cmd))
    step.done(show(file))


def phases(lab: Lab) -> list[str]:
    """Return the phases that a lesson can show, in this order."""
    return [HEALTHY, FAULTY, *map(_mended, range(1, len(lab.fault))), FIXED]


def _mended(count: int) -> str:
    """Return the phase after the fixes of so many of several faults, in their order."""
    return f"{FIXED}{count}"


def _reach(run: Run, phase: str) -> None:
    """Bring the run into its next phase, measured as in any other run."""
    if phase in (HEALTHY, FAULTY):
        run.enter(phase)
        run.prove(phase)
    else:
        faults = run.lab.faults
        count = int(phase.removeprefix(FIXED) or len(faults))
        run.apply("fix", faults[count - 1].fix)
        if phase == FIXED:
            run.measure(FIXED)


def blocks(text: str) -> list[tuple[str, str, str]]:
    """Return the transcripts of a document: phase, run id (empty if never recorded), body."""
    return [(m["phase"], m["run"] or "", m["body"]) for m in _BLOCK.finditer(text)]


def again(run: Run, body: str) -> str:
    """Run the commands of a block again and return their output."""
    typed = [found for line in body.splitlines() if (found := _PROMPT.fullmatch(line))]
    return "".join(_on_machine(run, found["place"], found["command"]) for found in typed)


def _rewrite(file: Path, phases: dict[str, str], execute: Execute, most: int = _LINES) -> None:
    """Run the commands of the blocks of these phases and insert their output."""

    def replace(match: re.Match[str]) -> str:
        phase = match["phase"]
        if phase not in phases:
            return match[0]
        body = ""
        for line in match["body"].splitlines():
            prompt = _PROMPT.fullmatch(line)
            if prompt:
                output = _shorten(execute(prompt["place"], prompt["command"]), most)
                body += line + "\n" + output
        return f"<!-- transcript: {phase}, run {phases[phase]} -->\n```console\n{body}```\n"

    file.write_text(_BLOCK.sub(replace, file.read_text()))


def _shorten(output: str, most: int = _LINES) -> str:
    lines = [line.rstrip() for line in output.rstrip().splitlines()]
    if len(lines) > most:
        lines = [*lines[: most - 5], "…", *lines[-4:]]
    return "".join(f"{' ' if line.startswith('```') else ''}{line}\n" for line in lines)


def _on_machine(run: Run, place: str, command: str) -> str:
    if place == "$":
        command = inject.typable(f"$ {command}", run.stack.name).removeprefix("$ ")
        done = run_command(["sh", "-c", command], timeout=60)
        return (done.stdout + done.stderr).replace(f"{run.stack.name}-", "…-")
    at = run.stack.shell(place.removesuffix("#"))
    return at.run(f"{{ {command}\n}} 2>&1", timeout=_SECONDS).out


def _on_host(place: str, command: str) -> str:
    if place != "$":
        raise BadInput(f"A document of the project runs commands on the host only, not {place}")
    done = run_command(["sh", "-c", f"cd {root()} && {{ {command}\n}} 2>&1"], timeout=_HOUR)
    return done.stdout
