"""Inject: carry out the steps of a lab (fault, fix, …). It makes changes and never judges."""

import re
from collections.abc import Iterable

from faultlab.core.errors import CannotRun
from faultlab.engine.stack import Stack
from faultlab.lab.model import Step

_STEP_SECONDS = 60
_ON_HOST = re.compile(r"^ *\$ .*", re.MULTILINE)  # a command in a lesson
_AT_ONCE = re.compile(r"(ip|tc|iptables|sysctl) [^;&|$`<>\n]*")


def apply(stack: Stack, steps: Iterable[Step]) -> None:
    """Carry out the steps in order. Raises CannotRun if a command fails.

    Daemons that are restarted by successive steps come up at the same time.
    """
    restarted = False
    for step in steps:
        if restarted and not step.restart:
            _wait_listening(stack)
            restarted = False
        if step.run is not None:
            stack.shell(step.at).must(step.run, _STEP_SECONDS)
        elif step.limit is not None:
            stack[step.at].limit(step.limit.cpus, step.limit.memory, step.limit.pids)
        else:
            stack[step.at].restart()
            restarted = True
    if restarted:
        _wait_listening(stack)


def waits(step: Step) -> bool:
    """Return whether the step is only a pause, in which the kernel forgets something."""
    return bool(step.run and re.fullmatch(r"sleep \d+", step.run))


def takes_effect_later(steps: Iterable[Step]) -> bool:
    """Return whether the steps do more than change kernel settings, which apply at once."""
    return any(step.run is None or not _AT_ONCE.fullmatch(step.run) for step in steps)


def _wait_listening(stack: Stack) -> None:
    """Wait until restarted daemons are up. If one stays down, that can be the lab's own fault."""
    try:
        stack.wait_ready()
    except CannotRun:
        return


def typable(text: str, stack: str) -> str:
    """Return text with the name of a stack in its host commands: `…-nginx` names none yet."""
    return _ON_HOST.sub(lambda line: line[0].replace("…-", f"{stack}-"), text)


def typed(stack: Stack, step: Step) -> str:
    """Return the step as an engineer types it, with the place: `web# ip link …`."""
    prompt = stack.engine.prompt
    if step.run is not None:
        return f"{step.at}# {step.run}"
    if step.limit is not None:
        return f"{prompt} {stack[step.at].typed(f'update {step.limit.flags}')}"
    return f"{prompt} {stack[step.at].typed('restart')}"
