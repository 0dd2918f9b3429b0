"""Terminal: solve a lab in a real terminal, keep what it showed as an asciicast, and draw that."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from fcntl import ioctl
from pathlib import Path

from faultlab.core import paths

COLUMNS, ROWS = 82, 30
ON_HOST, ON_MACHINE = r"\$ $", r"root@\w+:\S*# $"
KEY = 0.05  # seconds between two keys
STEPS = (  # what is typed, the prompt that follows, and how long a reader needs for the result
    ("make lab-{lab}", ON_HOST, 6),
    ("make shell-{lab} AT=client", ON_MACHINE, 0.5),
    ("curl -m 3 http://web/", ON_MACHINE, 2),
    ("ping -c 1 web | grep loss  # a small packet", ON_MACHINE, 2),
    ("ping -c 1 -W 1 -s 1000 web | grep loss  # a large one", ON_MACHINE, 3),
    ("exit", ON_HOST, 0.5),
    ("make shell-{lab} AT=web", ON_MACHINE, 0.5),
    ("ip link show eth0 | grep mtu", ON_MACHINE, 3),
    ("ip link set eth0 mtu 1500", ON_MACHINE, 1),
    ("exit", ON_HOST, 0.5),
    ("make check-{lab}", ON_HOST, 6),
)
TEMPLATE = Path(__file__).with_name("template.svg")
TOOL = paths.root() / "build/pictures/bin/termtosvg"


class Terminal:
    """A shell in a terminal, and all that the terminal has shown."""

    def __init__(self, state: Path) -> None:
        kept = {name: os.environ[name] for name in ("HOME", "DOCKER_HOST") if name in os.environ}
        env = {
            **kept,
            "PATH": os.environ["PATH"],
            "FAULTLAB_NAMESPACE": os.environ["FAULTLAB_NAMESPACE"],
            "FAULTLAB_STATE": str(state),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PS1": "$ ",
        }
        self.events: list[tuple[float, str, str]] = []
        self.printed = ""  # since the last key
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(paths.root())
            os.execvpe("bash", ["bash", "--norc", "--noprofile"], env)
        ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.until(ON_HOST)

    def read(self, seconds: float) -> str:
        """Return what the terminal shows next, at most after some seconds, and keep it."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return ""
        shown = os.read(self.fd, 65536).decode(errors="replace")
        self.events.append((round(time.monotonic() - self.began, 3), "o", shown))
        self.printed += shown
        return shown

    def until(self, prompt: str, seconds: float = 120) -> None:
        """Read until the last command has printed a prompt and nothing follows it."""
        deadline = time.monotonic() + seconds
        while self.read(0.5) or not re.search(prompt, self.printed):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no prompt {prompt} after: {self.printed[-500:]}")

    def type(self, words: str) -> None:
        """Type a line as a person does."""
        for key in f"{words}\r":
            self.printed = ""
            os.write(self.fd, key.encode())
            self.read(KEY)
            time.sleep(KEY)

    def end(self) -> None:
        """End the shell."""
        os.close(self.fd)
        os.kill(self.pid, signal.SIGHUP)
        os.waitpid(self.pid, 0)


def play(lab: str, state: Path, cast: Path) -> list[str]:
    """Solve a lab in a terminal, and write what it showed; return the run."""
    terminal = Terminal(state)
    try:
        for words, prompt, pause in STEPS:
            print(f"  {words.format(lab=lab)}", flush=True)
            terminal.type(words.format(lab=lab))
            terminal.until(prompt)
            time.sleep(pause)
    finally:
        terminal.end()
        down = [sys.executable, "-m", "faultlab", "down", lab]
        subprocess.run(
            down, check=True, cwd=paths.root(), env={**os.environ, "FAULTLAB_STATE": str(state)}
        )
    last, shown = terminal.events[-1][0] + STEPS[-1][2], "".join(e[2] for e in terminal.events)
    assert "yes, it works as before" in shown, "the check must end green"
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "duration": last}
    cast.write_text("".join(f"{json.dumps(line)}\n" for line in (header, *terminal.events)))
    return [folder.name for folder in (state / "runs").iterdir()]


def draw(cast: Path, picture: Path, still: Path) -> None:
    """Draw an asciicast as an SVG that moves, and its end as one that does not."""
    options = ["--template", str(TEMPLATE), "-m", "200", "-M", "7000"]  # milliseconds
    render = [str(TOOL), "render", str(cast)]
    subprocess.run([*render, str(picture), *options, "-D", "9000"], check=True)
    with tempfile.TemporaryDirectory() as frames:
        subprocess.run([*render, frames, "--still-frames", *options], check=True)
        still.write_text(max(Path(frames).iterdir()).read_text())
