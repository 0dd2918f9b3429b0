"""Verdict: what a session measured, now and at its end."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """The result of a session.

    `repaired`: the users are served as before; if nothing was wrong, they still are. `cause`,
    `component`, `resource`: what the diagnosis names is right. No diagnosis means "nothing is
    wrong". `false_alarm`: it names a fault although nothing is wrong. `seconds`: of the agent.
    `later`: the minutes after which the users were measured again, if they were. `aborted`: by
    whom the session was, if a machine ended or was started again in it.
    """

    repaired: bool
    cause: bool
    component: bool
    resource: bool
    false_alarm: bool
    commands: int
    seconds: float
    later: float = 0.0
    aborted: str = ""


@dataclass(frozen=True)
class Checked:
    """A measurement of the users: whether they are served as before, and sentences about it."""

    fixed: bool
    says: list[str]
