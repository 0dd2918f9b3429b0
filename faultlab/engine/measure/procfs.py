"""Procfs: files of /proc, of this machine or as a script on a node printed them."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

# Prints files of /proc, each as its path and its text with a NUL byte behind both.
_COUNTERS = r"""
chdir "/proc";
sub text { open my $file, "<", $_[0] or return ""; local $/; my $text = <$file>; $text // "" }
sub show { my $path = shift; my $text = join "", @_; print "$path\0$text\0" if length $text }
show("stat", text("stat") =~ /^cpu.*\n/mg);
show("pressure/cpu", text("pressure/cpu"));
opendir my $all, ".";
for my $pid (grep /^\d+$/, readdir $all) {
  my $cgroup = text("$pid/cgroup");
  show("$pid/stat", text("$pid/stat"));
  show("$pid/cgroup", $cgroup);
  show("$pid/status", text("$pid/status") =~ /^NSpid:.*\n/mg);
  show($_, text($_)) for $cgroup =~ /$ARGV[0]/ ? glob "$pid/task/*/schedstat" : ();
}
"""


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


def counters(stack: Sequence[str]) -> str:
    """Return a script that prints the counters of the node, and the delays of a stack.

    `stack`: ids that are in the names of its cgroups. Without the node's namespace the node pod
    would see its own cgroup as `/`.
    """
    words = ["perl", "-e", _COUNTERS, "|".join(stack)]
    return f"exec nsenter -t 1 -C {shlex.join(words)}"


def unpack(printed: str) -> Printed:
    """Return the files that the script of `counters` printed."""
    parts = printed.split("\0")
    return Printed(dict(zip(parts[::2], parts[1::2], strict=False)))
