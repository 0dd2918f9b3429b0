"""What all harnesses share: neutral cases, files of a machine, the programs on client."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from faultlab.agents import cases, harbor_requests, harbor_tasks, host, remote
from faultlab.agents.cases import Case
from faultlab.agents.command import MOST, Output
from faultlab.agents.session import Session, Verdict
from faultlab.core import extra
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.naming import stack_name
from faultlab.lab import loader as labs
from faultlab.lab import vocabulary
from faultlab.lab.model import Limit
from faultlab.run.phase import PHASES
from tests.unit.conftest import Run
from tests.unit.fake import FakeEngine, FakeStack

LABS = ["mtu", "healthy", "heap-oom"]


class Here(Session):
    """A session whose machines are this machine, for what only reads and writes files."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, machine: str, command: str, timeout: float = 60) -> Output:
        if machine not in ("client", host.NAME):
            raise BadInput(f"There is no machine {machine!r}; there are client.")
        self.ran.append(command)
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        return Output(done.returncode, done.stdout[:MOST], done.stderr[:MOST])

    def write_file(self, machine: str, path: str, content: bytes) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)

    def diagnose(self, component: str, resource: str, cause: str) -> dict[str, str]:
        if cause == "wrong":
            raise BadInput("'wrong' is no cause that can be named.")
        return {"component": component, "resource": resource, "cause": cause}


@pytest.fixture
def here() -> Here:
    return Here()


# --- cases ---


def test_the_order_depends_on_the_seed_alone() -> None:
    every = cases.dealt(LABS, PHASES, seed=1)
    assert every == cases.dealt(LABS, PHASES, seed=1)
    assert every != cases.dealt(LABS, PHASES, seed=2)
    assert [case.number for case in every] == [*range(1, 10)]
    assert {(case.lab, case.phase) for case in every} == {(a, b) for a in LABS for b in PHASES}
    assert every[0].name == "case-01"


def test_unknown_labs_and_phases() -> None:
    with pytest.raises(BadInput, match="no phase 'ill'"):
        cases.dealt(LABS, ["ill"], 0)
    with pytest.raises(BadInput):
        cases.dealt(["nothing"], PHASES, 0)


WORDS = cache(vocabulary.words)  # they come from all labs


@pytest.mark.parametrize("lab_id", labs.ids())
def test_the_instruction_is_the_same_in_all_phases_and_names_no_lab(
    lab_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "words", WORDS)
    told = {Case(lab=lab_id, phase=phase, number=3).instruction for phase in PHASES}
    assert len(told) == 1
    lab = labs.load(lab_id)
    said = told.pop().removeprefix(lab.ticket.rstrip())
    other = labs.load("mtu" if lab_id != "mtu" else "gzip")
    whole = Case(lab=other.id, phase="faulty", number=3).instruction
    rest = whole.removeprefix(other.ticket.rstrip())
    machines, others = (", ".join(x.services.needed(x.daemons)) for x in (lab, other))
    assert said.replace(machines, "-", 1) == rest.replace(others, "-", 1)


def test_what_is_scored_apart() -> None:
    found = Verdict(True, False, True, True, False, 7, 1.5)
    cost = {"commands": 7, "seconds": 1.5}
    faulty = Case(lab="mtu", phase="faulty", number=1)
    assert faulty.scores(found) == {"repaired": 1, "cause": 0, "component": 1, **cost}
    for quiet in (
        Case(lab="mtu", phase="fixed", number=1),
        Case(lab="busy", phase="faulty", number=1),
    ):
        assert quiet.scores(found) == {"false_alarm": 0, "unharmed": 1, **cost}


def test_steps_are_typed_where_they_work() -> None:
    heap, mtu = labs.load("heap-oom"), labs.load("mtu")
    assert cases.typed(mtu.fix[0]) == ("web", "ip link set dev eth0 mtu 1500")
    assert cases.typed(heap.fix[-1]) == ("host", "docker restart tomcat")
    assert cases.typed(labs.load("cpu-quota").fix[0])[1].startswith("docker update --cpus ")


# --- files ---


