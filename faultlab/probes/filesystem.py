"""Probe: what a filesystem says is used, and what its folders hold. Sources: statfs(2), du(1).

A file without a name uses blocks and an inode until the last process closes it. df counts it. du
walks through the folders and cannot find it.
"""

from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

# Not df: it looks for a name in its own list of mounts, which has none of another container.
COMMAND = "stat -fc '%S %b %f %c %d' {0} && du -skx {0}"


@dataclass(frozen=True)
class Filesystem:
    """Sizes in kB. `found`: what is in the folder; it is less than `used` if it has neighbours."""

    size: int
    used: int
    inodes: int
    inodes_used: int
    found: int

    @property
    def inodes_used_percent(self) -> float:
        """Return the inodes in use, in percent; 0 if the filesystem has no limit of them."""
        return 100 * self.inodes_used / self.inodes if self.inodes else 0.0

    @property
    def unnamed(self) -> int:
        """Return the kB in use that no folder leads to, if the folder is all of it."""
        return self.used - self.found


def read(machine: Shell, folder: str) -> Filesystem:
    """Read the filesystem that has a folder, and add up what is in the folder."""
    return parse(machine.must(COMMAND.format(machine.root + folder)))


def parse(out: str) -> Filesystem:
    """Parse the line of stat, and that of du. Raises CannotRun if one is missing."""
    try:
        block, blocks, free, inodes, inodes_free = map(int, out.splitlines()[0].split())
        found = int(out.splitlines()[1].split()[0])
    except (IndexError, ValueError) as error:
        raise CannotRun(f"stat and du printed something else: {out[:60]!r}") from error
    size, used = (block * each >> 10 for each in (blocks, blocks - free))
    return Filesystem(size, used, inodes, inodes - inodes_free, found)
