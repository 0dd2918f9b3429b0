"""Pictures: play one lab in a terminal, hold a class, and write docs/pictures."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from faultlab.core import paths
from tests.pictures import freshness, pages, terminal

FOLDER = paths.root() / "docs/pictures"
LAB = "mtu"


def main() -> None:
    """Make all pictures, and note beside them which runs and labs they show."""
    os.environ["FAULTLAB_NAMESPACE"] = "demo"  # else container names hold the user's name
    made: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        print("pictures: one learner, in a terminal", flush=True)
        runs = terminal.play(LAB, state, FOLDER / f"{LAB}.cast")
        for name in (f"{LAB}.svg", f"{LAB}-still.svg"):
            made[name] = {"runs": runs, "labs": freshness.labs(LAB)}
        terminal.draw(FOLDER / f"{LAB}.cast", *(FOLDER / name for name in made))
        with pages.browser() as browser:
            print("pictures: the report of a walk", flush=True)
            runs = pages.report(browser, LAB, state, FOLDER / "report.png")
            made["report.png"] = {"runs": runs, "labs": freshness.labs(LAB)}
            print("pictures: the scorecard, and a class", flush=True)
            pages.scorecard(browser, state, FOLDER / "scorecard.png")
            made["scorecard.png"] = {"files": freshness.files("docs/score.json")}
            runs = pages.seat(browser, LAB, FOLDER / "class.png")
            made["class.png"] = {"runs": runs, "labs": freshness.labs(LAB)}
    (FOLDER / "pictures.json").write_text(json.dumps(made, indent=2) + "\n")
    print("pictures: written to docs/pictures; look at them before you commit")


if __name__ == "__main__":
    main()
