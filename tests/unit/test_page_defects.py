"""Defects of the pages that were seen in a browser: each one as a test of what the pages get."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import docker.errors
import httpx
import pytest

from faultlab.core import lock
from faultlab.core.errors import CannotRun
from faultlab.core.processes import Outcome
from faultlab.engine.contract import Machine, State
from faultlab.engine.docker import docker_list
from faultlab.engine.docker.connection import Docker
from faultlab.engine.vm.engine import VmEngine
from faultlab.lab import loader as labs
from faultlab.lab import vocabulary
from faultlab.run import placement
from faultlab.run.record import READY, Record
from faultlab.workshop import documents, roster, solo_session, view
from faultlab.workshop.access import TRAINER
from faultlab.workshop.documents import Place
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import Roster, Seat, Turn
from faultlab.workshop.session import Session
from faultlab.workshop.stacks import Stacks
from tests.unit.conftest import Project
from tests.unit.fake import FakeEngine, engines, only_fake
from tests.unit.served import FOUND, Fake, served

VM_LAB = "conntrack"  # its fault belongs to a whole kernel


class OwnFake(solo_session.OwnStacks):
    """Stacks of one learner that are there at once."""

    def __init__(self, plan: ClassPlan) -> None:
        super().__init__(plan)
        self.ran: list[tuple[str, ...]] = []
        self.outcomes: dict[str, Outcome] = {}

    async def run(self, seat: Seat, *words: str, seconds: float = 0, hear: Any = None) -> Outcome:
        self.ran.append(words)
        return self.outcomes.get(words[0], Outcome(0))


class Solo:
    """The page of one learner, without Docker."""

    def __init__(self, folder: Path) -> None:
        plan = ClassPlan(id="page", title="faultlab", seats=["ada"], labs=["mtu"], blind=False)
        journal = Journal(folder / "journal")
        self.stacks = OwnFake(plan)
        made = solo_session.SoloSession(plan, Roster(plan, [["mtu"]]), journal, self.stacks)
        self.session, self.seat = made, made.roster.seat(1)

    def do(self, *acts: Callable[[], None]) -> None:
        """Do one after the other, each to its end."""

        async def all_of_them() -> None:
            for act in acts:
                act()
                async with asyncio.timeout(10):
                    while self.session.doing:
                        await asyncio.sleep(0.01)

        asyncio.run(all_of_them())

    def choose(self, lab: str) -> None:
        self.do(lambda: self.session.choose(self.seat, lab))

    def remove(self) -> None:
        self.do(lambda: self.session.remove(self.seat))

    @property
    def view(self) -> dict[str, Any]:
        return view.seat(self.session, self.seat)


@pytest.fixture
def solo(project: Project, tmp_path: Path, engine: FakeEngine) -> Solo:
    return Solo(tmp_path)


# --- 1: give up a lab of the VM, and remove it ------------------------------------------------


def test_a_lab_of_the_vm_is_given_up_and_removed(solo: Solo) -> None:
    """The page says that it has gone, and that the VM has not."""
    solo.choose(VM_LAB)
    solo.session.give_up(solo.seat)
    assert solo.view["debrief"]["gave_up"]
    solo.stacks.outcomes["down"] = Outcome(0, {"lab": VM_LAB, "stays": VmEngine.stays})
    solo.remove()
    assert (solo.stacks.ran[-1], solo.view["state"]) == (("down", VM_LAB), "waiting")
    assert f"{VM_LAB} was removed." in solo.view["why"] and "make vm-down" in solo.view["why"]


def test_a_removal_that_failed_is_told_and_can_be_tried_again(solo: Solo) -> None:
    """A lab of the VM is in no list of Docker here, so nothing else would offer its removal."""
    solo.choose(VM_LAB)
    solo.session.give_up(solo.seat)
    solo.stacks.outcomes["down"] = Outcome(3, {}, "The lab VM does not answer.")
    solo.remove()
    shown = solo.view
    assert (shown["state"], shown["why"]) == ("failed", "The lab VM does not answer.")
    assert (shown["lab"], shown["over"]) == (VM_LAB, True)  # its buttons: Remove, Start over
    solo.stacks.outcomes.clear()
    solo.remove()
    assert solo.view["state"] == "waiting"


def test_a_removal_does_not_take_a_silent_engine_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`down` said that nothing was up when libvirt did not say where the VM is."""

    class There(FakeEngine):
        name = "vm"
        owns_kernel = True

        @classmethod
        def absent(cls) -> str:
            return "the lab VM is absent"

        @classmethod
        def might_host(cls, stack: str) -> bool:
            return stack == f"faultlab-{VM_LAB}"

        @classmethod
        def require_reachable(cls) -> None:
            raise CannotRun("libvirt does not say if there is a VM")

    monkeypatch.setattr(lock, "folder", lambda: tmp_path)
    only_fake(monkeypatch)
    engines(monkeypatch, local=FakeEngine, vm=There)
    assert not placement.up("mtu")
    with pytest.raises(CannotRun, match="libvirt does not say"):
        placement.up(VM_LAB)


