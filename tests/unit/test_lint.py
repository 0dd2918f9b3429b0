"""Lint: what is told about a collection that breaks a rule: file, key, and what was expected."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from faultlab.lab import collection
from faultlab.lab import loader as labs
from faultlab.verify import lint
from tests.unit.conftest import REPO, Project, Run, said

EXAMPLE = REPO / "tests/collection"
TOML = "labs/redis-clients/lab.toml"
CHECK = "labs/redis-clients/check.py"
LESSON = "labs/redis-clients/README.md"
RUN = "20261130-030000-acme-{}-abcd"
FIX = "config set maxclients 1000"
IMAGES = ", ".join(sorted([*collection.ours().images(), "redis"]))
# Of each copy: the file, what is replaced in it, what replaces it; then the file and the key that
# are told, and what was expected.
BROKEN = {
    "an unknown key": (
        (TOML, "minutes    = 10", "minutes = 10\nminuts = 3"),
        (TOML, "minuts", "unknown key"),
    ),
    "a step at no place": (
        (TOML, 'at  = "store"', 'at  = "stroe"'),
        (TOML, "inject[0].at", "expected one of client, redis, store, got 'stroe'"),
    ),
    "a tier of another collection": (
        (TOML, 'tier       = "store"', 'tier       = "web"'),
        (TOML, "tier", "expected one of control, store, got 'web'"),
    ),
    "a lab that it needs and that is not here": (
        ("labs/redis-evict/lab.toml", '"redis-clients"]', '"mtu"]'),
        ("labs/redis-evict/lab.toml", "needs[0]", "expected one of redis-clients, got 'mtu'"),
    ),
    "a cheat that is the fix": (
        (TOML, 'steps = [{ at = "redis", restart = true }]', "steps = {fix}"),
        (TOML, "cheat[0].steps", "expected other steps than those of fix"),
    ),
    "a hint with when and without half": (
        (TOML, "half = [", "# half = ["),
        (TOML, "hint[0]", "expected when and half together"),
    ),
    "a repair of no kind": (
        ("labs/redis-clients/repairs.toml", "", "[[repair]]\ntitle = 'x'\n"),
        ("labs/redis-clients/repairs.toml", "repair[0].why", "missing key"),
    ),
    "a figure of nothing": (
        (TOML, "[truth]", '[[figure]]\nwhat = "x"\nof = "servd"\nfaulty = 1.0\n\n[truth]'),
        (TOML, "figure[0].of", "expected a measure, an evidence or a field of the look, got 'se"),
    ),
    "a check that does not load": (
        (CHECK, "import re\n", "import ree\n"),
        (CHECK, "ModuleNotFoundError", "No module named 'ree'"),
    ),
    "a measure of nothing": (
        (CHECK, '"served", exactly', '"servd", exactly'),
        (
            CHECK,
            "symptom 'shops that are served, of 60'",
            "expected a field of what look returns, got 'servd'",
        ),
    ),
    "limits of which one value keeps both": (
        (CHECK, "exactly(SHOPS), at_most(30)", "at_least(20), at_most(30)"),
        (
            CHECK,
            "symptom 'shops that are served, of 60'",
            "expected limits of which no value can keep both",
        ),
    ),
    "a sentence that names the cause": (
        (CHECK, "Each shop of the crowd gets", "Each of the clients gets"),
        (
            CHECK,
            "symptom 'shops that are served, of 60'",
            "expected no word of inject, id or cause, got 'clients'",
        ),
    ),
    "evidence without a command": (
        (CHECK, '"store", f"{COUNTERS} | grep rejected"', '"store", ""'),
        (
            CHECK,
            "evidence 'connections that Redis rejects'",
            "expected .seen(machine, command), which shows it",
        ),
    ),
    "evidence on no machine": (
        (CHECK, '"store", f"{COUNTERS} | grep rejected"', '"web", COUNTERS'),
        (
            CHECK,
            "evidence 'connections that Redis rejects'",
            "expected one of client, kernel, redis, store, got 'web'",
        ),
    ),
    "a ticket that names the fault": (
        ("labs/redis-clients/ticket.md", "session store", "redis"),
        ("labs/redis-clients/ticket.md", "", "expected no word of inject or cause, got 'redis'"),
    ),
    "a lesson without a heading": (
        (LESSON, "## Caveats", "## Notes"),
        (LESSON, "##", f"expected the headings {', '.join(lint.HEADINGS)}"),
    ),
    "a lesson that says another fix": (
        (LESSON, f"redis# redis-cli {FIX}", "redis# redis-cli config set maxclients 999"),
        (LESSON, "<!-- fix -->", "expected what lab.toml says"),
    ),
    "a transcript that was pasted": (
        (LESSON, "## Cause\n", "## Cause\n\n```console\nstore# date\n```\n"),
        (LESSON, "```console", "expected only below `<!-- transcript: PHASE -->`"),
    ),
    "no users to look from": (
        ("stack.yaml", "client-user:", "client-users:"),
        ("stack.yaml", "services.client-user", "missing key; checks look from there"),
    ),
    "an image that is not here": (
        ("stack.yaml", "image: redis", "image: reddis"),
        ("stack.yaml", "services.redis.image", f"expected one of {IMAGES}, got 'reddis'"),
    ),
    "a port of the host": (
        ("stack.yaml", "    image: redis\n", '    image: redis\n    ports: ["6379:6379"]\n'),
        ("stack.yaml", "services.redis.ports", "not allowed in a lab"),
    ),
    "a log that is on no volume": (
        ("images/redis/daemon.toml", '"/var/log/redis"', '"/var/log/valkey"'),
        ("stack.yaml", "services.redis.volumes", "expected a volume at /var/log/valkey, which is"),
    ),
    "a daemon without a health check": (
        ("images/redis/Dockerfile", "HEALTHCHECK --interval=60s --timeout=3s CMD", "# "),
        ("images/redis/Dockerfile", "HEALTHCHECK", "expected one, as the sign that it is up"),
    ),
    "an image of another Debian": (
        ("images/redis/Dockerfile", "FROM ${BASE}", "FROM debian:latest"),
        ("images/redis/Dockerfile", "FROM", "expected `ARG BASE`, then `FROM ${BASE}`"),
    ),
    "a control that is no lab": (
        ("collection.toml", 'client   = "client"', 'control = "healthy"'),
        ("collection.toml", "control", "expected one of redis-clients, redis-evict, got 'healthy'"),
    ),
    "a collection of another faultlab": (
        ("collection.toml", '"0.1"', '"99"'),
        ("collection.toml", "faultlab", "expected at most 0.1.0, got '99'"),
    ),
}
STEPS = """[
{ at = "store", run = "sed -i 's/^maxclients .*/maxclients 1000/' /etc/redis/lab.conf" },
{ at = "redis", run = "redis-cli config set maxclients 1000" }]"""


@pytest.fixture
def whole(project: Project, tmp_path: Path) -> Path:
    """A copy of the example that keeps every rule, as if its transcripts were recorded."""
    root = tmp_path / "acme"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns("__pycache__"))
    for file in root.glob("labs/*/README.md"):
        text = file.read_text()
        for phase in ("healthy", "faulty", "fixed"):
            run = RUN.format(file.parent.name)
            text = text.replace(
                f"transcript: {phase} -->\n", f"transcript: {phase}, run {run} -->\n"
            )
        file.write_text(text.replace("uniq -c\n", "uniq -c\n     30 +PONG\n"))
    return root


def test_the_example_keeps_every_rule(whole: Path, faultlab: Run) -> None:
    got = faultlab("lint", str(whole))
    assert (got.code, got.err) == (0, ""), got.out
    assert got.out == "2 labs keep every rule. Next: faultlab verify LAB\n"


def test_its_own_lessons_wait_for_a_stack_only() -> None:
    its = collection.read(EXAMPLE)
    found = [*lint.of_stack(its), *lint.of_labs(its, its.ids())]
    assert {(breach.key, breach.next.split()[1]) for breach in found} <= {
        ("transcript", "transcript")
    }


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_broken_copy(mistake: str, whole: Path, faultlab: Run) -> None:
    (name, old, new), (file, key, expected) = BROKEN[mistake]
    target = whole / name
    text = target.read_text() if target.exists() else ""
    assert old in text
    target.write_text(text.replace(old, new.replace("{fix}", STEPS), 1) if old else new)
    got = faultlab("lint", str(whole), "--json")
    assert got.code == 1, got.err
    found = json.loads(got.out)["found"]
    its = [each for each in found if (each["file"], each["key"]) == (str(whole / file), key)]
    assert its, found
    assert its[0]["expected"].startswith(expected)
    assert its[0]["next"], "the next command is missing"


def test_what_a_person_reads(whole: Path, faultlab: Run) -> None:
    file = whole / TOML
    file.write_text(file.read_text().replace("minutes    = 10", 'minutes = "ten"'))
    got = faultlab("lint", str(whole))
    line = f"  {file}: minutes: expected a valid integer, got 'ten'\n    next: edit {file}"
    assert got.out.startswith(line)
    assert got.code == 1 and got.err.startswith("faultlab: 1 rule is not kept.\n  next: edit ")


@pytest.mark.parametrize("gone", ["ticket.md", "README.md", "lab.toml"])
def test_a_file_that_is_missing(gone: str, whole: Path, faultlab: Run) -> None:
    file = whole / "labs/redis-evict" / gone
    file.unlink()
    found = json.loads(faultlab("lint", str(whole), "--json").out)["found"]
    assert [(each["file"], each["key"]) for each in found] == [(str(file), "")]
    assert found[0]["expected"].startswith("missing file; a lab has lab.toml, ticket.md, README.md")


def test_all_that_is_wrong_is_told(whole: Path, faultlab: Run) -> None:
    (whole / "labs/redis-evict/check.py").unlink()
    (whole / "labs/redis-clients/ticket.md").write_text("It is slow.\n")
    found = json.loads(faultlab("lint", str(whole), "--json").out)["found"]
    assert [Path(each["file"]).name for each in found] == ["ticket.md", "check.py"]


def test_no_such_folder(faultlab: Run, tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    assert faultlab("lint", str(folder)) == said(f"There is no folder {folder}.", f"ls {tmp_path}")


def test_a_folder_that_is_no_collection(faultlab: Run, tmp_path: Path) -> None:
    got = faultlab("lint", str(tmp_path))
    assert got.code == 1 and "collection.toml: missing file" in got.out


def test_the_lessons_are_written(whole: Path, faultlab: Run) -> None:
    lesson = whole / LESSON
    text = lesson.read_text()
    lesson.write_text(text.replace(f"redis# redis-cli {FIX}\n", ""))
    assert faultlab("lint", str(whole)).code == 1
    got = json.loads(faultlab("lint", str(whole), "--write", "--json").out)
    assert (got["written"], got["found"]) == ([str(lesson)], [])
    assert lesson.read_text() == text


def test_ours_keeps_every_rule_of_its_stack() -> None:
    assert [*lint.of_stack(collection.ours())] == []


def test_our_labs_keep_every_rule() -> None:
    assert [*lint.of_labs(collection.ours(), labs.ours())] == []
