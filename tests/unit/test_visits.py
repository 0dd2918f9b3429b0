"""Visits: what one comes to, the visitor that pauses, the marks, and `top`; no Docker here."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faultlab.core import lock
from faultlab.core.errors import CannotRun
from faultlab.core.naming import stack_name
from faultlab.engine.docker.docker_list import Part
from faultlab.engine.stack import Stack
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.observe import top
from faultlab.run import mark, visit, visitor
from faultlab.run.mark import Mark, Marks, Restarts
from faultlab.run.record import Record
from faultlab.run.visit import Page, Share, Visit
from tests.unit.conftest import Project, Run
from tests.unit.fake import FakeEngine, FakeTalk, only_fake
from tests.waiting import until

PAGE = Page("http://web/?n=1", 3, 300)


def made(at: float = 1.0, *, served: bool = True, seconds: float = 0.02) -> Visit:
    why = "" if served else "no response in time"
    return Visit(at, seconds, served, 200 if served else 0, why, PAGE.url)


@pytest.mark.parametrize(
    ("said", "served", "status", "why"),
    [
        ("200 0 0.0123", True, 200, ""),
        ("502 0 0.0123", False, 502, "status 502"),
        ("304 0 0.0123", False, 304, "status 304"),
        ("000 28 3.0001", False, 0, "no response in time"),
        ("200 18 0.5", False, 200, "cut off"),
        ("000 7 0.0", False, 0, "connection refused"),
        ("000 0 0.0", False, 0, "status 0"),
        ("000 99 0.0", False, 0, "curl's exit code 99"),
    ],
)
def test_what_a_visit_comes_to(said: str, served: bool, status: int, why: str) -> None:
    found = visit.parse(said, PAGE, 12.0)
    assert found and (found.served, found.status, found.why) == (served, status, why)
    assert visit.read(visit.line(found)) == found


@pytest.mark.parametrize("said", ["", "200", "200 0", "200 0 x", "200 0 0.1 more", "a b c"])
def test_a_visit_that_was_ended_is_none(said: str) -> None:
    assert visit.parse(said, PAGE, 12.0) is None


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "3", '{"at":1}', visit.line(made())[:-9], '{"at":{},"seconds":1}']
)
def test_half_a_line_is_no_visit(line: str) -> None:
    assert visit.read(line) is None


def test_the_share_is_whole_only_if_all_were_served() -> None:
    many = [made()] * 199
    assert visit.share([]).words == "no visit yet"
    assert visit.share([made()]).words == "100 % of 1 visit served, 0.02 s"
    assert visit.share([*many, made(served=False)]).words == "99 % of 200 visits served, 0.02 s"
    assert visit.share([made(served=False, seconds=3)] * 2).words == "0 % of 2 visits served"
    assert visit.share([made(seconds=s) for s in (0.1, 0.234, 9)]) == Share(3, 3, 0.234)


def pages(lab: str) -> list[Page]:
    return visit.pages(labs.load(lab), checks.load(labs.load(lab)))


def test_which_pages_are_opened() -> None:
    """Those of the check; without one those of the ticket, where only the server can fail."""
    assert pages("mtu") == [Page("http://web/", 3, 300)]
    assert pages("keepalive-race")[0].url == "http://web:8000/"
    assert [page.name for page in pages("pmtu-black-hole")] == [
        "http://web/",
        "http://web/list/restaurants.html",
    ]
    assert pages("regex") == [Page("http://web/booking/message.php", 5, 500)]
    assert visit.parse("405 0 0.1", pages("regex")[0], 1.0) == Visit(
        1.0, 0.1, True, 405, "", "http://web/booking/message.php"
    )
    assert pages("bandwidth") == []
    assert all(page.seconds <= 5 for lab in ("slow-join", "gzip") for page in pages(lab))


@contextmanager
def visiting(go: Callable[[threading.Event], None]) -> Iterator[None]:
    over, amiss = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            go(over)
        except CannotRun as problem:
            amiss.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)
        assert not thread.is_alive()
    if amiss:
        raise amiss[0]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeEngine:
    """A stack of mtu is up; its visitor is quick."""
    found = only_fake(monkeypatch)
    found.launch(labs.load("mtu"), stack_name("mtu"), "r", tmp_path)
    monkeypatch.setattr(visitor, "_EVERY", 0.05)
    monkeypatch.setattr(visitor, "_REST", 0.01)
    monkeypatch.setattr(visitor, "_GLANCE", 0.01)
    return found


@pytest.fixture
def stack(engine: FakeEngine) -> Stack:
    return Stack(engine, stack_name("mtu"))


def test_it_visits_as_a_browser_from_where_the_users_are(engine: FakeEngine, stack: Stack) -> None:
    heard: list[Visit] = []
    it = visitor.Visitor(stack, [PAGE, Page("http://web/b", 3, 300)], lambda: False)
    with visiting(lambda over: it.go(heard.append, over)):
        until(lambda: len(heard) > 3, 10)
        engine.stacks_up[stack.name].network.mtu = 100
        until(lambda: not heard[-1].served, 10)
    assert [one.url for one in heard[:3]] == [PAGE.url, "http://web/b", PAGE.url]
    assert heard[0].served and heard[-1].why == "no response in time"
    words = engine.ran[-1].strip().split("\t")
    assert words[:3] == ["-qs", "-o/dev/null", "-m3"]
    assert "Firefox" in " ".join(words) and words[-1] in (PAGE.url, "http://web/b")


def test_it_pauses_while_a_look_is_taken(stack: Stack) -> None:
    """A command holds the stack, or a look of any stack has the machine alone."""
    heard: list[Visit] = []
    it = visitor.Visitor(stack, [PAGE], lambda: lock.looks(stack.name))
    with visiting(lambda over: it.go(heard.append, over)):
        until(lambda: len(heard) > 1, 10)
        for held in (lock.hold(stack.name, "check mtu"), lock.turn(alone=True)):
            with held:
                time.sleep(0.2)
                before = len(heard)
                time.sleep(0.3)
                assert len(heard) == before
            until(lambda before=before: len(heard) > before + 1, 10)  # type: ignore[misc]
        with lock.turn(alone=False), lock.hold("faultlab-other", "check other"):
            before = len(heard)
            until(lambda: len(heard) > before + 1, 10)


def test_a_request_that_waits_is_ended_when_a_look_begins(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that does not come holds a worker of the daemon until then."""
    sent: list[bytes] = []

    def silent(talk: FakeTalk, data: bytes) -> None:
        sent.append(data)
        if data == b"stop\n":
            talk.said.put(sent[0].partition(b"\t")[0] + b" \n")

    monkeypatch.setattr(FakeTalk, "send", silent)
    heard: list[Visit] = []
    it = visitor.Visitor(stack, [PAGE], lambda: lock.looks(stack.name))
    with visiting(lambda over: it.go(heard.append, over)):
        until(lambda: len(sent) == 1, 10)
        with lock.hold(stack.name, "check mtu"):
            until(lambda: b"stop\n" in sent, 10)
            time.sleep(0.1)
            assert not [one for one in sent[2:] if b"\t" in one]
    assert heard == []


