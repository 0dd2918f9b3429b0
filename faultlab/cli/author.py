"""Author: the verbs for people who write labs and documents."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from click import argument, option

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
    """Write the generated parts of the documents (for authors)."""
    paths.needs_checkout("docs")
    from faultlab.cli import documents
    from faultlab.lab import release

    release.needs_written("docs")

    written = []
    with term.alive("docs", "schemas") as step:
        made = documents.schemas() | dict(lessons(step.note)) | dict(pages(step.note))
        for file, text in made.items():
            if not file.exists() or file.read_text() != text:
                file.write_text(text)
                written.append(paths.show(file))
    term.say(f"Written: {', '.join(written)}." if written else "Nothing has changed.")
    return documents.ChangedFiles(written)


def lessons(note: Callable[[str], None]) -> Iterator[tuple[Path, str]]:
    """Yield each lesson, with the parts made again that repeat lab.toml and recorded walks."""
    from faultlab.lab import loader as labs
    from faultlab.verify import curve, lesson, walks

    kept = walks.read(paths.root() / "docs/reliability.json")
    curves = curve.read(paths.root() / "docs/curves.json")
    for lab_id in labs.ours():
        note(lab_id)
        lab = labs.load(lab_id)
        yield lab.folder / "README.md", lesson.rendered(lab, kept, curves)


def pages(note: Callable[[str], None]) -> Iterator[tuple[Path, str]]:
    """Yield each document that can have generated parts, with the parts made again."""
    for file in [paths.root() / "README.md", *sorted((paths.root() / "docs").glob("*.md"))]:
        note(paths.show(file))
        yield file, rendered(file.read_text())


def rendered(text: str) -> str:
    """Return a document with each part as its command prints it now. Raises CannotRun."""
    return _BLOCK.sub(lambda part: f"{part['words']}{part['rest']}{_printed(part['words'])}", text)


def _printed(words: str) -> str:
    """Run a command beside the runs that are kept with the tests, not those of this machine."""
    command = [sys.executable, "-m", "faultlab", *shlex.split(words)]
    env = {**os.environ, "FAULTLAB_STATE": str(paths.root() / "tests/recorded")}
    done = subprocess.run(
        command, cwd=paths.root(), env=env, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CannotRun(f"faultlab {words} failed: {done.stderr.strip()}", f"faultlab {words}")
    return done.stdout


@verb("mylabs", "mylabs --write")
@argument("folder", metavar="DIR", help="a folder with collection.toml")
@option("--write", is_flag=True, help="first write what its lessons repeat of lab.toml")
def lint(term: Terminal, folder: str, write: bool) -> object:
    """Find the rules that a collection of labs does not keep (imports its checks)."""
    from faultlab.verify import lint

    return lint.show(term, folder, write)


@verb("mtu")
@LAB
def transcript(term: Terminal, lab: str) -> None:
    """Run a lab and record the transcripts of its lesson (for authors)."""
    from faultlab.verify import transcript

    transcript.record(term, lab)
