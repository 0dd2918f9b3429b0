"""Extra: the packages that only a part of faultlab needs."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faultlab.core import paths
from faultlab.core.errors import CannotRun


@contextmanager
def needed(target: str = "", *, of: str = "web", what: str = "The pages need") -> Iterator[None]:
    """Let the body import the packages of an extra. Raises CannotRun if one is missing.

    `target`: what `make` does in a checkout, with the packages installed first. `what` begins the
    message.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        hint = f"make {target}" if target and not paths.installed() else installer(of)
        raise CannotRun(f"{what} {error.name}, which is not installed.", hint) from error


def require(package: str, *, of: str, what: str) -> None:
    """Raise CannotRun if a package of an extra is missing, without importing it."""
    if importlib.util.find_spec(package) is None:
        raise CannotRun(f"{what} {package}, which is not installed.", installer(of))


def installer(extra: str) -> str:
    """Return the command that adds an extra to this installation; one of pipx can lack pip."""
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"pipx inject faultlab 'faultlab[{extra}]'"
    what = f"'faultlab[{extra}]'" if paths.installed() else f"-e '.[{extra}]'"
    return f"{sys.executable} -m pip install {what}"
