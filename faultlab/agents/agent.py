"""Agent: a program on this machine that works at a lab, from the folder of a tool.

`tool.toml` has `kind = "agent"` and a command. The command is the user's own program: it runs on
this machine, in its folder and with all their rights.
"""

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from faultlab.core import document, paths
from faultlab.core.document import Strict
from faultlab.score import tool
from faultlab.score.tool import FILE

_MANUAL = "docs/verifying-an-agent.md"
_LONGEST = 3600  # seconds


class Agent(Strict):
    """The facts of one agent, from `tool.toml`. `seconds`: the time limit of one session."""

    id: str
    folder: Path
    kind: Literal["agent"]
    title: str
    home: str = ""
    command: str
    seconds: Annotated[float, Field(gt=0, le=_LONGEST, strict=False)]

    @property
    def digest(self) -> str:
        """Return the digest of its facts and of the files in its folder."""
        said = hashlib.sha256(self.model_dump_json(exclude={"folder", "title", "home"}).encode())
        for file in sorted(path for path in self.folder.iterdir() if path.is_file()):
            if file.name != FILE:
                said.update(f"{file.name}\n".encode() + file.read_bytes())
        return said.hexdigest()[:12]


def load(name: str) -> Agent:
    """Read and validate an agent of this project, or one in any folder. Raises BadInput."""
    folder = tool.folder_of(name, "agent", lambda: tool.ids(tool.AGENT), _MANUAL)
    where = paths.show(folder / FILE)
    return document.strict(Agent, folder / FILE, where, _MANUAL, id=folder.name, folder=folder)
