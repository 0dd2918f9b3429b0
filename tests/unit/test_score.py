"""Tools, their diagnoses, and what the trials say; no Docker here."""

from __future__ import annotations

import io
import json
import random
import tarfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.errors import BadInput
from faultlab.core.lock import Held
from faultlab.core.statistics import Share
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run import digest
from faultlab.run.phase import PHASES
from faultlab.score import (
    diagnosis,
    dimensions,
    metrics,
    page,
    recording,
    results,
    scorecard,
    setups,
)
from faultlab.score import tool as tools
from faultlab.score.diagnosis import Broken, Diagnosis, InstanceEnd, Said
from faultlab.score.results import ALONE, CROWD, Results, Trial, Way
from faultlab.score.schedule import Schedule
from faultlab.score.tool import Alarm, Tool
from tests.unit.conftest import REPO, Project, Run

TOOL = """\
title   = "A tool"
at      = ["servers"]
window  = 5
output  = "lines"
command = "watch"

[[alarm]]
match  = "drops"
causes = ["mtu"]

[[expect]]
labs    = ["mtu"]
detects = "must"
why     = "It counts drops."
"""
MISTAKES = {
    "no TOML": ("title", "title =", "not valid TOML: "),
    "unknown key": ("window  = 5", "window  = 5\nwindoe = 3", "windoe: unknown key"),
    "missing key": ("window  = 5\n", "", "window: missing key"),
    "too long": ("window  = 5", "window = 500", "window: expected less than or equal to 120"),
    "no way of speaking": ('"lines"', '"words"', "output: expected 'exit', 'json', 'lines' or"),
    "no expression": ('"drops"', '"dro(ps"', "alarm[0].match: expected a regular expression, "),
    "unknown cause": ('causes = ["mtu"]', 'causes = ["mut"]', "alarm[0].causes: expected one of "),
    "unknown lab": ('labs    = ["mtu"]', 'labs = ["mut"]', "expect[0].labs: expected one of *, "),
    "unknown expectation": ('"must"', '"should"', "expect[0].detects: expected 'must', 'may' or "),
    "alerts from nowhere": ('"lines"', '"alerts"', "expected [alerts] with output"),
    "a right too many": ('"lines"', '"lines"\ncapabilities = ["SYS_ADMIN"]', "capabilities[0]: "),
    "alerts from elsewhere": (
        '"lines"',
        '"alerts"\nalerts = { url = "http://example.org/", jq = "." }',
        "alerts.url: ",
    ),
}


@pytest.fixture
def folder(project: Project) -> Path:
    made = project.root / "tools/mine"
    made.mkdir(parents=True)
    (made / "tool.toml").write_text(TOOL)
    return made


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_tool(name: str, folder: Path, faultlab: Run) -> None:
    old, new, says = MISTAKES[name]
    assert TOOL.count(old) == 1 or name == "no TOML"
    (folder / "tool.toml").write_text(TOOL.replace(old, new, 1))
    done = faultlab("score", "mine")
    assert done.code == 2
    first, second = done.err.splitlines()
    assert first.startswith(f"faultlab: tools/mine/tool.toml: {says}")
    assert second.startswith("  next: edit tools/mine/tool.toml")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["score"], "Name some tools, or say --all."),
        (["score", "none-such"], "There is no tool called 'none-such'; there are mine."),
        (["score", "./none-such"], "./none-such: there is no tool.toml"),
        (["score", "mine", "--repeat", "0"], "--jobs and --repeat take a number from 1 up."),
        (["score", "mine", "--hours", "0"], "--hours takes a number above 0, such as 0.5."),
        (["score", "mine", "--labs", "mut"], "There is no lab called 'mut'; did you mean mtu?"),
        (["score", "mine", "--from", "none.tar.gz"], "There is no file none.tar.gz."),
        (
            ["score", "mine", "--from", "none.tar.gz", "--engine", "kubernetes"],
            "--from replays a bundle on this machine, so --engine makes no sense with it.",
        ),
        (["images", "build", "mine"], "images build takes no arguments."),
        (["scorecard", "none.json"], "There is no file none.json."),
        (["record", "mtu", "--out", "/nowhere/x.tar.gz"], "There is no folder for /nowhere/"),
    ],
)
def test_bad_input(arguments: Sequence[str], says: str, folder: Path, faultlab: Run) -> None:
    for baseline in metrics.BASELINES:
        (folder.parent / baseline).symlink_to(REPO / "tools" / baseline)
    if "none-such" in arguments:
        says = "There is no tool called 'none-such'; there are always-alarm, mine, never-alarm."
    done = faultlab(*arguments)
    assert done.code == 2
    assert done.err.startswith(f"faultlab: {says}")