# --- 2: links of a lesson ---------------------------------------------------------------------

LINKS = """See [mtu](../mtu/README.md), [the sources](../../docs/sources.md#mtu), [a picture's
page](../../docs/flame-temp-tables.svg), [the web](https://example.org/), [nothing](../../x.md) and
[the host](../../../etc/passwd). ![drawn](../../docs/flame-temp-tables.svg)
"""


def test_links_of_a_lesson_lead_somewhere_in_a_tab_of_their_own() -> None:
    page = documents.html(LINKS, Place("labs/gzip", "/read/", None))
    for to in ("labs/mtu/README.md", "docs/sources.md#mtu", "docs/flame-temp-tables.svg"):
        assert f'<a href="/read/{to}" target="_blank" rel="noopener">' in page
    assert '<a href="https://example.org/" target="_blank" rel="noopener">' in page
    assert page.count("<a ") == page.count("</a>") == 4
    assert "nothing and" in page.replace("\n", " ") and "passwd" not in page
    assert 'src="/read/docs/flame-temp-tables.svg"' in page


def test_no_link_of_any_lesson_is_relative() -> None:
    for lab_id in labs.ids():
        page = documents.html(labs.loaded(lab_id).lesson, Place(f"labs/{lab_id}", "/read/", None))
        assert 'href="..' not in page and 'src="..' not in page, lab_id
        assert "](../" not in page, lab_id


def test_what_a_lesson_folds_has_its_title() -> None:
    for lab_id in labs.ids():
        lesson = labs.loaded(lab_id).lesson
        page = documents.html(lesson)
        assert page.count("<details><summary>") == lesson.count("<details><summary>") > 0, lab_id
        assert page.count("</details>") == lesson.count("</details>"), lab_id


def test_a_lesson_that_must_not_be_read_yet_is_no_link() -> None:
    page = documents.html(LINKS, Place("labs/gzip", "/read/", frozenset({"gzip"})))
    assert "/read/labs/" not in page and "/read/docs/sources.md#mtu" in page


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("docs/sources.md", True),
        ("labs/mtu/README.md", True),
        ("labs/gzip/README.md", False),
        ("labs/mtu/lab.toml", False),
        ("docs/../labs/gzip/README.md", False),
        ("labs/mtu/../gzip/README.md", False),
        ("../etc/passwd", False),
        ("docs/json", False),
        ("docs/nothing.md", False),
    ],
)
def test_what_can_be_read(path: str, there: bool) -> None:
    assert (documents.find(path, frozenset({"mtu"})) is not None) is there


def test_a_document_is_served_to_those_who_may_read_it(tmp_path: Path) -> None:
    with served(tmp_path) as it:
        assert it.get(None, "/seat/1/read/docs/sources.md").status_code == 401
        found = it.get(1, "/seat/1/read/docs/sources.md")
        assert found.status_code == 200 and '<span id="mtu"></span>' in found.text
        assert (
            it.get(1, "/seat/1/read/docs/flame-temp-tables.svg")
            .headers["content-type"]
            .startswith("image/svg")
        )
        lesson = "/seat/1/read/labs/mtu/README.md"
        assert (it.get(1, lesson).status_code, it.get(TRAINER, lesson).status_code) == (404, 200)
        it.session.give_up(it.session.roster.seat(1))
        assert it.get(1, lesson).status_code == 200


# --- 4: a machine that has ended --------------------------------------------------------------


def parts(**states: str) -> dict[str, docker_list.Part]:
    every = {"client": "running", "web": "running", "nginx": "running", "php-fpm": "running"}
    return {name: docker_list.Part("r", state) for name, state in (every | states).items()}


def polled(session: Session, stack: str, at: pytest.MonkeyPatch, **states: str) -> None:
    """Let a session see what runs; `states`: of the parts of a stack that do not run."""
    at.setattr(docker_list, "stacks", lambda: {stack: parts(**states)})
    asyncio.run(session.poll())


