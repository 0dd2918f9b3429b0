"""Folder: `classes/NAME/`, where a class keeps its journal, its tokens and its certificate."""

import time
from contextlib import AbstractContextManager
from pathlib import Path

from faultlab.core import lock, naming, paths
from faultlab.core.errors import BadInput
from faultlab.workshop.journal import Journal
from faultlab.workshop.plan import ClassPlan


class Folder:
    """The folder of one class, and the lock of the command that changes its content."""

    def __init__(self, name: str) -> None:
        """Open the folder; `name` is the id of the class's plan."""
        self.name = name
        self.path = paths.classes() / name
        self.keys = self.path / "keys.json"
        self.alive = self.path / "alive"  # the server touches it each second
        self.end = self.path / "end"  # tells the server to end the class

    def make(self) -> None:
        """Create it, readable by its owner only."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)

    def journal(self, *, mend: bool = False) -> Journal:
        """Read the journal. Raises CannotRun if it is damaged."""
        return Journal(self.path / "events.jsonl", mend=mend)

    def last_alive(self) -> float:
        """Return when a server was last alive, in seconds since 1970; now if none ever was."""
        return round(self.alive.stat().st_mtime if self.alive.exists() else time.time(), 3)

    def now(self) -> float:
        """Return the time of the class: that of its server, or when that was last alive."""
        return self.last_alive()

    def hold(self, doing: str) -> AbstractContextManager[None]:
        """Hold the class while the body runs. Raises lock.Held."""
        return lock.hold_class(f"{naming.prefix()}{self.name}-", doing)

    def held(self) -> bool:
        """Return whether another command holds the class, which is usually its server."""
        try:
            with self.hold("class status"):
                return False
        except lock.Held:
            return True


def begun(file: str) -> tuple[Folder, ClassPlan, Journal]:
    """Return the folder of a class that was started, its plan as of then, and its journal.

    Raises BadInput for a class that was never started, CannotRun for a damaged journal.
    """
    folder = Folder(Path(file).stem)
    journal = folder.journal() if folder.path.is_dir() else None
    if journal is None or not journal.events:
        raise BadInput(f"The class of {file} was never started.", f"faultlab class start {file}")
    return folder, ClassPlan.model_validate(journal.events[0]["plan"]), journal