def test_a_load_on_another_slot_is_no_reason_to_pause() -> None:
    with lock.turn(alone=True, slot="0-1"):
        assert lock.looks("faultlab-mtu", "0-1") and lock.looks("faultlab-mtu", "1")
        assert not lock.looks("faultlab-mtu", "2-3")
    with lock.turn(alone=False, slot="0-1"):
        assert not lock.looks("faultlab-mtu", "0-1")


def test_the_locks_are_looked_at_and_never_taken(tmp_path: Path) -> None:
    """A command that wants one in that moment would be refused."""
    assert not lock.looks("faultlab-mtu")
    with lock.hold("faultlab-mtu", "check mtu"):
        assert lock.looks("faultlab-mtu") and not lock.looks("faultlab-nagle")
    assert not lock.looks("faultlab-mtu")
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            lock.looks("faultlab-mtu")

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(200):
            with lock.hold("faultlab-mtu", "check mtu"):
                pass
    finally:
        over.set()
        thread.join()


def test_it_ends_with_its_stack(engine: FakeEngine, stack: Stack) -> None:
    it = visitor.Visitor(stack, [PAGE], lambda: False)
    with pytest.raises(CannotRun), visiting(lambda over: it.go(lambda _: None, over)):
        engine.down(stack.name)
        time.sleep(0.5)


