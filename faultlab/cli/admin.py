"""Admin: the verbs that take care of this machine."""

from click import Choice, argument, option

from faultlab.cli.verb import ENGINE, many, verb
from faultlab.core import defaults, paths
from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal


@verb("", "mtu", "--engine kubernetes")
@many("labs", "check only these labs")
@ENGINE
def doctor(term: Terminal, labs: tuple[str, ...], wanted: str) -> object:
    """Try what this machine, or the cluster of the current context, can run."""
    from faultlab.admin import doctor

    return doctor.show(term, labs, wanted)


@verb("", "--spoil")
@option("--spoil", is_flag=True, help="also list what differs from a new machine")
def status(term: Terminal, spoil: bool) -> object:
    """List what faultlab has running, as Docker and the kernel report it."""
    from faultlab.admin import status

    return status.show(term, spoil=spoil)


@verb("", "--images")
@option("--images", "images_too", is_flag=True, help="also remove the images and the box of the VM")
def sweep(term: Terminal, images_too: bool) -> object:
    """Remove everything that faultlab has created."""
    from faultlab.admin import status

    return status.sweep(term, images_too)


@verb("", "--out /media/usb/faultlab.bundle.tar --no-vm")
@option("--out", metavar="FILE", default=defaults.BUNDLE, help=f"({defaults.BUNDLE})")
@option("--no-vm", is_flag=True, help="leave out the lab VM (saves 1 GB)")
def bundle(term: Terminal, out: str, no_vm: bool) -> object:
    """Pack everything that a machine without a network needs into one file."""
    paths.needs_checkout("bundle")
    from faultlab.admin import bundle

    return bundle.bundle(term, out, vm=not no_vm)


@verb(
    "https://example.org/labs.git@1f3c9ab0",
    "labs@1f3c9ab0 --yes",
    "labs.bundle@1f3c9ab0 --json --yes",
)
@argument("source", metavar="URL@COMMIT", help="a repository, a folder or a bundle of Git")
@option("--yes", is_flag=True, help="do not ask: you trust its code")
def add(term: Terminal, source: str, yes: bool) -> object:
    """Add a collection of labs that another person has made, after showing its code."""
    from faultlab.admin import add

    return add.add(term, source, yes)


@verb("")
def setup(term: Terminal) -> object:
    """Install and start what is missing on this machine, and build the images."""
    from faultlab.admin import doctor

    return doctor.setup(term)


@verb("", "push registry.example.org/labs", "push 127.0.0.1:5000 mtr", "save images.tar.gz")
@argument("action", type=Choice(("build", "push", "save")), default="build", help="(build)")
@argument("to", default="", help="with push: a registry; with save: a file")
@many("tools", "with push or save: also the images of these tools (all: of all)")
def images(term: Terminal, action: str, to: str, tools: tuple[str, ...]) -> object:
    """Build the images that are missing, and push or save all for a cluster."""
    from faultlab.admin import doctor
    from faultlab.score import tool

    if to and action == "build":
        raise BadInput("images build takes no arguments.", f"faultlab images push {to}")
    names = tool.ids() if tools == ("all",) else tools
    more = {tool.load(name).image for name in names} - {"machine"}
    match action:
        case "push":
            return doctor.push(term, to, more)
        case "save":
            return doctor.save(term, to, more)
    return doctor.images(term)


@verb("up", "status", "ssh", "down")
@argument("action", type=Choice(("up", "down", "ssh", "status", "reset")))
def vm(term: Terminal, action: str) -> object:
    """Manage the lab VM, which runs faults that need a kernel of their own."""
    from faultlab.engine.vm import boot

    return getattr(boot, action)(term)
