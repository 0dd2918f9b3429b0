"""The words of a diagnosis: causes, components and resources."""

from __future__ import annotations

from faultlab.lab import load as labs


def words() -> dict[str, list[str]]:
    """The words of a diagnosis: causes, components, resources."""
    truths = [lab.truth for lab in map(labs.load, labs.ids()) if not lab.control]
    return {
        "causes": sorted({truth.cause for truth in truths}),
        "components": sorted({truth.component for truth in truths}),
        "resources": sorted({truth.resource for truth in truths}),
    }
