"""The error of the checks: repairs are tried, counted, kept, and shown with their intervals."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from faultlab.core.defaults import JUDGED
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.lab import loader as labs
from faultlab.lab.limits import at_most
from faultlab.lab.repair import AIMED
from faultlab.run import digest, judge_error, late
from faultlab.run.judge_error import Seen, Tried
from faultlab.run.phase import alternative, cheat
from faultlab.verify import beside, judge_page, trials
from faultlab.verify.walks import Limit, Walk, Walks
from tests.unit.conftest import Project
from tests.unit.conftest import Run as Verbs
from tests.unit.fake import FakeEngine, only_fake

FILE = "labs/mtu/repairs.toml"
REPAIRS = """\
[[repair]]
title    = "The usual MTU"
expected = "accept"
kind     = "own"
why      = "It fits."
steps    = [{ at = "web", run = "ip link set dev eth0 mtu 1500" }]

[[repair]]
title    = "Say hello"
expected = "refuse"
kind     = "public"
why      = "It changes | nothing."
source   = "Say hello, example.org"
steps    = [{ at = "web", run = "echo hello" }]

[[repair]]
title    = "A command that fails"
expected = "refuse"
kind     = "harms others"
why      = "It does not run."
steps    = [{ at = "web", run = "exit 3" }]

[[repair]]
title    = "Right by mistake"
expected = "refuse"
kind     = "ends soon"
why      = "It is a right one, to have a wrong verdict."
steps    = [{ at = "web", run = "ip link set dev eth0 mtu 1400" }]
"""


@pytest.fixture
def mtu(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The lab mtu on a fake engine, with four repairs."""
    only_fake(monkeypatch)
    project.write(FILE, REPAIRS)
    return project


def rows(file: Path) -> dict[str, Tried]:
    return {row.title: row for row in judge_error.read(file)}


def test_each_is_tried_on_a_fresh_fault(mtu: Project, faultlab: Verbs, tmp_path: Path) -> None:
    file = tmp_path / "judge.json"
    said = faultlab("judge-error", "mtu", "--json", str(file))
    assert (said.code, said.err) == (1, "faultlab: 1 of 4 verdicts are wrong.\n")
    assert "accept   WRONG  mtu: Right by mistake" in said.out
    assert "accepted though unsound: 1 of 2 (50.0%, 95%: 9.5 to 90.5%)" in said.out
    assert "refused though sound: 0 of 1" in said.out
    found = rows(file)
    assert [row.got for row in found.values()] == ["accept", "refuse", "broken", "accept"]
    right, wrong, broken, _ = found.values()
    assert all(seen.holds for seen in right.deciding) and right.deciding
    assert wrong.deciding and not any(seen.holds for seen in wrong.deciding)
    assert "exit 3" in broken.reason and not broken.wrong
    assert right.seed and right.run and right.digest and right.phase == "repair 1"
    assert [row.later for row in found.values()] == [0, 0, 0, late.MINUTES]  # it aims at that
    assert not FakeEngine.reach().stacks_up


def test_the_same_command_goes_on(mtu: Project, faultlab: Verbs, tmp_path: Path) -> None:
    file = tmp_path / "judge.json"
    words = ("judge-error", "mtu", "--json", str(file))
    assert "4 repairs, 4 tried now" in faultlab(*words).out
    assert "4 repairs, 0 tried now" in faultlab(*words).out
    # Other words about a repair need no other trial; other steps do.
    mtu.write(FILE, REPAIRS.replace("It fits.", "It is enough.").replace("hello", "good day"))
    assert "4 repairs, 1 tried now" in faultlab(*words).out
    assert rows(file)["The usual MTU"].why == "It is enough."
    assert [*rows(file)][1] == "Say good day"
    # Nothing is known about one that was unknown, and what was accepted can be looked at later.
    kept = judge_error.read(file)
    judge_error.write([replace(kept[1], got="unknown"), kept[0], *kept[2:]], file)
    assert "4 repairs, 1 tried now" in faultlab(*words).out
    assert "4 repairs, 2 tried now" in faultlab(*words, "--later", "5").out
    assert "4 repairs, 0 tried now" in faultlab(*words, "--later", "5").out
    # Rows of another file are taken over, those of other labs are kept.
    other = tmp_path / "other.json"
    judge_error.write([Tried("gzip", "x", "own", "accept", "accept")], other)
    more = ("--from", str(file), "--json", str(other))
    assert "4 repairs, 0 tried now" in faultlab("judge-error", "mtu", *more).out
    assert {row.lab for row in judge_error.read(other)} == {"gzip", "mtu"}