def test_a_stack_has_one_visitor_whatever_number_look(stack: Stack, tmp_path: Path) -> None:
    """The second hears the first; it goes on when that ends."""
    one: list[Visit] = []
    other: list[Visit] = []

    def follow(heard: list[Visit]) -> Callable[[threading.Event], None]:
        return lambda over: visitor.follow(stack, [PAGE], tmp_path, heard.append, over)

    with visiting(follow(other)):
        with visiting(follow(one)):
            until(lambda: len(one) > 2 and len(other) > 2, 10)
        before = len(other)
        until(lambda: len(other) > before + 2, 10)
    told = [visit.read(line) for line in (tmp_path / visitor.FILE).read_text().splitlines()]
    assert told == other and len({one.at for one in other}) == len(other)
    assert {entry.at for entry in one} <= {entry.at for entry in other}


def test_the_file_of_visits_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitor, "_LARGE", 4000)
    monkeypatch.setattr(visitor, "_TAIL", 1000)
    file, heard = tmp_path / visitor.FILE, list[float]()
    tail = visitor.Tail(file)
    for at in range(1, 200):
        visitor._add(file, visit.line(made(float(at))))
        heard += [one.at for one in tail.new()]
        assert file.stat().st_size < 4200
    assert heard == [float(at) for at in range(1, 200)]
    file.write_bytes(file.read_bytes()[:-20])
    assert [*visitor.Tail(file).new()][-1].at == 198.0


def test_what_fell_is_in_the_record(project: Project) -> None:
    events = [
        {"t": 1.0, "event": "measured", "phase": "healthy"},
        {"t": 2.0, "event": "inject", "steps": []},
        {"t": 9.0, "event": "check", "fixed": False},
        {"t": 10.0, "event": "hint", "number": 1},
        {"t": 11.5, "event": "fix", "steps": []},
        {"t": 20.0, "event": "check", "fixed": True},
    ]
    run = "20260101-000000-mtu-0000"
    project.run(run, events=events)
    record = Record.read(run)
    began = record.began
    wanted = [(2.0, "fault"), (9.0, "check: not yet"), (11.5, "fix"), (20.0, "check: repaired")]
    assert [(one.at - began, one.what) for one in mark.marks(record)] == wanted
    marks = Marks(run)
    assert len(marks.now()) == 4
    record.event("check", fixed=True)
    assert len(marks.now()) == 5
    (record.folder / "run.json").write_text("{")
    assert len(marks.now()) == 5
    assert Marks("20260101-000000-lost-0000").now() == []


def test_a_restart_falls_when_a_daemon_is_young_again() -> None:
    it = Restarts()
    assert it.seen([("web", 0.0), ("nginx", 100.0)]) == []
    assert it.seen([("web", 0.0), ("nginx", 101.0)]) == []  # Docker says whole seconds
    assert it.seen([("web", 0.0), ("nginx", 0.0)]) == []
    assert it.seen([("nginx", 190.0), ("php-fpm", 189.0)]) == [Mark(190.0, "nginx restarted")]
    assert Mark(1, "nginx restarted").letter == "R" and Mark(1, "check: not yet").letter == "C"


def test_the_age_of_a_container_counts_in_its_first_minute_only() -> None:
    assert Part("r", "running", 3) == Part("r", "running")


@pytest.fixture
def lab(project: Project, engine: FakeEngine) -> str:
    """A lab that is up, whose run is recorded."""
    run = "20260101-000000-mtu-0000"
    events = [{"t": 2.0, "event": "inject", "steps": []}, {"t": 3.0, "event": "ready"}]
    project.run(run, events=events)
    for machine in engine.stacks_up[stack_name("mtu")].machines.values():
        machine.run_id = run
    return "mtu"


def test_top_prints_a_line_a_second(lab: str, faultlab: Run, engine: FakeEngine) -> None:
    got = faultlab("top", lab, "--seconds", "2")
    assert got.code == 0, got.err
    lines = got.out.splitlines()
    assert "fault" in lines[1] and all(len(line) <= 80 for line in lines)
    assert any("served, 0.0123 s" in line and "visits served" in line for line in lines)
    assert lines[-1].startswith("Ended after 2 s: 100 % of ")
    assert not lock.looks(stack_name(lab))


