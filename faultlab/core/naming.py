"""Naming: what our stacks are called."""

from __future__ import annotations

import os


def prefix() -> str:
    """Return how the names of our stacks begin: `faultlab-`, then FAULTLAB_NAMESPACE if set."""
    namespace = os.environ.get("FAULTLAB_NAMESPACE", "")
    return f"faultlab-{namespace}-" if namespace else "faultlab-"


def stack_name(lab_id: str) -> str:
    """The name of a lab's stack. Verify has a namespace of its own, so it disturbs no learner."""
    return prefix() + lab_id
