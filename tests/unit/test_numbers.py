"""Numbers: a learner calls a lab by a name that tells nothing, and sees no other before the end."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from faultlab.core.errors import BadInput
from faultlab.lab import collection, numbers
from faultlab.lab import loader as labs
from faultlab.lab.finding import Finding
from faultlab.learn import hints
from faultlab.run.readings import as_seen
from faultlab.run.record import Record
from faultlab.verify import lint
from faultlab.workshop import view
from faultlab.workshop.journal import Event
from faultlab.workshop.plan import ClassPlan
from tests.unit.conftest import REPO, Project, Run
from tests.unit.fake import FakeEngine
from tests.unit.test_solo import FakeStacks, Page, finished, page, started

__all__ = ["page"]  # a fixture

MTU = re.compile(r"\bmtu\b", re.IGNORECASE)


def test_each_of_our_labs_has_a_number_of_its_own() -> None:
    found = [*numbers.of(collection.ours())]
    assert {each.lab for each in found} == {*labs.ours()}
    assert len({each.number for each in found}) == len(found)
    assert min(each.number for each in found) == 1


@pytest.mark.parametrize(
    ("name", "lab_id", "code"),
    [
        *((name, "mtu", "p02") for name in ("2", "02", "p2", "p02")),
        ("12@7", "php-workers@7", "q12@7"),
        ("2+47", "mtu+gzip", "p02+b47"),
        ("q12@7+b48", "php-workers@7+certificate", "q12@7+b48"),
        ("mtu+47", "mtu+gzip", "p02+b47"),
        ("2~old-overflow", "mtu~old-overflow", "p02~old-overflow"),
    ],
)
def test_a_number_means_the_lab(name: str, lab_id: str, code: str) -> None:
    lab = labs.asked(name)
    assert (lab.id, lab.code, lab.alias) == (lab_id, code, code)
    assert (numbers.real(name), numbers.spelled(name)) == (lab_id, code)
    assert labs.load(name).alias == labs.asked(lab_id).alias == lab_id
    assert (numbers.other(code), numbers.other(lab_id)) == (lab_id, code)
    assert labs.chosen([name, lab_id], False, "verify") == [labs.load(lab_id)]
    assert lab.called("mystery").alias == "mystery"


@pytest.mark.parametrize("name", ["mtu", "php-workers@7", "mystery", "nope", "acme/mtu", "a/../b"])
def test_another_name_stays(name: str) -> None:
    assert numbers.real(name) == numbers.spelled(name) == name


@pytest.mark.parametrize("name", ["0", "99", "m02", "pp02", "p02x", "2+99"])
def test_what_is_the_number_of_no_lab(name: str, faultlab: Run) -> None:
    with pytest.raises(BadInput, match="There is no lab called"):
        labs.asked(name)
    assert faultlab("down", name).code == 2


def test_a_lab_of_another_collection_can_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTLAB_PATH", str(REPO / "tests/collection"))
    lab = labs.asked("acme/redis-clients")
    assert (lab.number, lab.code, lab.both_names) == (None, lab.id, lab.id)
    assert [*numbers.of(lab.collection)] == []


def test_it_can_have_one(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project.root / "acme"
    (root / "labs/slow").mkdir(parents=True)
    (root / "labs/slow/lab.toml").write_text('number = 7\ntrack = "caches"\n')
    toml = (REPO / "tests/collection/collection.toml").read_text()
    (root / "collection.toml").write_text(toml)
    monkeypatch.setenv("FAULTLAB_PATH", str(root))
    assert numbers.spelled("acme/7") == "acme/c07" and numbers.real("acme/c7") == "acme/slow"
    assert {"acme/slow", "acme/c07", "p02", "mtu"} <= {*numbers.names()}
    assert numbers.real("acme/2") == "acme/2"


def test_a_mistake_in_a_folder_does_not_keep_a_lab_from_its_removal(
    project: Project, engine: FakeEngine, faultlab: Run
) -> None:
    assert faultlab("start", "2").code == 0
    project.change("labs/mtu/lab.toml", 'tier       = "web"', "tier = 1")
    project.write("labs/gzip/lab.toml", "][")
    assert faultlab("down", "2").code == 0
    assert engine.stacks_up == {}


class TestOfALearner:
    """What a learner of mtu reads, from `list` to the debrief."""

    @pytest.fixture(autouse=True)
    def ours(self, project: Project, engine: FakeEngine) -> FakeEngine:
        return engine

    def test_nothing_that_is_shown_names_it(self, faultlab: Run, ours: FakeEngine) -> None:
        shown = [faultlab("list").out, faultlab("next", "--track", "packets").out]
        shown.append(faultlab("list", "--severities").out)
        for words in ("start 2", "start p02", "status", "use 2 web", "hint 2", "check 2", "runs"):
            got = faultlab(*words.split())
            shown.append(got.out + got.err)
        shown += [*ours.stacks_up, *Record.ids(), *ours.all_stacks().values()]
        shown.append(faultlab("progress").out)
        assert [text for text in shown if MTU.search(text)] == []
        assert [*ours.stacks_up] == ["faultlab-p02"]
        assert "make check-p02 " in shown[3] and "p02 is up already" in shown[4]

    def test_the_debrief_names_it(self, faultlab: Run, ours: FakeEngine) -> None:
        assert faultlab("start", "2").code == 0
        assert faultlab("check", "2").err.startswith("faultlab: p02 is not fixed yet.")
        assert faultlab("fix", "p02").out.endswith("Applied. Next: make check-p02\n")
        assert "p02: yes, it works as before. Next: make debrief-p02" in faultlab("check", "2").out
        told = json.loads(faultlab("debrief", "2", "--json").out)
        assert told["lab"] == "mtu" and told["lesson"].startswith("# mtu: ")
        assert re.search(r"(?m)^p02 mtu +fix shown", faultlab("progress").out)
        assert faultlab("down", "2").code == 0
        assert ours.stacks_up == {}

    @pytest.mark.parametrize("words", ["list", "next", "progress", "list --severities"])
    def test_both_names_on_request(self, words: str, faultlab: Run) -> None:
        shown = {"next": ("p01", "healthy"), "list --severities": ("q12", "php-workers")}
        code, lab_id = shown.get(words, ("p02", "mtu"))
        assert f"{code} {lab_id}" in faultlab(*words.split(), "--by-name").out
        plain = faultlab(*words.split()).out
        assert code in plain and lab_id not in plain

    def test_programs_get_both(self, faultlab: Run) -> None:
        (listed,) = [
            one for one in json.loads(faultlab("list", "--json").out) if one["id"] == "mtu"
        ]
        assert listed["number"] == 2 and not {"neutral", "by_number"} & {*listed}
        told = json.loads(faultlab("next", "--json").out)
        assert (told["lab"], told["number"], told["code"]) == ("healthy", 1, "p01")

    @pytest.mark.parametrize(("one", "other"), [("mtu", "2"), ("2", "mtu")])
    def test_what_is_up_answers_to_both_names(
        self, one: str, other: str, faultlab: Run, ours: FakeEngine
    ) -> None:
        assert faultlab("start", one).code == 0
        (stack,) = ours.stacks_up
        assert "is not fixed yet" in faultlab("check", other).err
        assert faultlab("hint", other).out.startswith("Hint 1 ")
        assert faultlab("reset", other).code == 0
        assert [*ours.stacks_up] == [stack]
        assert faultlab("down", other).code == 0
        assert ours.stacks_up == {}

    def test_a_hint_stays_paid_under_another_name(self, faultlab: Run) -> None:
        assert faultlab("start", "mtu").code == 0
        assert faultlab("hint", "mtu").code == 0
        paid = hints.given_before(labs.asked("2"))
        assert len(paid) == 1 and hints.given_before(labs.asked("mtu")) == paid

    def test_several_by_their_numbers(self, faultlab: Run) -> None:
        assert "A mystery is started alone." in faultlab("start", "2", "47", "--blind").err
        assert "There is no lab called '99'." in faultlab("start", "2", "99").err

    def test_blind_hides_the_number_too(self, faultlab: Run, ours: FakeEngine) -> None:
        assert "p02" not in faultlab("start", "2", "--blind").out
        assert [*ours.stacks_up] == ["faultlab-mystery"]


def test_measures_of_several_faults_do_not_name_them() -> None:
    """Those of packet-loss begin with the names of its parts."""
    found = [Finding("mtu: page: size", 0, "bytes", "at least 100", False, "mtu")]
    assert as_seen(labs.asked("11"), found)[0].name == "page: size"
    assert as_seen(labs.asked("packet-loss"), found) == found


@pytest.mark.parametrize(
    ("name", "text", "typed"),
    [
        ("30", "`make shell-thread-limit AT=app`", "`make shell-m30 AT=app`"),
        ("2+30", "make shell-thread-limit AT=app", "make shell-p02+m30 AT=app"),
        ("12@7", "make hint-php-workers", "make hint-q12@7"),
        ("2", "make shell-mtu-2", "make shell-mtu-2"),
        ("thread-limit", "make shell-thread-limit", "make shell-thread-limit"),
    ],
)
def test_a_hint_types_the_name_of_its_stack(name: str, text: str, typed: str) -> None:
    assert hints.as_typed(labs.asked(name), text) == typed


def plan(**facts: object) -> ClassPlan:
    return ClassPlan.model_validate({"id": "c", "title": "C", "seats": ["Ada"], **facts})


def test_a_class_whose_labs_are_named_names_them_by_number() -> None:
    assert plan(labs=["mtu", "47"], blind=False).turns(1, set()) == ["p02", "b47"]
    assert plan(labs=["mtu", "p02~old-overflow"]).turns(1, set()) == ["mtu", "mtu~old-overflow"]
    assert [lab.id for lab in plan(labs=["2", "2+47"]).wanted()] == ["mtu", "mtu+gzip"]


def test_a_page_names_a_lab_when_it_is_over(page: Page) -> None:
    session = page()
    seat = finished(session, lambda: session.choose(session.roster.seat(1), "2"))
    stacks = session.stacks
    assert isinstance(stacks, FakeStacks)
    assert stacks.ran == [("down", "p02"), ("start", "p02", "--engine", "auto")]
    assert stacks.name(seat) == "faultlab-p02"
    shown = view.seat(session, seat)
    assert (shown["lab"], shown["title"]) == ("p02", labs.load("mtu").title)
    assert not MTU.search(json.dumps(shown))
    session.note(Event.GAVE_UP, 1)
    assert view.seat(session, seat)["debrief"]["lab"] == "mtu"
    assert view.roster(session)["seats"][0]["lab"] == "p02 mtu"


def test_a_page_goes_on_with_a_lab_under_the_name_that_it_has(
    page: Page, engine: FakeEngine
) -> None:
    record = started(engine, "mtu", "faultlab-p02")
    session = page()
    session.last = record
    assert finished(session).turn.lab == "p02"
    session = page()
    session.last = started(engine, "mtu")
    assert finished(session).turn.lab == "mtu"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ("", "missing key; 53 is free"),
        ("number     = 4\n", "expected another one than that of mtu, got 4; 53 is free"),
    ],
)
def test_lint_says_which_number_is_free(new: str, expected: str, project: Project) -> None:
    project.change("labs/nagle/lab.toml", "number     = 4\n", new)
    if new:
        project.change("labs/mtu/lab.toml", "number     = 2\n", "number     = 4\n")
    found = [each for each in lint.of_stack(collection.ours()) if each.key == "number"]
    assert [(Path(each.file).parent.name, each.expected) for each in found] == [("nagle", expected)]


def test_make_passes_a_number_on() -> None:
    done = subprocess.run(
        ["make", "-n", "lab-4", "check-p04"], cwd=REPO, capture_output=True, text=True, check=True
    )
    assert "faultlab start 4\n" in done.stdout and "faultlab check p04" in done.stdout