def in_class(folder: Path, **facts: Any) -> tuple[Session, Seat]:
    """A class whose first seat has its lab."""
    session = Fake(folder, **facts)
    session.note(Event.READY, 1)
    return session, session.roster.seat(1)


def test_in_a_class_a_dead_machine_is_told_to_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, seat = in_class(tmp_path)
    polled(session, session.stacks.name(seat), monkeypatch, web="exited 137")
    shown = view.seat(session, seat)
    assert shown["advice"].startswith("web has ended. Your trainer can start the lab over")
    assert (shown["states"]["nginx"], shown["over"]) == ("running", False)
    assert view.roster(session)["seats"][0]["ended"] == ["web"]
    assert "ended" not in view.projector(session)["seats"][0]


def test_a_learner_of_their_own_can_start_over(solo: Solo, monkeypatch: pytest.MonkeyPatch) -> None:
    solo.choose("mtu")
    polled(solo.session, "faultlab-mtu", monkeypatch, web="exited 137")
    assert 'Press "Start the lab over"' in solo.view["advice"] and solo.view["over"]
    solo.stacks.ran.clear()
    solo.do(lambda: solo.session.restore(solo.seat))
    assert solo.stacks.ran == [("down", "mtu"), ("start", "mtu", "--engine", "auto")]
    assert solo.view["state"] == "red"


def test_a_daemon_that_a_fault_ends_is_told_after_a_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, seat = in_class(tmp_path)
    polled(session, session.stacks.name(seat), monkeypatch, nginx="exited 1")
    assert view.seat(session, seat)["advice"] == ""
    session.note(Event.CHECKED, 1, fixed=False, findings=FOUND)
    assert "nginx has ended. Press Restart" in view.seat(session, seat)["advice"]


class Dead(dict[str, Any]):
    """A stack whose machine web has ended, and nginx with it."""

    def __init__(self) -> None:
        ended = State(running=False, exit_code=137, oom_killed=False, started="")
        running = State(running=True, exit_code=0, oom_killed=False, started="")
        its = {"web": ended, "nginx": ended, "client": running}
        super().__init__({name: SimpleNamespace(state=state) for name, state in its.items()})


def test_docker_errors_of_a_dead_machine_are_plain_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, seat = in_class(tmp_path)
    stacks = session.stacks
    monkeypatch.setattr(stacks, "_stack", lambda _seat: Dead())
    with pytest.raises(CannotRun, match=r"web has ended, and nginx cannot run without it\. Your"):
        asyncio.run(Stacks.act(stacks, seat, "nginx", lambda machine: machine.restart()))
    with pytest.raises(CannotRun, match=r"web is not running \(exit code 137\). Your trainer can"):
        Stacks.terminal(stacks, seat, "web")
    with pytest.raises(CannotRun, match=r"php-fpm is gone\. Your trainer can"):
        Stacks.terminal(stacks, seat, "php-fpm")


def test_an_error_of_docker_has_no_64_digits(docker_error: Callable[[str], str]) -> None:
    said = docker_error(f"cannot join network of a non running container: {'ab' * 32}")
    assert said == "Docker refused: cannot join network of a non running container: abababababab"


@pytest.fixture
def docker_error() -> Callable[[str], str]:
    """What a user reads of an error of Docker."""

    def said(text: str) -> str:
        with pytest.raises(CannotRun) as caught, Docker.errors(cast("Docker", None)):
            raise docker.errors.APIError("", explanation=text)
        return caught.value.message

    return said


# --- 5: the form of the diagnosis -------------------------------------------------------------


def test_the_words_of_a_diagnosis_say_what_they_mean(tmp_path: Path) -> None:
    session, seat = in_class(tmp_path)
    words = view.seat(session, seat)["terms"]
    assert words["component"] == {
        "nginx": "",
        "php-fpm": "",
        "web": "",
        "none": "nothing is wrong",
    }
    for part in ("resource", "cause"):
        assert all(words[part].values()), [word for word, means in words[part].items() if not means]


def test_each_lab_offers_its_own_component() -> None:
    for lab_id in labs.ids():
        lab = labs.loaded(lab_id)
        for truth in labs.truths(lab):
            assert truth.component in vocabulary.meanings(lab)["component"], lab_id


# --- 6: a check that failed -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"fixed": False, "findings": FOUND}, "Not yet: 0 of 1 measures are as they should be."),
        (
            {"fixed": True, "findings": [{**FOUND[0], "holds": True}]},
            "It is repaired: every measure is as wanted.",
        ),
        ({"fixed": False, "findings": [], "why": "Docker is away."}, "It could not be measured."),
    ],
)
def test_a_check_has_a_verdict_in_a_sentence(
    facts: dict[str, Any], said: str, tmp_path: Path
) -> None:
    session, seat = in_class(tmp_path)
    assert view.seat(session, seat)["verdict"] == ""
    session.note(Event.CHECKED, 1, **facts)
    assert view.seat(session, seat)["verdict"] == said


