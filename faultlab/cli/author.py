"""Author: the verbs of somebody who writes labs and documents."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
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
def docs(term: Terminal) -> object:
    """Write the parts of the documents that a command makes (for authors)."""
    from faultlab.cli import documents

    written = []
    with term.alive("docs", "schemas") as step:
        for file, text in (documents.schemas() | dict(pages(step.note))).items():
            if not file.exists() or file.read_text() != text:
                file.write_text(text)
                written.append(paths.show(file))
    term.say(f"Written anew: {', '.join(written)}." if written else "Nothing has changed.")
    return documents.Written(written)


def pages(note: Callable[[str], None]) -> Iterator[tuple[Path, str]]:
    """Return the documents that may hold parts made by a command, as they are made now."""
    for file in [paths.root() / "README.md", *sorted((paths.root() / "docs").glob("*.md"))]:
        note(paths.show(file))
        yield file, made(file.read_text())


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
