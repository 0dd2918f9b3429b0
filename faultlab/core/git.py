"""Git: what it knows about the checkout that this program is a part of."""

import os
from functools import cache

from faultlab.core import paths
from faultlab.core.command import run
from faultlab.core.errors import CannotRun

# A task in a pod has no checkout. Its environment says which commit it was made from.
_COMMIT, _COMMITS = "FAULTLAB_COMMIT", "FAULTLAB_COMMITS"


@cache
def commits() -> int:
    """Return how many commits there are up to this one; 0 outside a git checkout."""
    return int(os.environ.get(_COMMITS) or says("rev-list", "--count", "HEAD") or 0)


def commit() -> str:
    """Return the name of this commit, with `+` if files differ; empty outside a git checkout."""
    return os.environ.get(_COMMIT) or says("describe", "--always", "--exclude=*", "--dirty=+")


def environment() -> dict[str, str]:
    """Return the environment of a program that runs these files without their checkout."""
    return {_COMMIT: commit(), _COMMITS: str(commits())}


def says(*words: str) -> str:
    """Return what git prints about the checkout; empty if there is no checkout or no git."""
    if paths.installed():
        return ""  # a repository around the package would be another project's
    try:
        done = run(["git", "-C", str(paths.root()), *words], timeout=10)
    except CannotRun:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
