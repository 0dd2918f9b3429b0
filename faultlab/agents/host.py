"""Host: the few `docker` commands that an engineer types on the host of the machines.

No shell is behind it. It shows the containers, restarts a daemon, and changes its limits.
"""

import getopt
import shlex
from collections.abc import Sequence

from faultlab.core.errors import BadInput
from faultlab.engine.contract import State
from faultlab.engine.stack import Stack
from faultlab.lab.model import Limit

NAME = "host"
_READY = 60  # seconds until a daemon that was restarted must respond
USAGE = (
    "docker ps; docker restart DAEMON...; "
    "docker update [--cpus N] [--memory 512m] [--pids-limit N] DAEMON..."
)
_LONG = ["cpus=", "memory=", "memory-swap=", "pids-limit="]


def docker(stack: Stack, daemons: Sequence[str], command: str) -> str:
    """Carry out one of the commands and return its output.

    Raises BadInput for any other command, and CannotRun if Docker refuses it.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadInput(f"{error}. The host takes: {USAGE}") from error
    match words:
        case ["docker", "ps", *_]:
            return _ps(stack)
        case ["docker", "restart" | "start", *names]:
            return _restart(stack, _known(daemons, names))
        case ["docker", "update", *rest]:
            return _update(stack, daemons, rest)
    raise BadInput(f"The host takes only: {USAGE}")


def _ps(stack: Stack) -> str:
    rows = [f"{name:<12} {_state(machine.state)}" for name, machine in stack.items()]
    return "\n".join(["NAMES        STATUS", *rows]) + "\n"


def _state(now: State) -> str:
    if now.running:
        return f"Up since {now.started[:19]}"
    return f"Exited ({now.exit_code})" + (", out of memory" if now.oom_killed else "")


def _restart(stack: Stack, names: Sequence[str]) -> str:
    for name in names:
        stack[name].restart()
    stack.wait_ready(_READY)
    return "\n".join(names) + "\n"


def _update(stack: Stack, daemons: Sequence[str], words: Sequence[str]) -> str:
    try:
        # Swap is always as large as the memory, so --memory-swap changes nothing.
        given, names = getopt.gnu_getopt(words, "m:", _LONG)
        options = {key.lstrip("-"): value.lower() for key, value in given}
        pids = options.get("pids-limit")
        limit = Limit.model_validate(
            {
                "cpus": options.get("cpus"),
                "memory": options.get("memory") or options.get("m"),
                "pids": None if pids is None else int(pids),
            }
        )
    except (getopt.GetoptError, ValueError) as error:  # of pydantic, too
        raise BadInput(f"The host takes only: {USAGE}") from error
    if why := limit.beyond(stack.engine.most()):
        raise BadInput(why)
    for name in _known(daemons, names):
        stack[name].limit(limit.cpus, limit.memory, limit.pids)
    return "\n".join(names) + "\n"


def _known(daemons: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """Return the names of daemons. Raises BadInput: a machine would lose its namespaces."""
    unknown = [name for name in names if name not in daemons]
    if unknown or not names:
        what = f"There is no daemon {unknown[0][:40]!r}" if unknown else "No daemon is named"
        raise BadInput(f"{what}; there are {', '.join(daemons)}.")
    return names
