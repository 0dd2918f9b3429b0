"""Agents: the verb that examines agents."""

from click import option

from faultlab.cli.verb import LATER, many, verb
from faultlab.core.terminal import Terminal


@verb(
    "oracle nop --labs mtu,healthy",
    "./my-agent --labs mtu --repeat 3 --json result.json",
    "./my-agent --ticket-only",
)
@many("agents", "oracle, cheater, a folder in tools/, or any other (./NAME)", required=True)
@option("--labs", metavar="LAB,LAB", help="use only these labs (all that run here)")
@option("--repeat", default=1, metavar="N", help="how often to examine each (1)")
@option("--seed", default=0, metavar="S", help="seed of the random order (0)")
@LATER
@option("--ticket-only", is_flag=True, help="give them the tickets and no machines; no Docker")
@option(
    "--json",
    "json_file",
    metavar="FILE",
    help="the file of trials; an existing one is continued (runs/agents.json)",
)
def agent(
    term: Terminal,
    agents: tuple[str, ...],
    *,
    labs: str | None,
    repeat: int,
    seed: int,
    later: float,
    ticket_only: bool,
    json_file: str | None,
) -> None:
    """Examine agents: what they repair and name, and what they break. They run as you."""
    from faultlab.agents import exam

    wanted = [] if labs is None else labs.split(",")
    exam.examine(
        *(term, agents, wanted),
        repeat=repeat,
        seed=seed,
        later=later,
        json_file=json_file,
        ticket_only=ticket_only,
    )
