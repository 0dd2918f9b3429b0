"""Git: what it knows about the checkout that this program is a part of."""

from faultlab.core import paths
from faultlab.core.command import run
from faultlab.core.errors import CannotRun


def says(*words: str) -> str:
    """Return what git prints about the checkout; empty if there is no checkout or no git."""
    if paths.installed():
        return ""  # a repository around the package would be another project's
    try:
        done = run(["git", "-C", str(paths.root()), *words], timeout=10)
    except CannotRun:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
