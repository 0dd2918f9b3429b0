"""Doctor: what runs on this machine. It brings a stack up and tries, it does not guess."""

import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from faultlab.core import paths
from faultlab.core.defaults import AUTO
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.fact import Fact
from faultlab.engine.kubernetes import program, registry
from faultlab.engine.vm import libvirt
from faultlab.lab import checks
from faultlab.lab import images as image_files
from faultlab.lab import loader as labs
from faultlab.run import placement
from faultlab.run.placement import Outlook, outlook
from faultlab.run.preflight import examine


def _vm() -> list[Fact]:
    """The lab VM, and what a guest can be run with here: found by booting one."""
    found = libvirt.state()
    facts = [Fact("vm", True, f"{found}{'' if found == 'running' else '; make vm brings it up'}")]
    try:
        how, why = libvirt.acceleration()
    except CannotRun as problem:
        how, why = "not known yet", problem.message
    return [*facts, Fact("acceleration", True, f"{how}: {why}")]


@dataclass(frozen=True)
class Examined:
    """All that was tried. `lacking`: why, for each that labs can require."""

    facts: list[Fact]
    lacking: dict[str, str]
    labs: list[Outlook]


@dataclass(frozen=True)
class Built:
    """The images that were built, and the tag of each image."""

    built: list[str]
    images: dict[str, str]


def show(term: Terminal, lab_ids: Sequence[str], wanted: str = AUTO) -> Examined:
    """Print the facts and, per lab, RUN, VM or SKIP. Raises CannotRun when something is amiss.

    `wanted`: the engine to try, when it is not the one of this machine. Labs that were not asked
    for by their ids have their numbers.
    """
    every = (labs.load(lab_id).asked(by_number=True) for lab_id in labs.ids())
    chosen = [labs.asked(name) for name in lab_ids] or [*every]
    for lab in chosen:
        checks.load(lab)
    engine = placement.local() if wanted == AUTO else placement.allowed(wanted)[0].reach()
    with term.step("doctor", "bringing a stack up and trying") as step:
        facts, lacking = examine(engine)
        if wanted == AUTO:
            step.note("booting a guest")
            facts += _vm()
        step.done("tried")
    term.say()
    term.table(("", "what", "found"), [("ok" if f.ok else "NO", f.name, f.text) for f in facts])
    amiss = [fact for fact in facts if not fact.ok]
    found = [
        Outlook(lab.id, "SKIP", f"{amiss[0].name}: {amiss[0].text}")
        if amiss
        else outlook(lab, lacking, engine)
        for lab in chosen
    ]
    term.say()
    names = [lab.alias for lab in chosen]
    rows = [(name, o.verdict, o.reason) for name, o in zip(names, found, strict=True)]
    term.table(("lab", "", "reason"), rows)
    examined = Examined(facts, lacking, found)
    if amiss:
        raise CannotRun(f"{amiss[0].name}: {amiss[0].text}.", amiss[0].hint, examined)
    return examined


def images(term: Terminal) -> Built:
    """Build what is missing."""
    engine = placement.local()
    lacking = engine.images.missing()
    with term.step("images", "looking for what has to be built") as step:
        engine.images.ensure(step.note)
        step.done(f"built: {', '.join(lacking)}" if lacking else "ready")
    return Built(lacking, {name: image_files.tag(name) for name in image_files.names()})


def push(term: Terminal, address: str, more: Collection[str]) -> Built:
    """Build what is missing here, and push all images. Raises BadInput without a registry.

    `more`: the images of tools.
    """
    if not address:
        raise BadInput("images push: the registry is missing.", "faultlab images --help")
    lacking = placement.local().images.missing()
    with term.step("images", f"pushing them to {address}") as step:
        pushed = registry.push(registry.checked(address), more, step.note)
        step.done("pushed")
    term.say(f"faultlab itself: {pushed[program.NAME]}")
    term.say(f"Next: export {registry.VARIABLE}={address}")
    return Built(lacking, pushed)


def save(term: Terminal, file: str, more: Collection[str]) -> Built:
    """Build what is missing here, and write all images to a file. Raises BadInput without one.

    `more`: the images of tools.
    """
    if not file:
        raise BadInput("images save: the file is missing.", "faultlab images --help")
    target = paths.in_a_folder(file)
    lacking = placement.local().images.missing()
    with term.step("images", f"writing them to {file}") as step, paths.whole(target) as part:
        tags = registry.save(part, more, step.note)
        step.done("saved")
    term.say(f"Next, on each node: gunzip -c {file} | ctr -n k8s.io images import -")
    return Built(lacking, tags)


def setup(term: Terminal) -> Built:
    """Install and start what is missing, and build the images. Raises CannotRun."""
    script = paths.root() / "setup/setup.sh"
    # It can ask for a password, so it has our terminal. It prints on standard error only.
    if subprocess.run([str(script)], check=False).returncode != 0:
        raise CannotRun("This machine is not set up; the lines above say why.", "faultlab setup")
    return images(term)