@pytest.mark.parametrize(
    ("words", "count"),
    [(("--kind", "public"), 1), (("--only", "The usual MTU"), 1), (("--share", "1/1"), 4)],
)
def test_a_part(words: tuple[str, ...], count: int, mtu: Project, faultlab: Verbs) -> None:
    assert f"{count} tried now" in faultlab("judge-error", "mtu", *words).out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("mtu", "--only", "The usual MTI"), "did you mean 'The usual MTU'?"),
        (("mtu", "--kind", "pubic"), "--kind: expected one of "),
        (("mtu", "--share", "3/2"), "--share: expected a part such as 2/3, got '3/2'"),
        (("mtu", "--jobs", "0"), "--jobs takes a number from 1 up"),
        ((), "Name some labs, or say --all"),
        (("mtu", "--show", "x"), "--show: expected one of page, remedies, line"),
    ],
)
def test_a_mistake(words: tuple[str, ...], problem: str, mtu: Project, faultlab: Verbs) -> None:
    said = faultlab("judge-error", *words)
    assert said.code == 2 and problem in said.err


def test_a_lab_that_cannot_be_proven(mtu: Project, faultlab: Verbs) -> None:
    mtu.change("labs/mtu/lab.toml", "mtu 100", "mtu 1499")
    said = faultlab("judge-error", "mtu")
    assert (said.code, said.err) == (3, "faultlab: 4 of 4 repairs have no verdict.\n")
    assert said.out.count("the fault has no effect") == 4


def test_alternatives_and_cheats_are_judged_by_recorded_walks(mtu: Project) -> None:
    every = {trial.row.title: trial for trial in trials.of(labs.load("mtu"))}
    of_alternative, of_cheat = every[alternative(1)], every[cheat(1)]
    limits = [Limit(p, k, "late", "%", "at most", 5, False) for p, k in PHASES]  # type: ignore[arg-type]
    kept = Walks({"mtu": limits})

    def walk(verdict: str, *values: float) -> Walks:
        number = len(kept.walks)
        made = Walk("mtu", number, verdict, run=str(number))  # type: ignore[arg-type]
        made = replace(made, phases=[p for p, _ in PHASES], values={"late": [0, *values]})
        kept.walks[made.key] = replace(made, lab_digest=digest.walk("mtu"))
        return kept

    assert at_most(5).holds(0, 0) and trials.walked(of_cheat, kept) is None
    right = walk("pass", 0, 50)
    good, bad = trials.walked(of_alternative, right), trials.walked(of_cheat, right)
    assert good and bad and (good.got, bad.got, bad.walks) == ("accept", "refuse", 1)
    assert bad.deciding[0].words.startswith("late: 50 %")
    wrong = walk("fail", 50, 0)  # one of two walks is enough
    good, bad = trials.walked(of_alternative, wrong), trials.walked(of_cheat, wrong)
    assert good and bad and good.wrong and bad.wrong and bad.walks == 2


PHASES = (("healthy", "well"), (alternative(1), "well"), (cheat(1), "cheat"))


def row(lab: str, got: judge_error.Got, expected: str, kind: str = "own") -> Tried:
    seen = [Seen("pages", "3 of 12", "12", got == "accept")]
    title = f"{kind} {got} {expected}"
    return Tried(lab, title, kind, expected, got, findings=seen)  # type: ignore[arg-type]


EVERY = [
    row("mtu", "accept", "accept"),
    row("mtu", "accept", "refuse", "stale"),
    row("mtu", "refuse", "refuse", "public"),
    row("gzip", "refuse", "accept"),
    row("gzip", "refuse", "refuse", "cheat"),
    row("gzip", "unknown", "refuse"),
    row("gzip", "broken", "accept"),
]


def test_two_errors_are_told_apart() -> None:
    found = judge_error.errors(EVERY)
    assert (found.unsound.of, found.unsound.happened) == (3, 1)
    assert (found.sound.of, found.sound.happened) == (2, 1)
    assert (found.unknown, found.broken, found.tried) == (1, 1, 7)
    assert judge_error.line(EVERY) == (
        "Repairs of 2 labs were tried. Wrongly accepted: 1 of 3 (95%: 6.1 to 79.2%)."
        " Wrongly refused: 1 of 2 (95%: 9.5 to 90.5%)."
    )
    assert judge_error.line([]) == judge_error.line(EVERY[-2:]) == ""


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "judge.json"
    judge_error.write(EVERY, file)
    assert judge_error.read(file) == EVERY
    assert len(file.read_text().splitlines()) == len(EVERY) + 2
    file.write_text('{"schema": 1, "rows": [{"lab": "mtu"}]}')
    with pytest.raises(BadInput, match=r"is not a result of judge-error: rows\.0"):
        judge_error.read(file)


def test_a_page_that_shows_a_verdict_needs_no_file(project: Project) -> None:
    assert judge_error.said() == ""
    (project.root / "docs").mkdir()
    project.write(JUDGED, "{")
    assert judge_error.said() == ""
    judge_error.write(EVERY, project.root / JUDGED)
    assert judge_error.said().startswith("Repairs of 2 labs were tried.")


@pytest.fixture
def recorded(mtu: Project) -> Project:
    (mtu.root / "docs").mkdir()
    hello = replace(EVERY[2], title="Say hello", why="It changes | nothing.", source="example.org")
    judge_error.write([*EVERY, hello], mtu.root / JUDGED)
    return mtu