def test_top_prints_objects(lab: str, faultlab: Run, engine: FakeEngine) -> None:
    engine.end("php-fpm")
    got = faultlab("top", lab, "--seconds", "1.5", "--json")
    told = [json.loads(line) for line in got.out.splitlines()]
    assert got.code == 0 and len(told) >= 2
    states = {part["name"]: (part["joins"], part["state"]) for part in told[0]["parts"]}
    assert states["php-fpm"] == ("web", "exited 137") and states["web"] == ("", "running")
    assert [one["what"] for one in told[0]["fell"]] == ["fault"] and told[1]["fell"] == []
    assert told[-1]["share"]["visits"] > 0


def test_ctrl_c_is_the_usual_end_of_top(
    lab: str, faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_facts: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(top, "plain", pressed)
    got = faultlab("top", lab)
    assert (got.code, got.err) == (0, "")
    assert got.out.splitlines()[-1].startswith("Ended after 0 s: ")


def test_top_ends_with_its_lab(lab: str, faultlab: Run, engine: FakeEngine) -> None:
    threading.Timer(1.0, lambda: engine.down(stack_name(lab))).start()
    got = faultlab("top", lab, "--seconds", "20")
    assert got.code == 3 and got.err.splitlines()[0] == "faultlab: mtu is not up any more."


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("mtu", "--seconds", "0"), 2, "--seconds takes 1 to 86400, not 0."),
        (("mtu", "--seconds", "nan"), 2, "--seconds takes 1 to 86400, not nan."),
        (("nolab",), 2, "There is no lab called 'nolab'."),
        (("mtu",), 3, "Docker does not answer"),
    ],
)
def test_there_is_nothing_to_show(
    words: tuple[str, ...], code: int, says: str, faultlab: Run
) -> None:
    got = faultlab("top", *words)
    assert got.code == code and says in got.err and len(got.err.splitlines()) == 2


def test_the_picture_fits_a_terminal_of_80x24() -> None:
    now = time.time()
    seen = top._Seen(labs.load("mtu"), [PAGE, Page("http://web/" + 90 * "x", 3, 300)])
    for ago in range(300, 0, -1):
        seen.hear(made(now - ago, served=ago % 7 > 2, seconds=ago / 100))
    seen.marks = [Mark(now - 10 * n, f"daemon-{n} restarted") for n in range(30, 0, -1)]
    parts = [top.Part(f"machine{n}", "", "running") for n in range(5)]
    parts += [top.Part(f"daemon{n}", f"machine{n}", "exited 137") for n in range(5)]
    shown = top.Second(9, "mtu", None, visit.share(seen.lately()), True, parts, [])
    lines = [line.plain for line in top.picture(shown, seen)]
    assert len(lines) <= 23 and all(len(line) <= 80 for line in lines)
    served = next(line for line in lines if line.startswith("served"))
    assert set(served[9:69]) <= set("▁▂▃▄▅▆▇█ ") and len(set(served[9:69])) > 2
    fell = next(line for line in lines if line.startswith("fell"))
    assert fell.count("R") >= 28
    assert any("daemon0 exited 137" in line for line in lines)
    seen.pages = []
    lines = [line.plain for line in top.picture(shown, seen)]
    assert lines[1] == "Its users open no page, so no visit is made."


def test_the_script_that_runs_curl_ends_with_its_input(tmp_path: Path) -> None:
    """And without a word: a reader that was killed sends none."""
    import subprocess

    curl = tmp_path / "curl"
    curl.write_text("#!/bin/sh\n[ $1 != slow ] || exec sleep 30\necho 200 0 0.01\n")
    curl.chmod(0o755)
    script = Path(visitor.__file__).with_suffix(".pl")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    def begun(patience: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["perl", script, str(patience)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=env,
        )

    with begun(30) as it:
        assert it.stdin and it.stdout
        it.stdin.write("1\tx\n")
        assert it.stdout.readline() == "1 200 0 0.01\n"
        it.stdin.write("2\tslow\n")
        time.sleep(0.3)
        it.stdin.write("\nstop\n")
        assert it.stdout.readline() == "2 \n"
        it.stdin.write("3\tslow\n")
        time.sleep(0.3)
        it.stdin.close()
        assert it.wait(5) == 0
    with begun(1) as it:
        began = time.monotonic()
        assert it.wait(5) == 0 and time.monotonic() - began < 4
