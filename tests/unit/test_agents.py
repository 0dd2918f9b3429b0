"""Agents: a session, its socket, and how a program ends; on a fake engine, without Docker."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from faultlab.agents import adapter, agent_protocol, command, exam, remote, session
from faultlab.agents.agent import Agent, load
from faultlab.agents.builtin import BUILT_IN, CHEATER, ORACLE, BuiltIn
from faultlab.agents.command import Output
from faultlab.agents.session import Checked, Lost, Session
from faultlab.agents.trajectory import Trajectory
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.statistics import Share
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import State
from faultlab.engine.shell import Done
from faultlab.lab import loader as labs
from faultlab.run import placement
from faultlab.run.phase import CHECK, FAULTY, FIXED, HEALTHY, LATER, PHASES, Phase
from faultlab.run.record import Record
from faultlab.score import agent_metrics, results, tables
from faultlab.score.diagnosis import Diagnosis
from faultlab.score.results import Results, Trial
from tests.unit.conftest import REPO, Project
from tests.unit.conftest import Run as Verbs
from tests.unit.fake import FakeEngine, FakeMachine
from tests.waiting import until

ABORTED = "1 of 1, 100% (21 to 100)"
FIX = "ip link set dev eth0 mtu 1500"
BREAK = "ip link set dev eth0 mtu 100"
TRUTH = {"component": "web", "resource": "network", "cause": "mtu"}
Opened = Callable[..., Session]


@pytest.fixture
def opened(
    project: Project, monkeypatch: pytest.MonkeyPatch, engine: FakeEngine
) -> Iterator[Callable[..., Session]]:
    """Sessions at mtu on a fake engine."""
    monkeypatch.setattr(session, "_RESTARTS", 0.0)
    opened = []

    def begin(phase: str = FAULTY, number: int = 7, later: float = 0) -> Session:
        opened.append(session.open(engine, labs.load("mtu"), phase, number, later))
        return opened[-1].__enter__()

    yield begin
    for one in opened:
        one.__exit__(None, None, None)


def dies(_stack: object) -> Any:
    """Fail as a look does whose daemon is down."""
    raise CannotRun("nginx is not running any more.")


class TestSession:
    """One agent at one lab."""

    def test_a_command_does_not_write_the_whole_record(self, opened: Opened) -> None:
        its = opened()
        for _ in range(30):
            its.run("web", "true")
        lines = (its._run.record.folder / "events.jsonl").read_text().splitlines()
        assert len(lines) == 30
        told = Record.read(its.record).facts["events"]
        assert [event["event"] for event in told].count("command") == 30

    def test_a_repair_and_a_diagnosis(self, opened: Opened) -> None:
        its = opened()
        assert (its.run("web", FIX).code, its.run("web", "exit 3").code) == (0, 3)
        its.diagnose(**TRUTH)
        done = its.finish()
        assert (done.repaired, done.cause, done.component, done.resource) == (True,) * 4
        assert (done.false_alarm, done.commands) == (False, 2)
        kept = [e for e in Record.read(its.record).facts["events"] if e["event"] == "command"]
        assert [(e["machine"], e["command"], e["code"]) for e in kept] == [
            ("web", FIX, 0),
            ("web", "exit 3", 3),
        ]

    def test_it_works_on_while_it_is_measured(self, opened: Opened) -> None:
        """Processes that an agent left behind type on, and the record stays whole."""
        its, over = opened(), threading.Event()

        def types() -> None:
            while not over.is_set():
                its.run("web", "true")

        others = [threading.Thread(target=types) for _ in range(4)]
        for other in others:
            other.start()
        try:
            its.diagnose(**TRUTH)
            for _ in range(5):
                its.check()
            found = its.finish()
        finally:
            over.set()
            for other in others:
                other.join()
        kept = [e for e in Record.read(its.record).facts["events"] if e["event"] == "command"]
        assert found.cause and len(kept) == len(its.commands)

    def test_nothing_done(self, opened: Opened) -> None:
        done = opened().finish()
        assert (done.repaired, done.cause, done.false_alarm) == (False, False, False)

    @pytest.mark.parametrize("phase", [HEALTHY, FIXED])
    def test_where_nothing_is_wrong(self, opened: Opened, phase: str) -> None:
        """Silence is right, a name is a false alarm, and what is broken counts."""
        silent = opened(phase, 1).finish()
        assert (silent.repaired, silent.cause, silent.false_alarm) == (True, True, False)
        loud = opened(phase, 2)
        loud.diagnose(**TRUTH)
        loud.run("web", BREAK)
        done = loud.finish()
        assert (done.repaired, done.cause, done.false_alarm) == (False, False, True)

    def test_it_names_nothing(self, opened: Opened) -> None:
        """Not its case, its machines or its ticket; and a healthy system has the same ticket."""
        its = opened()
        assert its.case == "case-07"
        assert "mtu" not in " ".join([its.case, its.ticket, *its.machines]).lower()
        assert opened(HEALTHY, 8).ticket == its.ticket

    @pytest.mark.parametrize(
        "machine", ["client-user", "kernel", "a helper container", "", "x" * 99]
    )
    def test_there_is_no_other_machine(self, opened: Opened, machine: str) -> None:
        """Not the container from which the check looks, and no helper."""
        its = opened()
        with pytest.raises(BadInput, match="There is no machine"):
            its.run(machine, "true")
        assert not its.commands

    def test_other_words_are_refused(self, opened: Opened) -> None:
        its = opened()
        with pytest.raises(BadInput):
            its.diagnose("web", "network", "gremlins")
        its.diagnose("none", "none", "none")
        assert its.answer == dict.fromkeys(TRUTH, "none")

    def test_a_check_comes_after_the_diagnosis_and_makes_it_final(self, opened: Opened) -> None:
        its = opened()
        with pytest.raises(BadInput, match="Say what is wrong first"):
            its.check()
        its.diagnose(**TRUTH)
        assert not its.check().fixed
        its.run("web", FIX)
        assert its.check().fixed
        with pytest.raises(BadInput, match="final"):
            its.diagnose("none", "none", "none")

    def test_the_seconds_of_a_check_are_not_those_of_the_agent(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        its = opened()
        measured = its._measured

        def slow(phase: Phase) -> Checked:
            time.sleep(0.5 if phase == CHECK else 0)
            return measured(phase)

        monkeypatch.setattr(its, "_measured", slow)
        its.run("web", FIX)
        its.diagnose(**TRUTH)
        assert its.check().fixed
        done = its.finish()
        assert its._ended is not None and done.seconds <= its._ended - its._began - 0.5
        assert done.waited >= 0.5

    def test_the_whole_of_it_is_kept(self, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each request and its answer; run.json says only how much a command has printed."""
        its = opened()
        its.run("web", "echo well")
        with monkeypatch.context() as without_mkdir:
            without_mkdir.setattr(its, "run", lambda *_: Output(0, "", ""))
            its.write_file("web", "/tmp/a", b"text")
        its.diagnose(**TRUTH)
        its.check()
        wire = agent_protocol.Wire(its, time.monotonic() + 60)
        wire.answer(b'{"usage": {"tokens": 7, "model": "larch-2"}}\n')
        lines = [json.loads(line) for line in its.trajectory.file.read_text().splitlines()]
        assert [line["did"] for line in lines] == [
            *("ticket", "run", "write", "diagnose", "check", "usage")
        ]
        assert lines[0]["ticket"] == its.ticket
        assert (lines[1]["command"], lines[1]["out"], lines[1]["code"]) == (
            "echo well",
            "well\n",
            0,
        )
        assert (lines[2]["path"], lines[2]["content"]) == ("/tmp/a", "text")
        assert lines[3]["cause"] == "mtu" and not lines[4]["fixed"] and lines[4]["says"]
        assert lines[5]["model"] == "larch-2"
        assert its.trajectory.file == its._run.record.folder / "trajectory.jsonl"

    def test_a_long_trajectory_says_where_it_ends(self, tmp_path: Path) -> None:
        kept = Trajectory(tmp_path, most=400)
        for _ in range(9):
            kept.add("run", command="\ud800" + "x" * 99)
        lines = [json.loads(line)["did"] for line in kept.file.read_text().splitlines()]
        assert lines == ["run", "run", "no more is kept"]

    def test_users_who_are_not_served_meanwhile_are_counted(
        self, opened: Opened, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(session, "traffic", lambda *_: nullcontext())
        its = opened()
        its.visit()
        its.run("web", FIX)
        its.visit()
        done = its.finish()
        its.visit()  # it has ended
        assert (done.visits, done.visits_lost) == (2, 1)
        its = opened(HEALTHY, 8)
        its.visit()
        its._run.check = replace(its._run.check, look=wraps(its._run.check.look)(dies))
        with pytest.raises(CannotRun):
            its.visit()
        assert its._visits == [True, False]

    def test_a_machine_that_the_agent_starts_again_ends_the_session(self, opened: Opened) -> None:
        its = opened()
        its.run("web", "echo well")
        its._run.stack["web"].restart()
        after = its.run("web", "echo well")
        assert (after.code, after.out) == (command.NOT_RUNNING, "")
        assert after.err.startswith("web was started again") and "session is over" in after.err
        assert its.run("client", "echo well").out == "well\n"  # a harness goes on there
        with pytest.raises(OSError, match="web was started again"):
            its.write_file("web", "/tmp/a", b"a")
        done = its.finish()
        assert (done.repaired, done.aborted, len(its.commands)) == (False, "by the agent", 4)

    def test_a_machine_that_ends_before_the_agent_does_anything_is_no_result(
        self, opened: Opened
    ) -> None:
        its = opened()
        its._run.stack["web"].restart()
        with pytest.raises(Lost, match="web was started again"):
            its.run("web", "echo well")
        with pytest.raises(Lost):
            its.finish()

    @pytest.mark.parametrize(("name", "by"), [("web", "by the agent"), ("nginx", "")])
    def test_a_dead_container_serves_nobody(
        self, opened: Opened, engine: FakeEngine, name: str, by: str
    ) -> None:
        """The agent can start a daemon again, and no machine."""
        its = opened()
        its.run("client", "echo well")
        engine.end(name)
        assert its.run(name, "echo well").code == command.NOT_RUNNING
        its.diagnose(**TRUTH)
        says = f"{name} has ended (exit code 137); its users get nothing."
        assert its.check() == Checked(False, [says])
        done = its.finish()
        assert (done.repaired, done.cause, done.aborted) == (False, True, by)

    def test_users_that_have_ended_are_no_result(self, opened: Opened, engine: FakeEngine) -> None:
        """No agent reaches them, so the whole stack was ended by something else."""
        its = opened()
        its.run("client", "echo well")
        for name in ("web", "client-user"):
            engine.end(name)
        with pytest.raises(Lost, match="client-user is not there"):
            its.run("web", "echo well")
        with pytest.raises(Lost):
            its.finish()

    def test_a_repair_is_looked_at_again(self, opened: Opened, engine: FakeEngine) -> None:
        """The users come meanwhile, and the later verdict counts."""
        heard: list[str] = []
        its = opened(later=0.01)
        its.run("web", FIX)
        done = its.finish(heard.append)
        assert (done.repaired, done.later, heard) == (True, 0.01, ["looked at again in 0:00"])
        its = opened(number=8, later=0.01)
        its.run("web", FIX)
        engine.meanwhile.append(lambda: its._run.stack["web"].run(BREAK))
        assert not its.finish().repaired
        told = [e for e in Record.read(its.record).facts["events"] if e["event"] == LATER]
        assert [e["fixed"] for e in told] == [False]
        its = opened(number=9, later=3)
        engine.meanwhile.append(lambda: pytest.fail("it was not repaired"))
        assert its.finish().later == 0

    def test_docker_learns_late_that_a_container_was_killed(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        its = opened()
        started = its._run.stack["web"].state.started
        alive, dead = State(True, 0, False, started), State(False, 137, False, started)
        states = iter([alive, alive, alive])  # before the command, and twice after it

        def now(machine: FakeMachine) -> State:
            return alive if machine.name == "client-user" else next(states, dead)

        monkeypatch.setattr(FakeMachine, "state", property(now))
        monkeypatch.setattr(FakeMachine, "run", lambda *_: Done("sleep 5", 137, "", "", 1.0))
        after = its.run("web", "sleep 5")
        assert after.code == command.NOT_RUNNING and "web has ended (exit code 137)" in after.err

    def test_a_daemon_that_the_fault_has_ended_serves_nobody(
        self, opened: Opened, engine: FakeEngine
    ) -> None:
        its = opened()
        its.diagnose("none", "none", "none")
        engine.end("nginx")
        look = wraps(its._run.check.look)(dies)
        its._run.check = replace(its._run.check, may_stop=("nginx",), look=look)
        says = "nginx has ended (exit code 137); its users get nothing."
        assert its.check() == Checked(False, [says]) and not its.finish().repaired

    def test_a_dead_engine_is_no_result(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def gone(_machine: FakeMachine) -> State:
            raise CannotRun("Docker does not respond.")

        its = opened()
        monkeypatch.setattr(FakeMachine, "state", property(gone))
        with pytest.raises(Lost, match="Docker does not respond"):
            its.finish()


class TestHost:
    """The `docker` commands of an engineer."""

    def test_what_it_does(self, opened: Opened) -> None:
        its = opened()
        assert its.run("host", "docker ps").out.splitlines()[0].startswith("NAMES")
        assert its.run("host", "docker restart nginx").code == 0
        assert its.run("host", "docker update --cpus 0.5 -m 512M nginx php-fpm").code == 0
        nginx = its._run.stack["nginx"]
        assert isinstance(nginx, FakeMachine)
        assert (nginx.restarts, nginx.limits) == (1, (0.5, "512m", None))

    @pytest.mark.parametrize(
        ("words", "why"),
        [
            ("--pids-limit -1", "without a limit of processes can take the host: give it at most"),
            ("--pids-limit 9000", "give it at most 8192"),
            ("--memory 17g", "At most 12288m of memory"),
            ("-m 12289m --memory-swap -1", "At most 12288m of memory"),
            ("--cpus 2.5", "At most 2 CPUs"),
        ],
    )
    def test_no_limit_beyond_those_of_the_stack(
        self, opened: Opened, engine: FakeEngine, words: str, why: str
    ) -> None:
        """An agent could take the host, after it had removed the limits of a daemon."""
        engine.largest = {"cpus": 2.0, "mem_limit": "12288m", "pids_limit": 8192}
        its = opened()
        done = its.run("host", f"docker update {words} nginx")
        assert done.code == 127 and why in done.err
        nginx = its._run.stack["nginx"]
        assert isinstance(nginx, FakeMachine) and not any(nginx.limits)
        assert its.run("host", "docker update --pids-limit 4000 -m 12g --cpus 2 nginx").code == 0
        assert nginx.limits == (2.0, "12g", 4000)

    @pytest.mark.parametrize(
        "command",
        [
            *("docker update --pids-limit x nginx", "docker update --pids-limit 0 nginx"),
            *("", "ls", "docker", "docker run -v /:/host x", "docker exec nginx sh", "docker 'ps"),
            *("docker restart", "docker restart web", "docker restart client-user"),
            *("docker update nginx", "docker update --cpus x nginx", "docker update --cpus 1"),
            *("docker update --privileged nginx", "docker restart nginx; id", "docker ps | sh"),
        ],
    )
    def test_what_it_refuses(self, opened: Opened, command: str) -> None:
        """Nothing else, and never a machine: it would lose the fault."""
        its = opened()
        done = its.run("host", command)
        if command != "docker ps | sh":  # no shell reads it, so these are words that ps ignores
            assert (done.code, done.out) == (127, "")
        assert all(m.restarts == 0 for m in its._run.stack.values() if isinstance(m, FakeMachine))


MALFORMED = [
    *(b"nonsense\n", b"{}\n", b"[]\n", b"null\n", b'"run"\n', b"\xff\xfe\n", b"\n"),
    *(b'{"run": 1}\n', b'{"run": {"machine": "web"}}\n', b'{"run": null}\n'),
    b'{"run": {"machine": "web", "command": "x"}, "check": {}}\n',
    b'{"run": {"machine": "web", "command": "x", "user": "root"}}\n',
    b'{"run": {"machine": "web", "command": "x", "timeout": -1}}\n',
    b'{"run": {"machine": "nowhere", "command": "x"}}\n',
    b'{"diagnose": {"component": "web", "resource": "network", "cause": "gremlins"}}\n',
    *(b'{"usage": {"tokens": -1}}\n', b'{"usage": {"cost": NaN}}\n', b'{"exec": {}}\n'),
    b"[" * 100_000 + b"\n",
]


class TestWire:
    """The lines of an agent."""

    @pytest.mark.parametrize("line", MALFORMED, ids=lambda line: repr(line[:30]))
    def test_a_malformed_line_is_answered(self, opened: Opened, line: bytes) -> None:
        """With an error and no traceback; and the next line is answered as ever."""
        its = agent_protocol.Wire(opened(), time.monotonic() + 60)
        assert its.answer(line).keys() == {"error"}
        assert its.trouble is None
        asked = b'{"run": {"machine": "web", "command": "echo well"}}\n'
        assert its.answer(asked) == {"code": 0, "out": "well\n", "err": ""}

    def test_a_line_without_an_end(self, opened: Opened, tmp_path: Path) -> None:
        its = agent_protocol.Wire(opened(), time.monotonic() + 60)
        with (
            agent_protocol.listening(tmp_path / "s", its.answer),
            socket.socket(socket.AF_UNIX) as agent,
        ):
            agent.connect(str(tmp_path / "s"))
            agent.sendall(b"x" * (1 << 20))
            assert b"at most" in agent.makefile("rb").readline()

    def test_a_connection_that_is_reset_prints_nothing(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """An agent that closes it with answers unread resets it; that is no error of ours."""
        heard = threading.Event()

        def answer(_: bytes) -> dict[str, Any]:
            heard.set()
            return {}

        before = threading.active_count()
        with agent_protocol.listening(tmp_path / "s", answer):
            with socket.socket(socket.AF_UNIX) as agent:
                agent.connect(str(tmp_path / "s"))
                agent.sendall(b"one\n")
                assert heard.wait(10)
                until(lambda: bool(select.select([agent], [], [], 0)[0]))
            until(lambda: threading.active_count() <= before + 1)  # its thread has ended
        assert capfd.readouterr().err == ""

    def test_a_trouble_of_ours_is_no_answer(self, opened: Opened) -> None:
        """The agent learns that it is over; the error is ours."""
        its = opened()

        def broken(machine: str, command: str, timeout: float = 60) -> Output:
            raise ZeroDivisionError

        its.run = broken  # type: ignore[method-assign]
        line = agent_protocol.Wire(its, time.monotonic() + 60)
        asked = b'{"run": {"machine": "web", "command": "x"}}\n'
        for _ in range(2):
            assert line.answer(asked) == {"error": "the session is over"}
        assert line.over.is_set() and "ZeroDivisionError" in str(line.trouble)

    def test_usage_is_kept(self, opened: Opened) -> None:
        its = agent_protocol.Wire(opened(), time.monotonic() + 60)
        for tokens in (100, 250):
            assert its.answer(b'{"usage": {"tokens": %d, "cost": 0.5}}\n' % tokens) == {}
        assert (its.usage.tokens, its.usage.cost) == (250, 0.5)
        assert its.answer(b'{"usage": {"model": "larch-2026-11-02"}}\n') == {}
        assert (its.usage.tokens, its.usage.model) == (250, "larch-2026-11-02")


PROGRAM = """
import json, os, socket, sys
told = json.loads(sys.stdin.readline())
lines = socket.socket(socket.AF_UNIX)
lines.connect(os.environ["FAULTLAB_SOCKET"])
lines = lines.makefile("rwb")
def ask(**request):
    lines.write(json.dumps(request).encode() + b"\\n")
    lines.flush()
    return json.loads(lines.readline())
"""
MENDS = """
assert set(told) == {"case", "ticket", "machines", "daemons", "host", "terms", "seconds"}, told
assert ask(run={"machine": "web", "command": "ip link set dev eth0 mtu 1500"})["code"] == 0
assert ask(diagnose={"component": "web", "resource": "network", "cause": "mtu"})["diagnosis"]
assert ask(check={})["fixed"]
ask(usage={"tokens": 12, "cost": 0.1})
"""


def agent(folder: Path, code: str = "", command: str = "", seconds: float = 20) -> Agent:
    """An agent in a folder, as somebody outside would write it."""
    (folder / "mine").mkdir()
    (folder / "mine/agent.py").write_text(PROGRAM + code)
    command = command or f"exec {sys.executable} agent.py"
    text = f"kind = \"agent\"\ntitle = \"x\"\nseconds = {seconds}\ncommand = '''{command}'''\n"
    (folder / "mine/tool.toml").write_text(text)
    return load(str(folder / "mine"))


class TestAdapter:
    """A program on this machine."""

    def test_a_program_that_repairs(self, opened: Opened, tmp_path: Path) -> None:
        its, log = opened(), tmp_path / "log"
        usage, ended = adapter.work(agent(tmp_path, MENDS + "print('well')"), its, log)
        assert (ended, log.read_text()) == ("", "well\n")
        assert (usage.tokens, usage.cost) == (12, 0.1)
        done = its.finish()
        assert done.repaired and done.cause and done.commands == 1
        facts = exam._facts(done, usage.model_copy(update={"model": "larch-2"}))
        assert facts["model"] == "larch-2" and "model" not in exam._facts(done, usage)
        astray = replace(done, decoys=["old-overflow"])
        assert exam._facts(astray, usage)["decoys"] == ["old-overflow"] and "decoys" not in facts

    @pytest.mark.parametrize(
        ("command", "why"),
        [
            ("exit 3", "it ended with exit code 3"),
            ("true", ""),
            ("no-such-program", "it ended with exit code 127"),
            ("yes | head -c 9000000; exit 0", ""),
            ("trap '' TERM; while :; do sleep 0.2; done", "its time was up"),
            ("exec sleep 100 <&-", "its time was up"),
        ],
    )
    def test_however_it_ends_it_is_scored(
        self, opened: Opened, tmp_path: Path, command: str, why: str
    ) -> None:
        its, began = opened(), time.monotonic()
        _, ended = adapter.work(agent(tmp_path, "", command, 1), its, tmp_path / "log")
        assert (ended, its.finish().repaired) == (why, False)
        assert time.monotonic() - began < 10
        assert (tmp_path / "log").stat().st_size <= 1 << 20

    def test_its_children_end_with_it(self, opened: Opened, tmp_path: Path) -> None:
        """With its time, whatever they ignore."""
        command = "trap '' TERM HUP; sleep 300 & echo $! >child; sleep 300 & echo $! >>child; wait"
        adapter.work(agent(tmp_path, "", command, 1), opened(), tmp_path / "log")
        assert not alive((tmp_path / "mine/child").read_text().split())

    def test_it_ends_when_we_are_killed(self, tmp_path: Path) -> None:
        """By `kill -9`: nothing of its group is left."""
        child = tmp_path / "mine/child"
        mine = agent(tmp_path, "", f"sleep 300 & echo $! $$ >{child}; wait")
        code = (
            "from pathlib import Path; import time; from faultlab.agents import adapter, agent\n"
            f"mine = agent.load({str(mine.folder)!r})\n"
            f"with adapter._running(mine, Path('none'), Path({str(tmp_path / 'log')!r})):\n"
            "    time.sleep(60)\n"
        )
        ours = subprocess.Popen([sys.executable, "-c", code], cwd=REPO)
        until(lambda: child.is_file() and len(child.read_text().split()) == 2)
        ours.send_signal(signal.SIGKILL)
        ours.wait()
        until(lambda: not alive(child.read_text().split()))

    def test_a_lost_session_is_no_result(self, opened: Opened, tmp_path: Path) -> None:
        """The program is ended at once, and our error is raised."""
        its = opened()
        its._run.stack["web"].restart()
        asks = "ask(run={'machine': 'web', 'command': 'echo'})\nimport time; time.sleep(60)"
        with pytest.raises(Lost):
            adapter.work(agent(tmp_path, asks), its, tmp_path / "log")

    def test_others_cannot_open_the_socket(self, opened: Opened, tmp_path: Path) -> None:
        look = 'stat -c %a "$(dirname "$FAULTLAB_SOCKET")"'
        adapter.work(agent(tmp_path, "", look), opened(), tmp_path / "log")
        assert (tmp_path / "log").read_text() == "700\n"


def alive(pids: list[str]) -> list[str]:
    """Return which of these processes still run."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        found += [pid] if state not in "ZX" else []
    return found


class TestExam:
    """All trials of some agents."""

    def test_the_cases(self) -> None:
        """In an order that tells nothing; each cheat is a trial."""
        chosen = [labs.load("mtu"), labs.load("healthy")]
        nop = load("nop")
        every = exam.cases([nop, CHEATER], chosen, 2, 0)
        assert every == exam.cases([nop, CHEATER], chosen, 2, 0)
        assert every != exam.cases([nop, CHEATER], chosen, 2, 1)
        told = {(c.agent.id, c.lab.id, c.phase, c.number) for c in every}
        assert len(told) == len(every)
        assert {t for t in told if t[:2] == ("nop", "mtu")} == {
            ("nop", "mtu", phase, n) for phase in PHASES for n in (1, 2)
        }
        assert {t[2:] for t in told if t[:2] == ("cheater", "mtu")} == {
            (FAULTY, n + 1) for n in range(len(labs.load("mtu").cheat))
        }

    @pytest.mark.parametrize(
        ("who", "repaired", "causes"),
        [
            (("oracle", FAULTY), True, ["mtu"]),
            (("oracle", HEALTHY), True, []),
            (("oracle", FIXED), True, []),
            (("cheater", FAULTY), False, []),
            (("nop", FAULTY), False, []),
            (("nop", HEALTHY), True, []),
        ],
    )
    def test_a_trial(
        self, opened: Opened, tmp_path: Path, who: tuple[str, str], repaired: bool, causes: Any
    ) -> None:
        """It is written and read as a trial of a score."""
        name, phase = who
        one = BUILT_IN.get(name) or load(str(REPO / "tools" / name))
        case = exam.Case(one, labs.load("mtu"), phase, 1)
        made = exam._trial(FakeEngine(), case, 3, ("a", "b"))
        assert made.agent is not None and made.diagnosis is not None
        assert (made.agent["repaired"], made.diagnosis.causes) == (repaired, causes)
        assert made.agent.keys() == {
            *("repaired", "commands", "seconds", "tokens", "cost"),
            *("waited", "visits", "visits_lost"),
        }
        Results(tmp_path / "r.json", tools={name: {"title": "x"}}).add([made])
        assert results.read(tmp_path / "r.json").trials[made.key] == made
        exam.show(Terminal(), results.read(tmp_path / "r.json"), [name])

    def test_a_trial_that_is_none_harms_nobody(self) -> None:
        """It is in no share, and neither is a trial of an older version of the agent."""
        one = exam._failed(exam.Case(ORACLE, labs.load("mtu"), HEALTHY, 1), ("new", "b"), "lost")
        cost = {"commands": 3, "seconds": 1.0, "tokens": None, "cost": None}
        good, bad = ({"repaired": repaired, **cost} for repaired in (True, False))
        told: dict[str, Any] = {"kind": "diagnosis", "diagnosis": Diagnosis(False)}
        whole = Trial(**{**vars(one), **told, "number": 2, "agent": good})
        old = Trial(**{**vars(one), **told, "number": 3, "agent": bad, "tool_digest": "old"})
        kept = Results(Path("x"), tools={"oracle": {"title": "x", "digest": "new"}})
        kept.trials = {each.key: each for each in (one, whole, old)}
        assert exam._left_healthy(kept, "oracle").text.startswith("1 of 1")
        assert agent_metrics.rows(kept)[0].false.of == 1

    def test_a_lost_trial_is_made_again(self, opened: Opened, tmp_path: Path) -> None:
        """It is reported and counted as an error until a trial in its place has a result.

        What an agent ends is a result of its own.
        """

        def loses(its: Session, _phase: str, _number: int) -> None:
            its._run.stack["web"].restart()

        broken = BuiltIn("broken", "x", loses)
        kept = Results(tmp_path / "r.json")
        lab = labs.load("mtu")
        every = [exam.Case(broken, lab, HEALTHY, 1), exam.Case(ORACLE, lab, HEALTHY, 1)]
        troubles = exam._all(Terminal(), {"mtu": FakeEngine()}, every, kept)
        assert len(troubles) == 1 and "web was started again" in troubles[0]
        kinds = {t.tool: t.kind for t in kept.trials.values()}
        assert kinds == {"oracle": "diagnosis", "broken": "unknown"}
        lost, made = agent_metrics.rows(kept)[:2]
        assert (lost.errors, lost.lost.text) == (1, ABORTED)
        assert (made.errors, made.lost.happened) == (0, 0)
        again = [exam.Case(BuiltIn("broken", "x", lambda *_: None), lab, HEALTHY, 1)]
        assert not exam._all(Terminal(), {"mtu": FakeEngine()}, again, kept)
        assert {t.kind for t in kept.trials.values()} == {"diagnosis"}

    def test_an_abort_is_a_failure_and_is_counted(self, opened: Opened, tmp_path: Path) -> None:
        def aborts(its: Session, _phase: str, _number: int) -> None:
            its.run("web", FIX)
            its._run.stack["web"].restart()

        every = [exam.Case(BuiltIn("broken", "x", aborts), labs.load("mtu"), FAULTY, 1)]
        kept = Results(tmp_path / "r.json")
        assert not exam._all(Terminal(), {"mtu": FakeEngine()}, every, kept)
        [trial] = results.read(tmp_path / "r.json").trials.values()
        assert trial.kind == "diagnosis" and trial.agent is not None
        assert (trial.agent["repaired"], trial.agent["aborted"]) == (False, "by the agent")
        row = agent_metrics.rows(kept)[0]
        assert (row.repaired.text, row.aborted.text) == ("0 of 1, 0% (0 to 79)", ABORTED)
        exam.show(Terminal(), kept, ["broken"])


BY_HEART = """
assert (told["machines"], told["daemons"], told["host"]) == ([], [], "")
assert "mtu" not in json.dumps(told["ticket"]).lower()
assert "no machines" in ask(run={"machine": "web", "command": "ip link"})["error"]
assert "no users" in ask(check={})["error"]
ask(usage={"tokens": 5, "model": "larch-2"})
ask(diagnose={"component": "nginx", "resource": "network", "cause": "gzip"})
assert ask(diagnose={"component": "nginx", "resource": "network", "cause": "mtu"})["diagnosis"]
"""


class TestTicketOnly:
    """An agent without machines, which needs no Docker."""

    def test_what_it_names_is_beside_what_it_names_on_a_stack(
        self, project: Project, tmp_path: Path, faultlab: Verbs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(placement, "places_of", lambda *_: pytest.fail("it asks for Docker"))
        mine = agent(tmp_path, BY_HEART)
        file = str(tmp_path / "r.json")
        words = ("--labs", "mtu,healthy", "--json", file, "--ticket-only", "--repeat", "2")
        done = faultlab("agent", str(mine.folder), *words)
        assert done.code == 0, done.err
        says = "mine, by the ticket alone: cause 2 of 2, 100% (34 to 100); component 2 of 2"
        assert says in done.out
        made = results.read(Path(file)).trials
        assert {key[1:4] for key in made} == {("mtu", "ticket", n) for n in (1, 2)}  # no control
        first = next(iter(made.values()))
        assert first.agent and (first.agent["repaired"], first.agent["model"]) == (None, "larch-2")
        (row,) = agent_metrics.rows(results.read(Path(file)))
        assert row.ticket_cause == row.ticket_component == Share(2, 2)  # nginx is on web
        assert (row.repaired, row.cause, row.false, row.again) == (*[Share(0, 0)] * 3, [])
        kept = project.root / "runs/tickets/mine-mtu-1"
        lines = (kept / "trajectory.jsonl").read_text().splitlines()
        assert [json.loads(line)["did"] for line in lines] == [
            *("ticket", "usage", "diagnose", "diagnose")
        ]
        again = faultlab("agent", str(mine.folder), *words)  # nothing is missing
        assert again.code == 0 and "names" not in again.out.partition("agent ")[0]

    def test_silence_names_nothing(self, project: Project, tmp_path: Path, faultlab: Verbs) -> None:
        mine = agent(tmp_path, "", "true")
        file = str(tmp_path / "r.json")
        words = ("--labs", "mtu", "--json", file, "--ticket-only")
        assert faultlab("agent", str(mine.folder), *words).code == 0
        (row,) = agent_metrics.rows(results.read(Path(file)))
        assert row.ticket_cause == row.ticket_component == Share(1, 0)
        (table, *_) = tables.tables(results.read(Path(file)))
        told = dict(zip(table.headings, table.rows[0], strict=True))
        assert told["cause by the ticket alone"] == Share(1, 0)

    def test_an_agent_that_knows_the_lab_has_none(self, project: Project, faultlab: Verbs) -> None:
        done = faultlab("agent", "oracle", "--labs", "mtu", "--ticket-only")
        assert done.code == 2
        assert done.err.startswith("faultlab: oracle knows the labs, so its ticket tells nothing.")


class TestFolder:
    """What a tool.toml of an agent can say."""

    def test_an_agent_is_no_tool(self, faultlab: Verbs) -> None:
        done = faultlab("score", "nop", "--labs", "mtu")
        assert done.code == 2
        assert done.err.startswith("faultlab: tools/nop/tool.toml: this is an agent, not a tool.")

    @pytest.mark.parametrize("words", [["nobody"], ["./nobody"], ["mtr"]])
    def test_no_such_agent(self, faultlab: Verbs, words: list[str]) -> None:
        done = faultlab("agent", *words, "--labs", "mtu")
        assert done.code == 2 and "Traceback" not in done.err
        assert len(done.err.splitlines()) == 2

    def test_each_key_is_documented(self) -> None:
        text = (REPO / "docs/verifying-an-agent.md").read_text()
        table = text.partition("## The keys of tool.toml")[2].partition("\n## ")[0]
        keys = Agent.model_fields.keys() - {"id", "folder"}
        assert not [key for key in keys if f"`{key}`" not in table]

    def test_the_digest_follows_the_program(self, tmp_path: Path) -> None:
        mine = agent(tmp_path)
        before = mine.digest
        (mine.folder / "agent.py").write_text("pass")
        assert mine.digest != before


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../out", "link/out"])
def test_no_file_leaves_its_folder(name: str, tmp_path: Path) -> None:
    """An agent chooses the names of the files that a harness downloads."""
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    assert remote.within(folder, "a/b..txt") == folder / "a" / "b..txt"
    with pytest.raises(PermissionError):
        remote.within(folder, name)


def test_a_machine_whose_programs_were_replaced(opened: Opened) -> None:
    """What they print is no size and no Base64."""
    its = opened()
    its.run = lambda *_: Output(0, "many", "")  # type: ignore[method-assign]
    with pytest.raises(OSError, match="many"):
        remote.read(its, "client", "/etc/hosts", 1000)


def test_the_checklist_knows_no_lab() -> None:
    """It names causes, which are terms, and no path, value or file that only a fault has."""
    text = (REPO / "tools/checklist/checklist.py").read_text()
    steps = [step.run for lab in map(labs.load, labs.ids()) for step in lab.inject if step.run]
    assert not [step for step in steps if step in text]
    # Not only whole steps: a path, or a setting with its value, of one of them.
    its = r"/[\w.-]+(?:/[\w.-]+)+|[\w.]+[= ]\d{2,}\b"
    own = {word for step in steps for word in re.findall(its, step)} - {"/dev/null"}
    assert len(own) > 40 and [word for word in own if word in text] == []


def test_an_output_arrives_while_a_process_in_the_background_keeps_it_open() -> None:
    """Docker closes it soon after the command has ended; nothing may be in a buffer then."""
    words = command.limited("sleep 20 & echo $!", 30)
    with subprocess.Popen(["bash", "-c", words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        in_background = int(process.stdout.readline())
        stat = Path(f"/proc/{in_background}/stat").read_text()
        assert stat.rpartition(")")[2].split()[0] != "Z"  # so it has not ended
        os.kill(in_background, signal.SIGKILL)
