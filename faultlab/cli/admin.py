"""Admin: the verbs that look after this machine."""

from click import Choice, argument, option

from faultlab.cli.verb import many, verb
from faultlab.core import defaults
from faultlab.core.terminal import Terminal


@verb("", "mtu")
@many("labs", "only these labs")
def doctor(term: Terminal, labs: tuple[str, ...]) -> object:
    """Find out what runs here, by trying."""
    from faultlab.admin import doctor

    return doctor.show(term, labs)


@verb("", "--spoil")
@option("--spoil", is_flag=True, help="also what differs from a new machine")
def status(term: Terminal, spoil: bool) -> object:
    """Say what of ours is up, read from Docker and the kernel."""
    from faultlab.admin import status

    return status.show(term, spoil=spoil)


@verb("", "--images")
@option("--images", "images_too", is_flag=True, help="the images and the box as well")
def sweep(term: Terminal, images_too: bool) -> object:
    """Remove everything of ours."""
    from faultlab.admin import status

    return status.sweep(term, images_too)


@verb("", "--out /media/usb/faultlab.bundle.tar --no-vm")
@option("--out", metavar="FILE", default=defaults.BUNDLE, help=f"({defaults.BUNDLE})")
@option("--no-vm", is_flag=True, help="without the lab VM: 1 GB less")
def bundle(term: Terminal, out: str, no_vm: bool) -> object:
    """Write all that a machine without a network needs into one file."""
    from faultlab.admin import bundle

    return bundle.bundle(term, out, vm=not no_vm)


@verb("")
def images(term: Terminal) -> object:
    """Build the images that are missing."""
    from faultlab.admin import doctor

    return doctor.images(term)


@verb("up", "status", "ssh", "down")
@argument("action", type=Choice(("up", "down", "ssh", "status", "reset")))
def vm(term: Terminal, action: str) -> object:
    """Manage the lab VM, for faults of a whole kernel."""
    from faultlab.engine import boot

    return getattr(boot, action)(term)