def tool() -> Tool:
    return Tool(id="mine", folder=REPO, **tomllib.loads(TOOL))


def speaking(output: str, **more: Any) -> Tool:
    return tool().model_copy(update={"output": output, **more})


def ended(code: int | None, *lines: str, machine: str = "web", at: float = 1.0) -> InstanceEnd:
    said = [Said(at + i, machine, line) for i, line in enumerate(lines)]
    return InstanceEnd(machine, 9.0, code, said, "it hurts")


def test_a_pattern_that_takes_for_ever_is_no_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern of a stranger that has no end must not hang the exam."""
    monkeypatch.setattr(diagnosis, "_SEARCH", 0.05)
    slow = speaking("lines", alarm=[Alarm(match=r"(\w+)+\d", causes=["mtu"])])
    with pytest.raises(Broken, match=r"takes more than 0\.05 s"):
        diagnosis.of(slow, [ended(0, "a" * 5000)])


def test_an_exit_code_is_a_verdict() -> None:
    """As the monitoring plugins have it; the first line is evidence when no mapping knows it."""
    assert diagnosis.of(speaking("exit"), [ended(0, "OK")]) == Diagnosis(False, seconds=9.0)
    warned = diagnosis.of(speaking("exit"), [ended(1, "WARNING: slow")])
    assert (warned.alarm, warned.causes, warned.component) == (True, [], "web")
    assert warned.evidence == ["WARNING: slow"]
    assert diagnosis.of(speaking("exit"), [ended(2, "7 drops")]).causes == ["mtu"]


@pytest.mark.parametrize("code", [3, 127, -1, None])
def test_another_exit_code_is_none(code: int | None) -> None:
    how = "it did not end in time" if code is None else f"it ended with exit code {code}"
    with pytest.raises(Broken, match=f"{how} on web: it hurts"):
        diagnosis.of(speaking("exit"), [ended(code, "7 drops")])


def test_the_last_line_of_json_is_a_verdict() -> None:
    text = '{"alarm": true, "causes": ["gzip"], "component": "nginx", "evidence": ["a", "b"]}'
    told = diagnosis.of(speaking("json"), [ended(0, "reading", text)])
    assert told == Diagnosis(True, ["gzip"], "nginx", ["a", "b"], 9.0)
    assert not diagnosis.of(speaking("json"), [ended(0, '{"alarm": false}')]).alarm


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, '{"alarm": tr'),
        (0, ""),
        (0, "[]"),
        (0, '{"alarm": "yes"}'),
        (0, '{"causes": []}'),
        (0, '{"alarm": true, "causes": "mtu"}'),
        (1, '{"alarm": true}'),
        (None, '{"alarm": true}'),
    ],
)
def test_broken_json_is_none(code: int | None, text: str) -> None:
    with pytest.raises(Broken):
        diagnosis.of(speaking("json"), [ended(code, text)])


def test_lines_that_a_mapping_knows_are_alarms() -> None:
    """The first tells when; what no mapping knows is no alarm; a group in it says where."""
    told = diagnosis.of(speaking("lines"), [ended(None, "noise", "7 drops", "8 drops")])
    assert told == Diagnosis(True, ["mtu"], "web", ["7 drops", "8 drops"], 2.0)
    assert not diagnosis.of(speaking("lines"), [ended(0, "noise")]).alarm
    named = speaking("lines", alarm=[tools.Alarm(match=r"(?P<component>\w+): 7 drops")])
    assert diagnosis.of(named, [ended(0, "nginx: 7 drops")]).component == "nginx"
    with pytest.raises(Broken, match="exit code 127"):
        diagnosis.of(speaking("lines"), [ended(127)])


@pytest.mark.parametrize("code", [1, 2])
def test_a_tool_of_lines_that_crashes_was_not_silent(code: int) -> None:
    """A program that cannot read its configuration ends with 1. An alarm with that code counts."""
    with pytest.raises(Broken, match=f"exit code {code} on web: it hurts"):
        diagnosis.of(speaking("lines"), [ended(code, "noise")])
    assert diagnosis.of(speaking("lines"), [ended(code, "7 drops")]).alarm


def test_a_service_that_ends_by_itself_is_broken() -> None:
    assert diagnosis.of(speaking("alerts"), [ended(None, "7 drops")]).alarm
    with pytest.raises(Broken, match="exit code 0"):
        diagnosis.of(speaking("alerts"), [ended(0, "7 drops")])


def test_instances_together() -> None:
    """An alarm of any; the first says when, the loudest where; one without any spoils it."""
    quiet, early = ended(0, machine="app"), ended(0, "1 drops", machine="db", at=1)
    late = ended(0, "2 drops", "3 drops", machine="web", at=4)
    told = diagnosis.of(speaking("lines"), [quiet, late, early])
    assert (told.seconds, told.component) == (1.0, "web")
    assert told.evidence == ["1 drops", "2 drops", "3 drops"]
    with pytest.raises(Broken):
        diagnosis.of(speaking("lines"), [early, ended(3)])


def test_evidence_is_bounded() -> None:
    told = diagnosis.of(
        speaking("lines"), [ended(0, *("drops" * 1000 + str(i) for i in range(99)))]
    )
    assert len(told.evidence) == 1
    assert len(told.evidence[0]) == 200


def trial(
    name: str, lab: str, phase: str, number: int = 1, *, alarm: bool | None = None, **more: Any
) -> Trial:
    told = None if alarm is None else Diagnosis(alarm, **more)
    kind = "unknown" if alarm is None else "diagnosis"
    return Trial(name, lab, phase, number, "t", "l", kind, told, "" if told else "it hung", "run-1")  # type: ignore[arg-type]


def scored(*trials: Trial) -> Results:
    return Results(Path("x.json"), {"seed": 1}, {}, {t.key: t for t in trials})


def every(name: str, alarm: bool) -> list[Trial]:
    return [
        trial(name, lab, phase, alarm=alarm, component="web")
        for lab in ("mtu", "gzip", "healthy", "busy")
        for phase in PHASES
    ]


def test_whoever_always_alarms_or_never_does_scores_nothing() -> None:
    """The one catches all and cries everywhere, the other neither."""
    found = {r.tool: r for r in metrics.rows(scored(*every("always", True), *every("no", False)))}
    always, never = found["always"], found["no"]
    assert (always.detects.percent, always.false.percent, always.informed) == (100, 100, 0)
    assert (never.detects.percent, never.false.percent, never.informed) == (0, 0, 0)
    assert always.cause.percent == 0
    assert (always.detects.of, always.false.of) == (2, 10)
    assert never.seconds is None


def test_shares_have_wilsons_interval() -> None:
    assert Share(57, 12).text == "12 of 57, 21% (12 to 33)"
    assert Share(0, 0).text == "-"


def test_a_trial_without_a_verdict_counts_nowhere() -> None:
    (row,) = metrics.rows(
        scored(
            trial("mine", "mtu", "faulty", 1, alarm=True, causes=["mtu"], component="web"),
            trial("mine", "mtu", "faulty", 2),
            trial("mine", "healthy", "fixed", 1),
        )
    )
    assert (row.detects.of, row.false.of, row.unknown) == (1, 0, 2)
    assert row.informed is None


@pytest.mark.parametrize(
    ("lab", "causes", "component", "cause_right", "component_right"),
    [
        ("mtu", ["mtu"], "web", True, True),
        ("mtu", ["gzip", "mtu"], "nginx", True, True),
        ("mtu", ["mtu", "gzip", "somaxconn", "time-wait"], "client", False, False),
        ("mtu", [], "", False, False),
        ("missing-index", ["slow-join"], "db", False, True),
        ("packet-loss", ["mtu"], "web", True, True),
    ],
)
def test_a_diagnosis_is_right(
    lab: str, causes: list[str], component: str, cause_right: bool, component_right: bool
) -> None:
    told = Diagnosis(True, causes, component)
    assert metrics.names_cause(labs.load(lab), told) is cause_right
    assert metrics.names_component(labs.load(lab), told) is component_right


def letters(*trials: Trial) -> str:
    (cell,) = (cell for each in metrics.cells(scored(*trials)).values() for cell in each.values())
    return cell.letters


def test_the_letters_of_a_cell() -> None:
    caught = [trial("t", "mtu", "faulty", n, alarm=True, causes=["mtu"]) for n in (1, 2)]
    assert letters(*caught) == "N "
    assert letters(*caught, trial("t", "mtu", "faulty", 3, alarm=False)) == "p "
    assert letters(*caught, trial("t", "mtu", "healthy", 1, alarm=True)) == "N!"
    assert letters(trial("t", "mtu", "faulty", alarm=True)) == "c "
    assert letters(trial("t", "mtu", "faulty", alarm=False)) == "· "
    assert letters(trial("t", "mtu", "faulty")) == "? "
    assert letters(trial("t", "busy", "faulty", alarm=True)) == "! "
    assert letters(trial("t", "busy", "faulty", alarm=False)) == "· "
    away = Trial("t", "mtu", "faulty", 1, "t", "l", "absent")
    assert letters(away) == "  "


def test_what_is_not_as_expected(folder: Path) -> None:
    """must: every time; miss: never; a control: silent, in whatever phase."""
    rest = '[[expect]]\nlabs = ["*"]\ndetects = "miss"\nwhy = "It cannot."\n'
    (folder / "tool.toml").write_text(TOOL + rest)
    found = metrics.disagreements(
        scored(
            trial("mine", "mtu", "faulty", 1, alarm=True),
            trial("mine", "mtu", "faulty", 2, alarm=False),
            trial("mine", "gzip", "faulty", alarm=True),
            trial("mine", "gzip", "healthy", alarm=True),
            trial("mine", "busy", "fixed", alarm=True),
            trial("mine", "healthy", "fixed", alarm=False),
            trial("stranger", "mtu", "faulty", alarm=False),
        )
    )
    assert [(d.lab, d.expected, d.found.happened, d.found.of) for d in found] == [
        ("busy", "miss", 1, 1),
        ("gzip", "miss", 1, 1),
        ("mtu", "must", 1, 2),
    ]


def test_a_tool_that_does_not_start_is_not_as_expected(folder: Path) -> None:
    (folder / "tool.toml").write_text(TOOL)
    (found,) = metrics.disagreements(
        scored(trial("mine", "mtu", "faulty"), trial("mine", "gzip", "faulty"))
    )
    assert (found.lab, found.found.happened, found.found.of) == ("mtu", 0, 1)


def test_trials_of_an_older_version_count_nowhere() -> None:
    kept = scored(*(trial("mine", "mtu", "faulty", n, alarm=n == 1) for n in (1, 2)))
    kept.tools["mine"] = {"title": "x", "digest": "t", "version": "1"}
    (row,) = metrics.rows(metrics.of_way(kept, CROWD))
    assert row.detects.of == 2
    kept.tools["mine"]["digest"] = "new"
    assert not metrics.of_way(kept, CROWD).trials


def test_a_trial_without_a_diagnosis_is_made_again() -> None:
    """But not one of another way, or of a repeat that is not asked for."""
    silent = [trial("mine", "mtu", "faulty", n) for n in (1, 2)]
    kept = scored(*silent, trial("mine", "mtu", "fixed", alarm=True))
    wanted = setups.order([labs.load("mtu")], 1, 7)
    Schedule(wanted, [tool()], kept, ALONE).forget_the_silent()
    assert len(kept.trials) == 3
    Schedule(wanted, [tool()], kept, CROWD).forget_the_silent()
    assert {(t.phase, t.number) for t in kept.trials.values()} == {("faulty", 2), ("fixed", 1)}


def test_two_commands_do_not_write_one_file(tmp_path: Path) -> None:
    name = str(tmp_path / "score.json")
    with (
        results.opened(name, "", "score"),
        pytest.raises(Held, match="`faultlab score`"),
        results.opened(name, "", "agent"),
    ):
        pass
    with results.opened(name, "", "agent") as kept:
        assert not kept.trials


def test_a_bundle_with_damaged_bytes(tmp_path: Path) -> None:
    """They can break the compression, or only what was compressed."""
    large = " ".join(str(n * n) for n in range(40_000))
    file = packed(tmp_path, {**WHOLE, "healthy/web/before/ss": large})
    assert recording.read(file).files["healthy"]["web/before/ss"] == large.encode()
    whole = file.read_bytes()
    for seed in range(30):
        at = random.Random(seed).randrange(100, len(whole) - 100)
        file.write_bytes(whole[:at] + random.Random(seed).randbytes(64) + whole[at + 64 :])
        with pytest.raises(BadInput):
            recording.read(file)


def test_the_order_is_random_and_repeats() -> None:
    """Whole repeats, one after the other; another seed, another order."""
    chosen = [labs.load(lab_id) for lab_id in ("mtu", "gzip", "healthy")]
    found = setups.order(chosen, 2, 7)
    names = [(look.lab.id, look.phase, look.number) for look in found]
    assert len(set(names)) == len(names) == 18
    assert [number for _, _, number in names] == [1] * 9 + [2] * 9
    assert found == setups.order(chosen, 2, 7)
    assert found != setups.order(chosen, 2, 8)
    assert [n[:2] for n in names[:9]] != [n[:2] for n in names[9:]]


def test_results_are_kept_and_go_on(tmp_path: Path) -> None:
    """A trial of the same tool and lab is not made again; after a change of either it is."""
    lab, mine = labs.load("mtu"), tool()
    kept = Results(tmp_path / "new/score.json", {"seed": 3})
    one = trial("mine", "mtu", "faulty", alarm=True, causes=["mtu"])
    digests = {"tool_digest": mine.digest, "lab_digest": digest.fault(lab)}
    kept.add([Trial(**{**vars(one), **digests})])
    again = results.read(kept.file)
    assert again == kept

    def has(of: Tool, at: Lab, phase: str = "faulty", number: int = 1, way: Way = CROWD) -> bool:
        return again.has((of.id, at.id, phase, number, way), (of.digest, digest.fault(at)))

    assert has(mine, lab)
    assert not has(mine, lab, number=2)
    assert not has(mine, lab, "fixed")
    assert not has(mine, lab, way=ALONE)
    assert not has(mine.model_copy(update={"command": "other"}), lab)
    assert has(mine.model_copy(update={"title": "Another title"}), lab)
    assert not has(mine, lab.model_copy(update={"inject": lab.fix}))


def test_two_halves_are_one(tmp_path: Path) -> None:
    halves = [every("always", True)[:5], every("always", True)[5:]]
    for i, half in enumerate(halves):
        Results(tmp_path / f"{i}.json").add(half)
    files = [str(tmp_path / f"{i}.json") for i in (0, 1)]
    assert scorecard.together(files).trials == scored(*every("always", True)).trials


@pytest.mark.parametrize("head", ['"schema": 1', '"seed": 0'])  # the first had no number at first
def test_trials_of_version_1_are_read_by_their_new_names(head: str, tmp_path: Path) -> None:
    file, new = tmp_path / "old.json", Results(tmp_path / "new.json")
    new.add(every("always", True))
    text = new.file.read_text().replace('"schema": 2', head)
    file.write_text(text.replace('"diagnosis"', '"verdict"'))
    assert results.read(file).trials == new.trials


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"schema": 9}', '{"schema": 1}', '{"schema": 1, "tools": {}, "trials": [1]}'],
)
def test_a_damaged_file_of_results(text: str, tmp_path: Path, faultlab: Run) -> None:
    file = tmp_path / "score.json"
    file.write_text(text)
    done = faultlab("scorecard", str(file))
    assert done.code == 2
    assert str(file) in done.err.replace("\n", "")
    assert len(done.err.splitlines()) == 2


def test_the_card_in_every_form(tmp_path: Path, faultlab: Run) -> None:
    file = tmp_path / "score.json"
    Results(file, {"seed": 1, "machine": {"cpus": 2}}).add(
        [*every("always-alarm", True), *every("never-alarm", False), trial("mine", "mtu", "faulty")]
    )
    said = faultlab("scorecard", str(file))
    assert said.code == 0
    assert all(len(line) <= 80 for line in said.out.splitlines())
    assert "no diagnosis: mine, 1 times: it hung" in said.out
    told = json.loads(faultlab("scorecard", str(file), "--json").out)
    assert {row["tool"]: row["informed"] for row in told["rows"]} == {
        "always-alarm": 0,
        "never-alarm": 0,
        "mine": None,
    }
    assert "| `mtu` |" in faultlab("scorecard", str(file), "--markdown").out
    html = tmp_path / "card.html"
    assert faultlab("scorecard", str(file), "--page", str(html)).code == 0
    assert "always-alarm" in html.read_text()
    missing = str(tmp_path / "no/card.html")
    assert faultlab("scorecard", str(file), "--page", missing).code == 2


def test_the_page_says_what_was_caught_missed_and_cried(project: Project) -> None:
    """With a link to a run that has a report."""
    folder = project.run("20260101-000000-mtu-aaaa")
    (folder / "report.html").write_text("x")
    caught = trial("t", "mtu", "faulty", alarm=True, causes=["mtu"], evidence=["a < b"])
    linked = Trial(**{**vars(caught), "run": folder.name})
    html = page.html(
        scored(
            linked,
            trial("t", "gzip", "faulty", alarm=False),
            trial("t", "gzip", "fixed", alarm=True),
            trial("t", "port-range", "faulty"),
        ),
        project.root,
    )
    for words in (
        "<strong>mtu</strong>: 1 of 1, named mtu",
        "a &lt; b",
        f'<a href="runs/{folder.name}/report.html">{folder.name}</a>',
        "<strong>gzip</strong>: 1 of 1 (fixed)",
        "<strong>port-range</strong>: 1: it hung",
    ):
        assert words in html


def packed(tmp_path: Path, files: dict[str, str]) -> Path:
    file = tmp_path / "x.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for path, text in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return file


WHOLE = {
    "manifest.json": '{"schema": 1, "lab": "mtu"}',
    "healthy/web/before/nstat": "a",
    "faulty/web/before/nstat": "b",
    "fixed/web/before/nstat": "c",
}


def test_a_bundle_shows_a_phase_and_not_which(tmp_path: Path) -> None:
    recorded = recording.read(packed(tmp_path, WHOLE))
    with tarfile.open(fileobj=io.BytesIO(recorded.phase("faulty"))) as tar:
        assert tar.getnames() == ["bundle/web/before/nstat"]
        content = tar.extractfile("bundle/web/before/nstat")
        assert content is not None and content.read() == b"b"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"manifest.json": "{"}, "is not a bundle: no manifest.json."),
        ({"manifest.json": "[]"}, "is a bundle of another version."),
        ({"manifest.json": '{"schema": 2}'}, "is a bundle of another version."),
        ({"manifest.json": '{"schema": 1}'}, "is damaged: no lab in its manifest."),
        ({"fixed/web/before/nstat": None}, "is damaged: nothing of fixed."),
        ({"manifest.json": '{"schema": 1, "lab": "mut"}'}, "There is no lab called 'mut'"),
    ],
)
def test_a_damaged_bundle(
    change: dict[str, str | None], says: str, tmp_path: Path, faultlab: Run
) -> None:
    files = {path: text for path, text in {**WHOLE, **change}.items() if text is not None}
    done = faultlab("score", "never-alarm", "--from", str(packed(tmp_path, files)))
    assert done.code == 2
    assert says in done.err


def test_no_archive_is_no_bundle(tmp_path: Path, faultlab: Run) -> None:
    file = tmp_path / "x.tar.gz"
    file.write_text("no archive")
    done = faultlab("score", "never-alarm", "--from", str(file))
    assert (done.code, "is not a bundle" in done.err) == (2, True)


@pytest.mark.parametrize("name", tools.ids())
def test_every_tool_of_this_project(name: str) -> None:
    """It can be read, says what it is and what is expected of it in every lab, with the reason."""
    found = tools.load(name)
    assert found.title
    for lab_id in labs.ids():
        entry = found.expected(lab_id)
        assert entry is not None and entry.why.endswith(".")
        assert not (labs.load(lab_id).control and entry.detects == "must")


def test_terms_name_no_lab(faultlab: Run) -> None:
    told = json.loads(faultlab("terms", "--json").out)
    assert "mtu" in told["causes"] and "none" not in told["causes"]
    components = {"cache", "firewall", "mysql", "nginx", "php-fpm", "tomcat", "web"}
    assert set(told["components"]) == components


def test_how_weak_a_fault_a_tool_still_finds() -> None:
    def at(dose: str, *alarms: bool) -> list[Trial]:
        lab = f"fpm-backlog@{dose}" if dose else "fpm-backlog"
        return [trial("t", lab, "faulty", n, alarm=alarm) for n, alarm in enumerate(alarms)]

    one = at("", True, True) + at("32", True, True) + at("64", True, False) + at("128", False)
    (row,) = dimensions.doses(scored(*one, *at("", True), trial("t", "mtu", "faulty", alarm=True)))
    assert row.doses == ["4", "32", "64", "128"]
    assert (row.felt, row.caught, row.blind, row.early) == ("128", "32", ["64", "128"], [])
    (row,) = dimensions.doses(scored(*at("64", False), *at("128", True)))
    assert (row.doses, row.caught, row.blind) == (["64", "128"], "128", ["64"])
    assert dimensions.doses(scored(*at("64", True, True))) == [], "one dose is no scale"


def test_several_faults_and_false_leads() -> None:
    lead = labs.load("mtu~old-overflow")
    away = labs.suggested(lead, lead.decoys[0]).cause
    several = [["mtu", "regex"], ["mtu"], ["mtu", "gzip"], ["mtu", "regex", "gzip", "nagle"]]
    trials = [
        trial("t", "mtu+regex", "faulty", n, alarm=True, causes=causes)
        for n, causes in enumerate(several)
    ]
    trials += [
        trial("t", "mtu~old-overflow", "faulty", n, alarm=True, causes=[cause])
        for n, cause in enumerate(("mtu", away))
    ]
    trials += [trial("t", "mtu~old-overflow", "healthy", alarm=True, causes=[away])]
    (row,) = dimensions.company(scored(*trials, trial("u", "mtu", "faulty", alarm=True)))
    assert (row.right.happened, row.right.of) == (4, 5), "four causes at once are a list"
    assert (row.found.happened, row.found.of) == (4, 8)
    assert (row.whole.happened, row.whole.of) == (1, 4)
    assert (row.astray.happened, row.astray.of) == (1, 2)


def test_the_card_has_doses_and_company(tmp_path: Path, faultlab: Run) -> None:
    file = tmp_path / "score.json"
    at = ("fpm-backlog", "fpm-backlog@128", "mtu+regex", "mtu~old-overflow")
    Results(file).add(
        trial("t", lab, "faulty", alarm=lab != "fpm-backlog@128", causes=["mtu"]) for lab in at
    )
    done = faultlab("scorecard", str(file))
    assert done.code == 0
    assert all(len(line) <= 80 for line in done.out.splitlines()), done.out
    card = json.loads(faultlab("scorecard", str(file), "--json").out)
    assert [(row["lab"], row["caught"], row["blind"]) for row in card["doses"]] == [
        ("fpm-backlog", "4", ["128"])
    ]
    assert card["company"][0]["found"]["happened"] == 1
    assert "## See how weak a fault" in faultlab("scorecard", str(file), "--markdown").out