@pytest.mark.parametrize("size", [0, 1, MOST * 3 // 4, MOST * 3 // 4 + 1, 2_000_000])
def test_whole_files_in_both_directions(here: Here, tmp_path: Path, size: int) -> None:
    content = bytes(index % 251 for index in range(size))
    path = str(tmp_path / "a folder" / "it's")
    remote.write(here, "client", path, content)
    assert remote.read(here, "client", path, size) == content


def test_files_that_cannot_be_read(here: Here, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"12")
    with pytest.raises(FileNotFoundError, match="missing"):
        remote.read(here, "client", str(tmp_path / "missing"), 10)
    with pytest.raises(IsADirectoryError):
        remote.read(here, "client", str(tmp_path), 10)
    with pytest.raises(remote.TooLarge):
        remote.read(here, "client", str(tmp_path / "large"), 1)
    with pytest.raises(FileNotFoundError):
        remote.read(here, host.NAME, "/etc/passwd", 10)
    with pytest.raises(IsADirectoryError):
        remote.write(here, "client", str(tmp_path), b"")


# --- the programs on client ---


@pytest.fixture
def programs(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """`on` and `diagnose` in a folder of this machine, and a thread that answers them."""
    for name in ("_PROGRAM", "_SETUP", "_PIPE", "_FOLDER", "_ON"):
        text = getattr(harbor_requests, name)
        text = text.replace("/run/requests", f"{tmp_path}/requests")
        monkeypatch.setattr(harbor_requests, name, text.replace("/usr/local/bin", str(tmp_path)))
    requests = harbor_requests.Requests(here)
    yield tmp_path
    here.run = ended  # type: ignore[method-assign]
    (tmp_path / "requests/new").write_text("")
    requests.thread.join(5)
    assert requests.problem is not None


def ended(machine: str = "", command: str = "", timeout: float = 60) -> Output:
    raise CannotRun("The stack is gone.")


def call(*words: str | Path) -> tuple[int, str, str]:
    done = subprocess.run([*words], capture_output=True, text=True, check=False, timeout=10)
    return done.returncode, done.stdout, done.stderr


def test_another_machine_is_reached(programs: Path) -> None:
    command = "printf 'a\\nb'; echo \"it's\" >&2; exit 3"
    assert call(programs / "on", "client", command) == (3, "a\nb", "it's\n")
    assert call(programs / "on", "client", "echo", "two", "words")[1] == "two words\n"
    code, _, err = call(programs / "on", "mars", "id")
    assert (code, err) == (2, "There is no machine 'mars'; there are client.\n")
    assert not [*programs.glob("requests/[!n]*")], "requests are removed when they are answered"


def test_a_diagnosis_is_said(programs: Path) -> None:
    assert call(programs / "diagnose", "web", "network", "mtu") == (0, "web network mtu\n", "")
    assert call(programs / "diagnose", "web", "network", "wrong")[0] == 2
    assert call(programs / "diagnose", "web")[2].startswith("Use: on MACHINE")


def test_a_request_to_a_container_that_ended_has_a_response(here: Here, programs: Path) -> None:
    """The agent waited for it until its time limit, which is many minutes."""
    run = here.run

    def lost(machine: str, command: str, timeout: float = 60) -> Output:
        return ended() if command == "id" else run(machine, command, timeout)

    here.run = lost  # type: ignore[method-assign]
    assert call(programs / "on", "client", "id") == (125, "", "The stack is gone.\n")


def test_many_requests_at_once(here: Here, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent is root on client, so it can write any number of names into the pipe."""
    begun = threading.active_count()
    go_on = threading.Event()
    monkeypatch.setattr(remote, "read", lambda *_: go_on.wait(10) and b"")
    (programs / "requests/new").write_text("name\n" * 40)
    time.sleep(0.5)
    assert threading.active_count() - begun == 16
    go_on.set()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and sum("cat" in each for each in here.ran) < 2:
        time.sleep(0.05)  # until it reads the pipe again


# --- folders for Harbor ---


def test_a_folder_for_each_case(tmp_path: Path) -> None:
    written = harbor_tasks.write(tmp_path / "tasks", LABS, PHASES, 1)
    assert written.tasks == [f"case-{number:02}" for number in range(1, 10)]
    for case in cases.dealt(LABS, PHASES, 1):
        folder = tmp_path / "tasks" / case.name
        assert (folder / "tests/test.sh").stat().st_mode & 0o111
        told = (folder / "instruction.md").read_text()
        assert told.startswith(case.instruction)
        toml = (folder / "task.toml").read_text()
        assert f'name = "faultlab/{case.name}"' in toml and case.lab not in toml
        solution = (folder / "solution/solve.sh").read_text()
        fixes = solution.count("\non ")
        assert fixes == (len(labs.load(case.lab).fix) if case.faulty else 0)
        assert ("diagnose none none none" in solution) is not case.faulty
    with pytest.raises(BadInput, match="is not empty"):
        harbor_tasks.write(tmp_path / "tasks", LABS, PHASES, 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="is not a folder"):
        harbor_tasks.write(tmp_path / "file", LABS, PHASES, 1)


def test_a_sweep_of_cases_leaves_what_is_called_alike(engine: FakeEngine) -> None:
    """A class can be called case-study."""
    up = [stack_name(f"case-{name}") for name in ("01", "100", "10", "study-1-mtu")]
    engine.stacks_up = {name: FakeStack() for name in up}
    assert cases.sweep("case-10") == [stack_name("case-10")]
    assert cases.sweep() == up[:2] and [*engine.stacks_up] == up[3:]


def test_a_fault_that_an_agent_cannot_reach() -> None:
    with pytest.raises(CannotRun, match="repaired in the kernel"):
        Case(lab="conntrack", phase="faulty", number=1).begin()


@pytest.mark.parametrize("cpus", ["inf", "1e300", "nan"])
def test_a_limit_that_no_host_takes(cpus: str) -> None:
    with pytest.raises(ValueError, match="cpus"):
        Limit.model_validate({"cpus": cpus})


# --- the verbs ---


def test_what_is_missing_is_named(faultlab: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mcp", None)
    monkeypatch.delitem(__import__("sys").modules, "faultlab.agents.mcp_server", raising=False)
    result = faultlab("mcp", "mtu")
    assert result.code == 3 and "needs mcp, which is not installed" in result.err
    assert extra.installer("mcp") in result.err


def test_an_unknown_lab_is_refused_before_a_server_starts(faultlab: Run) -> None:
    assert faultlab("mcp", "nothing").code == 2
