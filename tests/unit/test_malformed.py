"""Five hundred malformed inputs: each is told in one line with the next command, nothing changes.

They are made from good ones by a seeded generator, ten in a test; a failure says which. A class
has other values in each line as well.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import tarfile
from pathlib import Path

import pytest

from faultlab.cli.main import VERBS
from faultlab.lab import services
from tests.unit.conftest import REPO, Project, Result, Run

ODD = (
    *("\0", "\x1b[2J", "é", "\u202e", "'", '"', "[[", "}}"),
    *("=", "\\", "%s", "{0}", "\n\n", "-", "💥"),
)
NESTED = 1050  # more than Python's limit for recursion
VALUES = ("null", "-1", "1e999", "true", "[]", "{}", '""', '"x"', "[[1]]", "99999999999999999999")


def broken(dice: random.Random, good: bytes) -> bytes:
    """Return a good file with one to three things wrong."""
    data = good
    for _ in range(dice.randint(1, 3)):
        at, end = sorted(dice.randrange(len(data) + 1) for _ in range(2))
        lines = data.splitlines(keepends=True) or [b""]
        line = dice.randrange(len(lines))
        match dice.randrange(8):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + data[min(end, at + 40) :]
            case 2:
                data = data[:at] + dice.choice(ODD).encode() + data[at:]
            case 3:
                data = data[:at] + dice.randbytes(dice.randint(1, 8)) + data[at:]
            case 4:
                data = b"".join([*lines[: line + 1], lines[line], *lines[line + 1 :]])
            case 5:
                data = b"".join(lines[:line] + lines[line + 1 :])
            case 6:  # another value for a key of TOML or JSON
                for sign in (b" = ", b": "):
                    if sign in lines[line]:
                        key = lines[line].split(sign)[0]
                        lines[line] = key + sign + dice.choice(VALUES).encode() + b"\n"
                        break
                data = b"".join(lines)
            case _:
                data = dice.choice((b"", b"[]", b"{}", b"[" * NESTED, b"\xff\xfe", b"{" * NESTED))
    return data


def tree(root: Path) -> dict[str, tuple[int, int, int]]:
    """Return all files that a person has written: which it is, its size, and its last change."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            if not name.endswith((".lock", ".pyc")):
                facts = os.stat(file := f"{folder}/{name}")  # noqa: PTH116 (700,000 times)
                found[file] = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return found


def told(got: Result, words: object) -> None:
    """An ending as documented: no traceback, a known exit code, the mistake and what to type."""
    assert got.code in (0, 1, 2, 3), (words, got)
    assert "Traceback" not in got.err and "itself failed" not in got.err, (words, got.err)
    if got.code:
        lines = got.err.strip().splitlines()
        assert lines[0].startswith("faultlab: ") and len(lines) <= 4, (words, got.err)
        assert any(line.startswith("  next: ") for line in lines), (words, got.err)
        assert not any(ord(char) < 32 for line in lines for char in line), (words, got.err)


def tried(project: Project, faultlab: Run, *lines: tuple[str, ...]) -> None:
    """Run these command lines; those that fail must not change the project."""
    for words in lines:
        before = tree(project.root)
        said = faultlab(*words)
        told(said, words)
        assert not said.code or tree(project.root) == before, words


def ten(kind: str, batch: int) -> list[random.Random]:
    """Return the generators of ten inputs."""
    return [random.Random(f"{kind} {batch * 10 + i}") for i in range(10)]


@pytest.mark.parametrize("batch", range(12))
def test_labs(batch: int, project: Project, faultlab: Run) -> None:
    """Damaged lab.toml and Compose files."""
    for dice in ten("lab", batch):
        lab = dice.choice(("mtu", "packet-loss", "scale-out", "heap-oom", "syn-flood"))
        folder = project.root / "labs" / lab
        file = dice.choice(sorted(f for f in folder.iterdir() if f.suffix in (".toml", ".yaml")))
        good = file.read_bytes()
        file.write_bytes(broken(dice, good))
        services._read.cache_clear()
        tried(project, faultlab, ("start", lab), ("debrief", lab, "--json"))
        file.write_bytes(good)


@pytest.mark.parametrize("batch", range(8))
def test_records(batch: int, project: Project, faultlab: Run) -> None:
    """Damaged records of runs."""
    for dice in ten("record", batch):
        good = dice.choice(sorted((REPO / "tests/recorded/runs").glob("*-[a-i]*/run.json")))
        run = json.loads(good.read_text())["id"]
        folder = project.root / "runs" / run
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "run.json").write_bytes(broken(dice, good.read_bytes()))
        added = b'[3, {"t": 4.5, "event": "command"}]\n[4, {"t": 5, "event": "x"}]\n'
        (folder / "events.jsonl").write_bytes(broken(dice, added))
        tried(project, faultlab, ("show", run), ("judge", run, "--json"), ("runs",))


