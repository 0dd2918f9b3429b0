"""Rules for the whole project: its labs, its texts, its layers, and its help."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from faultlab import __version__
from faultlab.cli import author, documents
from faultlab.cli import main as cli
from faultlab.cli.main import VERBS
from faultlab.lab import loader as labs
from faultlab.learn.hints import as_typed
from faultlab.verify import curve, transcript
from tests.unit.conftest import REPO, Run

MAKE = ["lab", "shell", "use", "hint", "check", "fix", "debrief", "reset", "down", "verify"]
LABS = labs.ids()
each_lab = pytest.mark.parametrize("lab_id", LABS)
each_verb = pytest.mark.parametrize("verb", cli.VERBS)


def tracked() -> list[Path]:
    """The files of the repository, new ones included."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    )
    return [file for line in done.stdout.splitlines() if (file := REPO / line).is_file()]


@each_lab
def test_what_is_said_of_a_mystery_does_not_name_it(lab_id: str) -> None:
    """The name of a stack would, and so would that of a command to type."""
    lab = labs.load(lab_id).called("mystery")
    said = [lab.ticket, *(as_typed(lab, hint.text) for hint in lab.hint)]
    assert [text for text in said if f"-{lab_id}" in text] == []


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        *(f"docs/{n}.md" for n in ("start", "scorecard", "reliability", "origins", "matrix")),
    ],
)
def test_what_a_command_makes_is_as_it_makes_it(name: str) -> None:
    """Otherwise: make docs."""
    text = (REPO / name).read_text()
    assert "<!-- made by `faultlab " in text and author.rendered(text) == text


def test_a_lesson_says_what_lab_toml_says() -> None:
    """Otherwise: make docs."""
    made = dict(author.lessons(lambda _: None))
    curves = {each.lab for each in curve.read(REPO / "docs/curves.json")}
    assert [file.parent.name for file, text in made.items() if file.read_text() != text] == []
    for file, text in made.items():
        parts = ["wrong turns"] if labs.load(file.parent.name).control else ["fix", "wrong turns"]
        parts += ["dose"] * (file.parent.name in curves)
        assert all(f"<!-- {part} -->" in text for part in parts), file


def test_each_document_for_a_program_has_its_schema() -> None:
    """Otherwise: make docs."""
    made = documents.schemas()
    assert {
        file for file, text in made.items() if not file.exists() or file.read_text() != text
    } == set()
    assert {*(REPO / "docs/json").iterdir()} == {*made}
    assert {*VERBS} - {*documents.VERBS} == {
        *("shell", "score", "rules", "agent", "mcp", "transcript", "docs")
    }


@pytest.mark.parametrize(
    "line", ["terms", "runs", "reliability", "scorecard docs/score.json", "debrief mtu", "nope"]
)
def test_a_document_has_the_keys_of_its_schema(
    line: str, faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPO)
    told = json.loads(faultlab(*line.split(), "--json").out)
    name = line.split(maxsplit=1)[0] if line != "nope" else "error"
    schema = json.loads((REPO / f"docs/json/{name}.json").read_text())
    kinds = [schema, *schema.get("$defs", {}).values()]
    assert [*told] in [[*kind.get("properties", {})] for kind in kinds]


def imports(module: str) -> set[str]:
    """The modules of faultlab that a module names in an import."""
    file = REPO / (module.replace(".", "/") + ".py")
    if not file.exists():
        file = REPO / module.replace(".", "/") / "__init__.py"
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "faultlab" if node.level else node.module or ""
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    own = {name for name in found if name.startswith("faultlab.")}
    return {n for n in own if (REPO / (n.replace(".", "/") + ".py")).exists()}


def reach(module: str) -> set[str]:
    """All that a module imports, directly or through others."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        new = imports(waiting.pop()) - seen
        seen |= new
        waiting += new
    return seen


PROBES = [f"faultlab.probes.{f.stem}" for f in (REPO / "faultlab/probes").glob("[a-z]*.py")]


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("faultlab.run.inject", {"faultlab.lab.check", *PROBES}),
        ("faultlab.lab.check", {"faultlab.run.inject", *PROBES}),
        *((probe, {"faultlab.run.inject", "faultlab.lab.check"}) for probe in PROBES),
    ],
)
def test_inject_probe_and_check_know_nothing_of_each_other(
    module: str, forbidden: set[str]
) -> None:
    assert imports(module), f"{module}: the test has lost sight of it"
    assert reach(module) & forbidden == set()


@pytest.mark.parametrize("name", ["start", "vm"])
def test_a_page_shows_what_its_commands_print(name: str) -> None:
    found = transcript.blocks((REPO / f"docs/{name}.md").read_text())
    assert found and all(phase == "host" and run == "host" for phase, run, _ in found)
    for _, _, body in found:
        parts = re.split(r"^\$ .*\n", body, flags=re.MULTILINE)[1:]
        assert parts and all(part.strip() for part in parts)


def test_every_probe_has_recorded_outputs() -> None:
    recorded = {folder.name for folder in (REPO / "tests/recorded").iterdir()}
    # A log is a file, and a flood says nothing but how many SYNs it sent.
    said = {probe.rsplit(".", 1)[1] for probe in PROBES} - {"log", "hping3", "syns"}
    assert said <= recorded


def test_help(faultlab: Run) -> None:
    got = faultlab("--help")
    assert got.code == 0
    assert got.out.index("examples:") < got.out.index("exit codes:")
    assert faultlab("-h") == got
    assert faultlab("--version").out == f"faultlab {__version__}\n"
    assert [v for v in cli.VERBS if not re.search(rf"^ +{v}\b", got.out, re.MULTILINE)] == []


@each_verb
def test_the_help_of_a_verb(verb: str, faultlab: Run) -> None:
    got = faultlab(verb, "--help")
    assert got.code == 0 and faultlab(verb, "-h") == got
    examples, exits = got.out[got.out.index("examples:") :].split("exit codes:")
    assert f"faultlab {verb}" in examples
    assert re.findall(r"\b([0-3])  ", exits) == ["0", "1", "2", "3"]
    assert [line for line in got.out.splitlines() if len(line) > 80] == []


@each_verb
def test_the_examples_of_a_verb_can_be_typed(verb: str) -> None:
    assert cli.VERBS[verb].examples
    for example in cli.VERBS[verb].examples:
        program, name, *words = shlex.split(example)
        assert (program, name) == ("faultlab", verb)
        arguments = cli.VERBS[verb].make_context(verb, words).params
        named = arguments.get("labs") or arguments.get("lab") or "mtu"
        chosen = named.split(",") if isinstance(named, str) else named
        assert all(each in ("README.md", "mystery") or labs.here(each) for each in chosen)


def test_make_calls_verbs_that_exist() -> None:
    makefile = (REPO / "Makefile").read_text()
    assert set(re.findall(r"\$\(FAULTLAB\) ([a-z]+)", makefile)) <= set(cli.VERBS)
    targets = set(re.findall(r"^([a-z%-]+):", makefile, re.MULTILINE))
    assert {f"{name}-%" for name in MAKE} <= targets
    assert {"verify", "list", "doctor", "status", "clean", "test"} <= targets


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    outside = re.compile(rb"(?<![\w})])(/wor" + rb"k/|/tmp/" + rb"w\b|/ro" + rb"ot/)")
    container = re.compile(rb"/ro" + rb"ot/\.[a-z]")  # root's home in an image
    amiss = []
    for file in tracked():
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            ours = container.sub(b"", line) if file.is_relative_to(REPO / "images") else line
            if outside.search(ours):
                amiss.append(f"{file.relative_to(REPO)}:{number}")
    assert amiss == []
