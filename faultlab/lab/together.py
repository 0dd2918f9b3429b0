"""Together: labs that were proven with their faults at once, as a campaign of `verify` recorded."""

import json

from faultlab.core import paths
from faultlab.core.errors import BadInput
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab

FILE = "docs/together.json"


def proven() -> list[Lab]:
    """Return the labs with several faults that passed, as `mtu+gzip`. Raises BadInput."""
    file = paths.root() / FILE
    try:
        cases = json.loads(file.read_text())["cases"] if file.is_file() else []
        passed = [case["lab"] for case in cases if case["verdict"] == "pass"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{FILE} is damaged: {error}.", f"git checkout {FILE}") from error
    return [labs.load(lab_id) for lab_id in dict.fromkeys(passed) if labs.here(lab_id)]


def proven_of(parts: list[Lab], faults: int) -> list[Lab]:
    """Return those that have this number of faults, each of one of these labs.

    Raises BadInput without one.
    """
    known = {lab.id for lab in parts}
    found = [lab for lab in proven() if len(lab.of) == faults and known.issuperset(lab.of)]
    if not found:
        raise BadInput(
            f"No labs with {faults} faults at once are proven for this.", "faultlab list"
        )
    return found