@pytest.mark.parametrize("batch", range(8))
def test_files_of_results(batch: int, project: Project, faultlab: Run) -> None:
    """Damaged files of results."""
    for dice in ten("results", batch):
        name, verb = dice.choice((("reliability", "reliability"), ("score", "scorecard")))
        good = (REPO / f"docs/{name}.json").read_bytes()
        rows = b'"trials": [\n' if name == "score" else b'"walks": [\n'
        head, _, rest = good.partition(rows)  # with its first rows, so that it is read quickly
        good = head + rows + b"\n".join(rest.splitlines()[:9]).rstrip(b",") + b"]}"
        file = project.root / "result.json"
        file.write_bytes(broken(dice, good))
        tried(project, faultlab, (verb, str(file), "--json"))


@pytest.mark.parametrize("batch", range(5))
def test_tools(batch: int, project: Project, faultlab: Run) -> None:
    """A damaged tool.toml."""
    (project.root / "tools").symlink_to(REPO / "tools")
    folder = project.root / "mine"
    shutil.copytree(REPO / "tools/ss-rules", folder)
    good = (folder / "tool.toml").read_bytes()
    for dice in ten("tool", batch):
        (folder / "tool.toml").write_bytes(broken(dice, good))
        tried(project, faultlab, ("score", str(folder), "--labs", "mtu"))


WHOLE = {
    "manifest.json": '{"schema": 1, "lab": "mtu"}',
    "healthy/web/x": "a",
    "faulty/web/x": "b",
    "fixed/web/x": "c",
    "../../out": "x",
    "/out": "x",
}


@pytest.mark.parametrize("batch", range(4))
def test_recorded_labs(batch: int, project: Project, faultlab: Run) -> None:
    """An archive that is damaged, lies about what is in it, or leads out of its folder."""
    (project.root / "tools").symlink_to(REPO / "tools")
    file = project.root / "mtu.bundle.tar.gz"
    for dice in ten("bundle", batch):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as archive:
            for name, text in WHOLE.items():
                body = broken(dice, text.encode()) if dice.random() < 0.2 else text.encode()
                entry = tarfile.TarInfo(name)
                entry.size = len(body)
                if dice.random() < 0.1:
                    entry.type, entry.linkname, entry.size = tarfile.SYMTYPE, "/etc/passwd", 0
                archive.addfile(entry, io.BytesIO(body))
        raw = data.getvalue()
        file.write_bytes(broken(dice, raw) if dice.random() < 0.4 else raw)
        tried(project, faultlab, ("score", "ss-rules", "--from", str(file)))
        assert not (project.root.parent / "out").exists()


CLASS = """title = "A class"
labs = ["mtu", "gzip"]
seats = ["Ada", "Grace"]
minutes = 30
limits = "cpus=1 memory=512m"
hints = 2
"""


@pytest.mark.parametrize("batch", range(4))
def test_classes(batch: int, project: Project, faultlab: Run) -> None:
    """A damaged class.toml."""
    file = project.root / "class.toml"
    for dice in ten("class", batch):
        file.write_bytes(broken(dice, CLASS.encode()))
        tried(project, faultlab, ("class", "status", str(file)), ("class", "start", str(file)))


@pytest.mark.parametrize("line", range(len(CLASS.splitlines())))
def test_other_values_in_a_class(line: int, project: Project, faultlab: Run) -> None:
    """Each value of a class.toml that is good otherwise, replaced by what is mostly wrong."""
    file = project.root / "class.toml"
    lines = CLASS.splitlines(keepends=True)
    key = lines[line].split(" = ")[0]
    file.write_text(CLASS)
    assert faultlab("class", "start", str(file)).code == 3  # only Docker is missing
    for value in VALUES:
        file.write_text("".join([*lines[:line], f"{key} = {value}\n", *lines[line + 1 :]]))
        tried(project, faultlab, ("class", "status", str(file)), ("class", "start", str(file)))


@pytest.mark.parametrize("batch", range(9))
def test_arguments(batch: int, project: Project, faultlab: Run) -> None:
    """Random words on the command line."""
    for dice in ten("words", batch):
        words = [_word(dice) for _ in range(dice.randint(1, 6))]
        if {*words} & {"shell", "class", "vm", "bundle", "images", "sweep", "verify", "docs"}:
            words = ["start", *words[1:]]
        tried(project, faultlab, tuple(words))


def _word(dice: random.Random) -> str:
    verbs = [str(verb) for verb in VERBS]
    labs = ("mtu", "mt", "../mtu", "", "a" * 5000, "--", "-", "/dev/null", "~")
    options = ("--json", "--engine", "--seconds", "--fault", "--x", "--repeat", "--")
    numbers = ("-1", "0", "1e9", "nan", "inf", "0x10", "٣")
    return dice.choice(dice.choice((verbs, ODD, labs, options, numbers)))
