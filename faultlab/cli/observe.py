"""Observe: the verbs that look into a lab that is up."""

from click import argument, option

from faultlab.cli.verb import LAB, verb
from faultlab.core.terminal import Terminal


@verb("mtu", "mtu web --seconds 5", "mtu --json")
@LAB
@argument("machine", required=False, help="read only this machine (all)")
@option("--seconds", default=2.0, metavar="N", help="how long to read (2)")
def use(term: Terminal, lab: str, machine: str | None, seconds: float) -> object:
    """Show utilisation, saturation and errors of each resource now."""
    from faultlab.observe.use import table

    return table.show(term, lab, machine, seconds)


@verb(
    "port-range", "port-range --seconds 10", "port-range --off-cpu", "port-range --no-load --json"
)
@LAB
@option("--seconds", type=int, metavar="N", help="record at least N seconds, 1 to 60 (one look)")
@option("--off-cpu", is_flag=True, help="show where time is spent waiting")
@option("--no-load", is_flag=True, help="send the load yourself (for 10 s)")
def flame(term: Terminal, lab: str, seconds: int | None, off_cpu: bool, no_load: bool) -> object:
    """Draw a flame graph of the lab's CPU time."""
    from faultlab.observe import flame

    return flame.flame(term, lab, seconds, load=not no_load, mode="off" if off_cpu else "on")


@verb("mtu", "mtu --load", "mtu --seconds 5 --json")
@LAB
@option("--seconds", type=float, metavar="N", help="stop after N seconds (at Ctrl-C)")
@option("--load", is_flag=True, help="run the lab's own load meanwhile")
def watch(term: Terminal, lab: str, seconds: float | None, load: bool) -> object:
    """Show the numbers that tell most about this lab, live (a strong hint)."""
    from faultlab.observe import watch

    return watch.watch(term, lab, seconds, load)


@verb("mtu", "mtu --seconds 60", "mtu --seconds 5 --json")
@LAB
@option("--seconds", type=float, metavar="N", help="stop after N seconds (at Ctrl-C)")
@option("--json", "as_json", is_flag=True, help="print a JSON object a line, once a second")
def top(term: Terminal, lab: str, seconds: float | None, as_json: bool) -> object:
    """Show what users meet live, the state of the stack, and what fell when."""
    from faultlab.observe import top

    return top.top(term, lab, seconds, as_json)
