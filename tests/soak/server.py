"""Server: the class of a soak, its process, and the plugs that can be pulled of it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from faultlab.core import paths
from faultlab.core.errors import CannotRun

NAMESPACE = "soak"
NAME = "soak"
PATIENCE = 120.0  # seconds until a server says its links, with Docker restarting
# The limits are named, so that the class goes on where the number of CPUs has changed.
CLASS = """
title = "A class that takes hours"
seats = {seats}
labs = {labs}
later = 0.5
limits = "cpus=1 memory=512m pids=400"
seat_limits = "cpus=1.5 memory=2g pids=1500"
seat_disk = "300m"
"""


class Server:
    """A class, its folder, and the process that serves it. `log`: what its servers have printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder.with_name(f"{folder.name}.log")
        self.skew = folder.with_name(f"{folder.name}.clock")
        self.process: subprocess.Popen[str] | None = None
        self.told: dict[str, Any] = {}
        self.lives = 0
        self.env = {
            **os.environ,
            "FAULTLAB_NAMESPACE": NAMESPACE,
            "FAULTLAB_ROOT": str(folder),
            "PYTHONPATH": str(paths.root()),
        }

    @property
    def journal(self) -> Path:
        """Return the file with the events of the class."""
        return self.folder / f"classes/{NAME}/events.jsonl"

    def furnish(self, seats: int, labs: Sequence[str]) -> None:
        """Make the folder of a class that is about to begin."""
        self.folder.mkdir(parents=True)
        for part in ("collection.toml", "labs", "checks", "images", "tools"):
            (self.folder / part).symlink_to(paths.root() / part)
        names = [f"Seat {number}" for number in range(1, seats + 1)]
        text = CLASS.format(seats=json.dumps(names), labs=json.dumps([*labs]))
        (self.folder / f"{NAME}.toml").write_text(text)

    def start(self) -> Mapping[str, Any]:
        """Serve the class, and return its links. It ends when this program does.

        Raises CannotRun.
        """
        self.set_clock(0)
        port = str(self.told["url"].rpartition(":")[2]) if self.told else "0"
        start = ["class", "start", f"{NAME}.toml", "--port", port, "--json"]
        # A shell without job control, as a cron job has, lets its children ignore Ctrl-C.
        usual = ["env", "--default-signal=INT", "setpriv", "--pdeathsig", "KILL", "--"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*usual, sys.executable, "-m", "tests.soak.skewed", str(self.skew), *start],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.folder,
                env=self.env,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        said, patience = "", threading.Timer(PATIENCE, self.process.kill)
        patience.start()
        while not said.rstrip().endswith("}\n}"):
            line = self.process.stdout.readline()
            if not line:
                patience.cancel()
                self.kill()
                raise CannotRun("The server of the class has not begun.", f"less {self.log}")
            said += line
        patience.cancel()
        self.lives += 1
        self.told = json.loads(said)
        return self.told

    def kill(self) -> None:
        """End it as the OOM killer would, and with it the commands that it has started."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as Ctrl-C does; the stacks stay. Return its exit code."""
        return self._end(signal.SIGINT)

    def _end(self, number: signal.Signals) -> int:
        if self.process is None:
            return 0
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(120)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()

    def set_clock(self, seconds: float) -> None:
        """Set the clock that the server reads, and no other one."""
        part = self.skew.with_suffix(".part")
        part.write_text(f"{seconds:g}")
        part.replace(self.skew)

    def fill_disk(self, full: bool) -> None:
        """Let the journal not grow any more, as on a full disk, or let it grow again.

        It is a limit of this process on the size of files, which changes nothing on the disk.
        """
        if self.process is not None:
            size = self.journal.stat().st_size if full else resource.RLIM_INFINITY
            _, most = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, most))

    def sample(self) -> dict[str, float] | None:
        """Return the memory in MB, the threads and the open files of the server; None if down."""
        if self.process is None:
            return None
        proc = Path(f"/proc/{self.process.pid}")
        try:
            status = (proc / "status").read_text()
            return {**memory(status), "files": len(list((proc / "fd").iterdir()))}
        except (OSError, KeyError):  # it has just ended, or is not yet what it will be
            return None

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a `faultlab class` command on this class."""
        return subprocess.run(
            [sys.executable, "-m", "faultlab", "class", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.env,
            timeout=900,
            check=False,
        )

    def others(self) -> list[str]:
        """Return the files in its folder that no class is meant to leave behind.

        Meant to stay are the journal, the tokens, the results, and the record of each run.
        """
        meant = {f"{NAME}.toml", "collection.toml", "labs", "checks", "images", "tools", "runs"}
        found = [
            path.name for path in self.folder.iterdir() if path.name not in {*meant, "classes"}
        ]
        kept = {"events.jsonl", "keys.json", "alive"}
        of_class = self.folder.glob("classes/*/*")
        found += [p.name for p in of_class if p.name not in kept and p.stem != "results"]
        runs = self.folder / "runs"
        found += [p.name for p in runs.glob(".*")] + [str(p.name) for p in runs.rglob("*.part")]
        return sorted(found)

    def remove(self) -> None:
        """Remove the folder of the class, its log and its clock."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for file in (self.log, self.skew):
            file.unlink(missing_ok=True)


def memory(status: str) -> dict[str, float]:
    """Read /proc/PID/status: what the process uses, swapped out or not, and its threads."""
    found = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    kb = sum(int(found[name].split()[0]) for name in ("VmRSS", "VmSwap"))
    return {"memory": round(kb / 1024, 3), "threads": int(found["Threads"])}
