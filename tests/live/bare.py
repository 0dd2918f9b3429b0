"""A bare system in namespaces of its own: a machine on which nothing is installed yet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from faultlab.core import paths

# Of its own are what is mounted, the processes and the network, in which there is loopback and
# nothing else. They end with the process, and take everything inside with them.
APART = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc")
# $0: the root file system; $1: a command for its bash, which runs as root in /.
ENTER = """
mount --make-rprivate /
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
ip link set lo up
mkdir -p old
pivot_root . old
umount -l /old
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/srv LANG=C.UTF-8 bash -ec "$1"
"""

# Bare systems, and the trees while they are tried.
CACHE = Path(os.environ.get("FAULTLAB_SYSTEMS", "/var/tmp/faultlab-systems"))

# How mmdebstrap makes each: its suite, and what else it has to be told.
SYSTEMS = {
    "debian-12": ("bookworm",),
    "debian-13": ("trixie",),
    # Its indexes are valid for a week, and a mirror can be older.
    "debian-sid": ("sid", '--aptopt=Acquire::Check-Valid-Until "false"'),
    "ubuntu-24.04": ("noble", "--components=main,universe"),
}
# What the README asks for, and what a user becomes root with.
INCLUDE = "--include=git,make,sudo"
# Its own way out: packets become connections of this program, so the host's packet filter stays.
NETWORK, RESOLVER = "198.19.252.0/24", "198.19.252.3"
WAY_OUT = ("slirp4netns", "--configure", "--mtu=1500", f"--cidr={NETWORK}")


@contextmanager
def way_out(pid: int) -> Iterator[None]:
    """Give the network namespace of a process that is just beginning a way out."""
    host = Path("/proc/self/ns/net").readlink()
    while (theirs := Path(f"/proc/{pid}/ns/net")).readlink() == host:
        time.sleep(0.01)
    command = [*WAY_OUT, "--disable-host-loopback", "--netns-type=path", str(theirs), "tap0"]
    null = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=null, stdout=null, stderr=null) as program:
        try:
            yield
        finally:
            program.terminate()


def with_network(tree: Path, script: str) -> list[str]:
    """Run a script in a tree as its root, apart but for a way out, and return its output."""
    script = "until grep -q tap0 /proc/net/route; do sleep 0.1; done\n" + script
    with subprocess.Popen(
        [*APART, ENTER, str(tree), script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as machine:
        try:
            with way_out(machine.pid):
                return shown(machine.stdout)
        finally:
            machine.kill()  # and with it, all processes in its namespace


def wheel(folder: Path) -> Path:
    """Build the wheel of this checkout in a folder, with what .venv has."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run([*pip, "-w", str(folder), str(paths.root())], check=True)
    return next(folder.glob("faultlab-*.whl"))


def shown(output: IO[str] | None) -> list[str]:
    """Print the lines of a program as they come, and return them."""
    said = []
    for line in output or ():
        print(line, end="", flush=True)
        said.append(line.rstrip())
    return said


@contextmanager
def bare(name: str) -> Iterator[Path]:
    """Make a bare system, once, and yield a tree of it that is removed afterwards."""
    CACHE.mkdir(exist_ok=True)
    archive = CACHE / f"{name}.tar"
    if not archive.exists():
        suite, *more = SYSTEMS[name]
        print(f"making {name} from its packages", flush=True)
        command = ["mmdebstrap", "--variant=minbase", INCLUDE, *more, suite, f"{archive}.part.tar"]
        subprocess.run(command, check=True)
        Path(f"{archive}.part.tar").rename(archive)
    tree = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=CACHE))
    try:
        subprocess.run(["tar", "-C", tree, "-xf", archive], check=True)
        tree.chmod(0o755)
        yield tree
    finally:
        shutil.rmtree(tree)
