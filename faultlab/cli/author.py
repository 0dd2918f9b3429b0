"""Author: the verbs of somebody who writes labs and documents."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from faultlab.cli.verb import LAB, verb
from faultlab.core import paths
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal

_BLOCK = re.compile(
    r"(?<=<!-- made by `faultlab )(?P<words>[^`]+)(?P<rest>`; a test compares -->\n)"
    r"(?P<body>.*?)(?=<!-- end -->)",
    re.DOTALL,
)


@verb("")
def docs(term: Terminal) -> None:
    """Write the parts of the documents that a command makes (for authors)."""
    written = []
    for file in documents():
        with term.alive("docs", paths.show(file)):
            old = file.read_text()
            new = made(old)
        if new != old:
            file.write_text(new)
            written.append(paths.show(file))
    term.say(f"Written anew: {', '.join(written)}." if written else "Nothing has changed.")
    term.json({"written": written})


def documents() -> list[Path]:
    """Return the documents that may hold parts made by a command."""
    return [paths.root() / "README.md", *sorted((paths.root() / "docs").glob("*.md"))]


def made(text: str) -> str:
    """Return a document with each part as its command makes it now. Raises CannotRun."""
    return _BLOCK.sub(lambda part: f"{part['words']}{part['rest']}{_printed(part['words'])}", text)


def _printed(words: str) -> str:
    command = [sys.executable, "-m", "faultlab", *shlex.split(words)]
    done = subprocess.run(command, cwd=paths.root(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRun(f"faultlab {words} failed: {done.stderr.strip()}", f"faultlab {words}")
    return done.stdout


@verb("mtu")
@LAB
def transcript(term: Terminal, lab: str) -> None:
    """Run a lab and record the transcripts of its lesson (for authors)."""
    from faultlab.verify import transcript

    transcript.record(term, lab)
