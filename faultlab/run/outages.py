"""Outages: what of a stack has ended, or was started again, and so serves no user."""

from collections.abc import Collection, Mapping

from faultlab.engine.stack import Stack
from faultlab.lab.outage import Outage

_RESTARTS = 5.0  # seconds: a daemon that somebody has just restarted is up again
_PAUSE = 0.1  # seconds


def find(stack: Stack, started: Mapping[str, str], may_stop: Collection[str] = ()) -> list[Outage]:
    """Return the machines and daemons that do not run, and machines that were started again.

    `started`: when each machine started. `may_stop`: daemons that can have ended. A daemon on a
    machine that has ended is no outage of its own. Raises CannotRun if the engine does not respond,
    or if the users have ended too: no examinee reaches them.
    """
    found, waited = _now(stack, started, may_stop), 0.0
    while found and waited < _RESTARTS and not any(each.name in started for each in found):
        stack.engine.pause(_PAUSE)
        waited += _PAUSE
        found = _now(stack, started, may_stop)
    if found:
        stack.user()
    return found


def _now(stack: Stack, started: Mapping[str, str], may_stop: Collection[str]) -> list[Outage]:
    states = {name: machine.state for name, machine in stack.items()}
    found = [
        Outage(name, now.exit_code)
        for name, now in states.items()
        if not now.running and name not in may_stop
    ]
    ended = {each.name for each in found}
    again = [
        Outage(name, None)
        for name, since in started.items()
        if name in states and states[name].running and states[name].started != since
    ]
    return again + [each for each in found if stack[each.name].joins not in ended]