# --- 7: the button after the last hint --------------------------------------------------------


def test_the_button_goes_with_the_last_hint_until_the_next_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is for a state that the lab is not in, as far as a check has told."""
    session, seat = in_class(tmp_path)
    rungs = labs.loaded("mtu").hint
    for number, rung in enumerate(rungs, 1):
        if not rung.when:
            assert view.seat(session, seat)["hint_left"]
            session.note(Event.HINTED, 1, number=number)
    assert any(rung.when for rung in rungs)
    assert not view.seat(session, seat)["hint_left"]
    session.note(Event.CHECKED, 1, fixed=False, findings=FOUND)
    assert view.seat(session, seat)["hint_left"]
    monkeypatch.setattr(session.stacks, "hint", no_hint)
    with pytest.raises(CannotRun, match="no other hint"):
        asyncio.run(session.hint(seat))
    assert not view.seat(session, seat)["hint_left"]


async def no_hint(_seat: Seat) -> None:
    return None


# --- 10: Ctrl-C of the server -----------------------------------------------------------------


def test_a_server_that_ends_ends_its_streams(tmp_path: Path) -> None:
    with served(tmp_path) as it:
        it.front._ends = it.site.close
        with httpx.stream("GET", f"{it.url}/seat/1/events", headers=it.headers(1)) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            it.front.stop()
            assert not [line for line in lines if line.startswith("event: ")]


# --- 11: what hints cost, and one vocabulary --------------------------------------------------


def test_remove_and_start_does_not_forget_the_hints(solo: Solo) -> None:
    """The run of the command line has them, too."""
    solo.choose("mtu")
    record = Record.create("mtu", "faultlab-mtu", {"lab": "mtu"})
    record.event(READY)
    record.event("hint", number=2)
    record.event("hint", number=3)
    solo.remove()
    solo.choose("mtu")
    assert solo.seat.turn.hints == [2, 3]
    cost = sum(labs.loaded("mtu").hint[n - 1].cost for n in (2, 3))
    assert solo.session.roster.score(solo.seat.turn, 0).hints == cost
    record.event("check", fixed=True)
    solo.remove()
    solo.choose("mtu")
    assert solo.seat.turn.hints == []  # another try, after one that has ended


def test_a_state_has_one_word_everywhere(tmp_path: Path) -> None:
    session, seat = in_class(tmp_path, blind=False)
    for event, facts, word in (
        (None, {}, "open"),
        (Event.CHECKED, {"fixed": True, "findings": []}, "repaired"),
    ):
        if event:
            session.note(event, 1, **facts)
        shown = [view.seat(session, seat), *view.roster(session)["seats"][:1]]
        shown += view.projector(session)["seats"][:1]
        assert [each["word"] for each in shown] == [word] * 3
    assets = Path(view.__file__).parent / "assets"
    texts = "".join(file.read_text() for file in assets.glob("[jrs]*.js"))
    assert not [word for word in ('"red"', '"green, ', "no answer yet") if f"{word}," in texts]
    assert set(roster.WORDS) == set(roster.State.__args__)  # type: ignore[attr-defined]


# --- 12: prompts ------------------------------------------------------------------------------


@pytest.mark.parametrize(("joins", "where"), [("", "web"), ("web", "web/nginx")])
def test_a_prompt_says_where_one_is(joins: str, where: str, tmp_path: Path) -> None:
    """Although bash reads a PS1 from its files as it starts."""
    name = where.rpartition("/")[2]
    its = cast("Machine", SimpleNamespace(name=name, joins=joins))
    variable = Machine.prompt.fget(its)  # type: ignore[attr-defined]
    (tmp_path / ".bashrc").write_text("PS1='\\u@\\h:\\w\\$ '\n")
    key, _, value = variable.partition("=")
    env = {key: value, "HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TERM": "dumb"}
    told = b"echo left${PROMPT_COMMAND}over; exit\n"
    done = subprocess.run(
        ["bash", "-i"], env=env, cwd=tmp_path, input=told, capture_output=True, check=False
    )
    assert f"@{where}:~" in done.stderr.decode(), done.stderr
    assert b"leftover" in done.stdout


def test_turns_keep_what_they_know() -> None:
    assert not Turn("mtu", no_hint=True).afresh(0.0).no_hint
