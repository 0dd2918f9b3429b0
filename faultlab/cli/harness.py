"""Harness: the verbs for programs that give labs to an agent."""

import os

from click import IntRange, argument, option

from faultlab.cli.verb import LAB, LATER, PHASE, verb
from faultlab.core import extra
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal


@verb("mtu", "mtu --phase healthy")
@LAB
@PHASE
@option(
    "--number",
    type=IntRange(min=0),
    default=1,
    metavar="N",
    help="of the case, which is its only name (1)",
)
@LATER
def mcp(_term: Terminal, lab: str, phase: str, number: int, later: float) -> None:
    """Give a lab to an agent, blind, as tools: an MCP server on standard input and output."""
    from faultlab.agents.cases import Case
    from faultlab.lab import loader

    case = Case(lab=loader.load(lab).id, phase=phase, number=number, later=later)
    with extra.needed(of="mcp", what="The server needs"):
        from faultlab.agents import mcp_server
    _apart()
    mcp_server.server(case).run()


@verb("tasks", "tasks --labs mtu,healthy --phases faulty")
@argument("folder", help="a new folder")
@option("--labs", metavar="LAB,LAB", help="use only these labs (all that run here)")
@option("--phases", default="healthy,faulty,fixed", help="(healthy,faulty,fixed)")
@option("--seed", default=0, metavar="S", help="seed of the random order (0)")
@LATER
def harbor(
    term: Terminal, folder: str, *, labs: str | None, phases: str, seed: int, later: float
) -> object:
    """Write a task for Harbor for each lab in each phase, under neutral names."""
    from pathlib import Path

    from faultlab.agents import harbor_tasks

    chosen = labs.split(",") if labs else []
    written = harbor_tasks.write(Path(folder), chosen, phases.split(","), seed, later)
    term.say(f"{len(written.tasks)} tasks are in {folder}. Next:")
    where = "faultlab.agents.harbor_lab"
    term.command(
        f"harbor run -p {folder} -n 1 -a oracle -e {where}:Environment --verifier {where}:Verifier"
    )
    return written


def _apart() -> None:
    """Go on in a session of the kernel of its own, and wait for it here.

    A client kills its server a few seconds after it has closed the input. The stack must be gone
    in the end all the same.
    """
    if child := os.fork():
        try:
            _, status = os.waitpid(child, 0)
        except KeyboardInterrupt:  # the client has no more patience
            raise SystemExit(CannotRun.exit_code) from None
        raise SystemExit(os.waitstatus_to_exitcode(status) % 256)
    os.setsid()
