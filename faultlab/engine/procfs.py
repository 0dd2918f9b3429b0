"""Procfs: files of /proc, of this machine or as a script of node.py printed them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol


class Folder(Protocol):
    """A folder or a file of /proc. A Path is one."""

    @property
    def name(self) -> str:
        """Return its name without the folders above."""

    def __truediv__(self, name: str, /) -> "Folder":
        """Return what has this name in it."""

    def iterdir(self) -> Iterator["Folder"]:
        """Yield what is in it."""

    def read_text(self) -> str:
        """Return its text. Raises OSError if it is not there."""


@dataclass(frozen=True)
class Printed:
    """A folder or a file of /proc on a node. `files`: the texts of all files there, by path."""

    files: Mapping[str, str]
    path: str = ""

    @property
    def name(self) -> str:
        """Return its name without the folders above."""
        return self.path.rpartition("/")[2]

    def __truediv__(self, name: str) -> "Printed":
        return Printed(self.files, f"{self.path}/{name}" if self.path else name)

    def iterdir(self) -> Iterator["Printed"]:
        """Yield what is in it."""
        start = f"{self.path}/" if self.path else ""
        inside = (path.removeprefix(start) for path in self.files if path.startswith(start))
        for name in dict.fromkeys(path.partition("/")[0] for path in inside):
            yield self / name

    def read_text(self) -> str:
        """Return its text. Raises OSError if it is not there."""
        if self.path not in self.files:
            raise FileNotFoundError(self.path)
        return self.files[self.path]


def unpack(printed: str) -> Printed:
    """Return the files that the script of node.counters printed."""
    parts = printed.split("\0")
    return Printed(dict(zip(parts[::2], parts[1::2], strict=False)))
