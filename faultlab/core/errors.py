"""Errors for users: one line says what happened, another gives the next command.

The class decides the exit code, which is part of the interface:
0 pass, 1 the system under test said no, 2 usage or bad input, 3 unknown or cannot run here.
"""


class Problem(Exception):
    """An error for the user. `message`: what happened; `hint`: the next command to type.

    `result`: what the verb returns in spite of the error.
    """

    exit_code = 3

    def __init__(self, message: str, hint: str = "", result: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.result = result


class SaidNo(Problem):
    """The system under test was measured and said no: exit 1."""

    exit_code = 1


class BadInput(Problem):
    """Wrong usage, an unknown lab, a broken lab folder: exit 2."""

    exit_code = 2


class CannotRun(Problem):
    """The judge or the machine failed, or this machine lacks what is needed: exit 3."""