def test_the_page(recorded: Project, faultlab: Verbs) -> None:
    said = faultlab("judge-error", "--show", "page").out
    assert "| all | 4 | 1 | 4.6-69.9% | 2 | 1 | 9.5-90.5% | 1 | 1 |" in said
    assert "| alternatives and cheats of the labs | 1 | 0 | 0.0-79.3% | 0 | 0 | - | 0 | 0 |" in said
    wrong = said.split("## Each wrong verdict")[1].split("## No verdict")[0]
    assert (
        "| mtu | stale accept refuse | stale | refuse | accept |  | pages: 3 of 12, wanted" in wrong
    )
    assert wrong.count("\n| ") == 4 and "broken" in said.split("## No verdict")[1]
    assert "- 8 of them were tried before their lab or its check was last changed" in said


def test_the_remedies(recorded: Project, faultlab: Verbs) -> None:
    said = faultlab("judge-error", "--show", "remedies").out
    assert f"## {labs.load('mtu').title}\n" in said and "gzip" not in said
    cells = "| Say hello: `web# echo hello` | does not help | pages: 3 of 12, wanted 12 |"
    assert f"{cells} It changes \\| nothing. | example.org |" in said


def test_the_line(recorded: Project, faultlab: Verbs) -> None:
    assert faultlab("judge-error", "--show", "line").out == judge_error.said() + "\n"
    (recorded.root / JUDGED).unlink()
    assert faultlab("judge-error", "--show", "line").out == "No repair has been tried yet.\n"


LINE = "mtu\tstale\tnot possible\tnginx reads the page from its disk"


def test_kinds(tmp_path: Path) -> None:
    file = tmp_path / "kinds.tsv"
    assert judge_page.read_kinds(file) == []
    file.write_text(f"lab\tkind\tstate\tbecause\n{LINE}\n\n{LINE.replace('mtu', 'gzip')}\n")
    every = judge_page.read_kinds(file)
    made = [*judge_page.kinds_as_markdown(every)]
    assert (
        len(every) == 2
        and "| not possible | nginx reads the page from its disk | mtu, gzip |" in made
    )
    (mtu,) = (line for line in made if line.startswith("| mtu |"))
    assert mtu.count("?") == len(AIMED) - 1 and "| - |" in mtu


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LINE.replace("mtu", "mut"), "line 1: expected one of "),
        (LINE.replace("stale", "public"), "line 1: expected one of a right repair is refused"),
        (LINE.replace("not possible", "no"), "line 1: expected one of mended, not possible"),
        ("mtu\tstale\tmended", "line 1: expected lab, kind, state, because, parted by tabs"),
        (f"{LINE}\n{LINE}", "mtu, stale: there are two lines"),
    ],
)
def test_a_mistake_in_kinds(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "kinds.tsv").write_text(text)
    with pytest.raises(BadInput, match=problem):
        judge_page.read_kinds(tmp_path / "kinds.tsv")


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let another program try the repairs of a lab: it gets the lab and the file."""
    file = tmp_path / "program"
    head = f"#!{sys.executable}\nimport json, sys, time\nlab, file = sys.argv[4], sys.argv[6]\n"
    file.write_text(head + textwrap.dedent(code))
    file.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(file))


def run_beside(add: beside.Add) -> None:
    chosen = [labs.load(name) for name in ("mtu", "gzip")]
    places = dict.fromkeys(("mtu", "gzip"), FakeEngine())
    beside.run(chosen, places, [EVERY[0]], words=[], jobs=2, add=add)


def test_labs_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """\
    found = json.load(open(file))
    known = {"title": "new", "kind": "own", "expected": "accept", "got": "accept"}
    found["rows"].append({"lab": lab, **known})
    json.dump(found, open(file, "w"))
    print("a line", flush=True)
    sys.exit(1)
    """
    program(tmp_path, monkeypatch, code)
    new: list[Tried] = []
    run_beside(new.append)
    assert sorted((row.lab, row.title) for row in new) == [("gzip", "new"), ("mtu", "new")]


def test_a_lab_beside_others_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, "print('faultlab: no.', file=sys.stderr)\nsys.exit(2)")
    with pytest.raises(CannotRun, match=r"judge-error (mtu|gzip) failed: faultlab: no\."):
        run_beside(lambda _: None)


def test_the_others_end_with_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for an hour otherwise."""
    code = """\
    if lab == "gzip": sys.exit(2)
    time.sleep(3600)
    """
    program(tmp_path, monkeypatch, code)
    with pytest.raises(CannotRun):
        run_beside(lambda _: None)


def test_the_document_for_programs(recorded: Project, faultlab: Verbs) -> None:
    found = judge_page.show(Terminal(as_json=True), "line")
    assert len(found.rows) == len(json.loads((recorded.root / JUDGED).read_text())["rows"])
