"""Observe: the verbs that look at a lab that is up."""

from click import argument, option

from faultlab.cli.verb import LAB, verb
from faultlab.core.terminal import Terminal


@verb("mtu", "mtu web --seconds 5", "mtu --json")
@LAB
@argument("machine", required=False, help="only this machine (all)")
@option("--seconds", default=2.0, metavar="N", help="to watch (2)")
def use(term: Terminal, lab: str, machine: str | None, seconds: float) -> object:
    """Show utilisation, saturation and errors of its resources, read now."""
    from faultlab.observe.use import table

    return table.show(term, lab, machine, seconds)


@verb(
    "port-range", "port-range --seconds 10", "port-range --off-cpu", "port-range --no-load --json"
)
@LAB
@option("--seconds", type=int, metavar="N", help="at least so long, 1 to 60 (one look)")
@option("--off-cpu", is_flag=True, help="where it waits instead")
@option("--no-load", is_flag=True, help="you make the load (for 10 s)")
def flame(term: Terminal, lab: str, seconds: int | None, off_cpu: bool, no_load: bool) -> object:
    """Draw where its time goes as a flame graph."""
    from faultlab.observe import flame

    return flame.flame(term, lab, seconds, load=not no_load, mode="off" if off_cpu else "on")


@verb("mtu", "mtu --load", "mtu --seconds 5 --json")
@LAB
@option("--seconds", type=float, metavar="N", help="for so long (until Ctrl-C)")
@option("--load", is_flag=True, help="make the lab's own load meanwhile")
def watch(term: Terminal, lab: str, seconds: float | None, load: bool) -> object:
    """Show the few numbers that matter for it, live (a strong hint)."""
    from faultlab.observe import watch

    return watch.watch(term, lab, seconds, load)
