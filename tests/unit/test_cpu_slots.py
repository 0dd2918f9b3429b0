"""CPU slots: equal parts of a machine, of which each stack has one. Topologies are faked."""

from __future__ import annotations

import json
import os
import select
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from faultlab.core import cpus, lock
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.naming import SLOT_LABEL, STACK_LABEL
from faultlab.engine import cpu_slots
from faultlab.engine.docker import compose, launch, subnet
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.fact import Facts
from faultlab.engine.kubernetes.engine import KubernetesEngine
from faultlab.engine.vm.engine import VmEngine
from faultlab.lab import loader as labs
from faultlab.lab.reading import Reading
from faultlab.report import history
from faultlab.run import preflight, surroundings
from faultlab.run.phase import HEALTHY, Phase
from faultlab.run.run import Run
from faultlab.score.alone import share_out
from tests.unit.conftest import Printing, said
from tests.unit.conftest import Run as Command
from tests.unit.fake import FakeEngine, only_fake


@pytest.mark.parametrize(
    ("text", "numbers"), [("", set()), ("0", {0}), ("0-2,5\n", {0, 1, 2, 5}), ("0,2", {0, 2})]
)
def test_a_list_of_the_kernel(text: str, numbers: set[int]) -> None:
    assert cpus.parse(text) == numbers and cpus.show(numbers) == text.strip()


def machine(
    folder: Path, cores: list[list[int]], nodes: Mapping[int, str] | None = None, online: str = ""
) -> Path:
    """A folder as /sys/devices/system. `cores`: the threads of each; `nodes`: their CPUs."""
    every = [cpu for core in cores for cpu in core]
    for core in cores:
        for cpu in core:
            its = folder / f"cpu/cpu{cpu}/topology"
            its.mkdir(parents=True)
            (its / "thread_siblings_list").write_text(f"{cpus.show(core)}\n")
    (folder / "cpu/online").write_text(f"{online or cpus.show(every)}\n")
    for number, text in (nodes or {}).items():
        (folder / f"node/node{number}").mkdir(parents=True)
        (folder / f"node/node{number}/cpulist").write_text(f"{text}\n")
    return folder


def single(count: int) -> list[list[int]]:
    return [[n] for n in range(count)]


def threads(count: int) -> list[list[int]]:
    """Cores of two threads, as most machines number them: 0 and 4 of eight are one core."""
    return [[n, n + count // 2] for n in range(count // 2)]


TWO_NODES = {0: "0-15,32-47", 1: "16-31,48-63"}
SLOTS = {
    "one CPU": (single(1), {}, 2, ["0"]),
    "two CPUs are one slot": (single(2), {}, 2, ["0-1"]),
    "two CPUs, a slot each": (single(2), {}, 1, ["0", "1"]),
    "two threads are one core": (threads(2), {}, 1, ["0-1"]),
    "one is left over": (single(3), {}, 2, ["0-1"]),
    "eight with threads": (threads(8), {}, 2, ["0,4", "1,5", "2,6", "3,7"]),
    "two cores a slot": (threads(8), {}, 4, ["0-1,4-5", "2-3,6-7"]),
    "whole cores": (threads(8), {}, 3, ["0-1,4-5", "2-3,6-7"]),
    "all of them": (threads(8), {}, 8, ["0-7"]),
    "a node is odd": (single(6), {0: "0-2", 1: "3-5"}, 2, ["0-1", "3-4"]),
    "a node is too small": (single(5), {0: "0", 1: "1-4"}, 2, ["1-2", "3-4"]),
    "no larger than a node": (single(4), {0: "0-1", 1: "2-3"}, 3, ["0-1", "2-3"]),
}


@pytest.mark.parametrize("name", SLOTS)
def test_a_machine_in_slots(tmp_path: Path, name: str) -> None:
    cores, nodes, size, wanted = SLOTS[name]
    sys = machine(tmp_path, cores, nodes)
    every = {cpu for core in cores for cpu in core}
    assert cpu_slots.divide(cpu_slots.cores(sys, every), size) == wanted


def test_sixty_four_on_two_nodes(tmp_path: Path) -> None:
    sys = machine(tmp_path, threads(64), TWO_NODES)
    slots = [cpus.parse(s) for s in cpu_slots.divide(cpu_slots.cores(sys, range(64)), 6)]
    assert len(slots) == 10 and all(len(slot) == 6 for slot in slots)
    assert len(frozenset().union(*slots)) == 60
    for slot in slots:
        assert {(n + 32) % 64 for n in slot} == slot, "a core is torn apart"
        assert sum(bool(slot & cpus.parse(node)) for node in TWO_NODES.values()) == 1


def test_what_is_offline_or_not_ours_does_not_count(tmp_path: Path) -> None:
    """A container has its own cpuset, and /sys shows it the whole machine."""
    sys = machine(tmp_path, threads(8), {0: "0-7"}, online="0-6")
    divided = [cpu_slots.divide(cpu_slots.cores(sys, its), 2) for its in (range(8), range(2, 7))]
    assert divided == [["0,4", "1,5", "2,6"], ["2,6", "3-4"]]


def test_without_sys_a_core_is_a_cpu(tmp_path: Path) -> None:
    assert cpu_slots.divide(cpu_slots.cores(tmp_path, range(4)), 2) == ["0-1", "2-3"]


def pretend(monkeypatch: pytest.MonkeyPatch, sys: Path, count: int) -> None:
    monkeypatch.setattr(cpu_slots, "_SYS", sys)
    monkeypatch.setattr(cpu_slots, "_USUAL", 2)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    monkeypatch.setattr(cpu_slots, "usable", lambda: frozenset(range(count)))


@pytest.mark.parametrize("text", ["0", "3", "two", "-1", "1.5", "²"])
def test_a_size_that_no_slot_can_have(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, machine(tmp_path / "sys", single(2)), 2)
    monkeypatch.setenv(cpu_slots.SIZE, text)
    with pytest.raises(BadInput) as problem:
        cpu_slots.of_machine()
    what = f"{cpu_slots.SIZE}: expected 1 to 2, the CPUs of this machine, got {text!r}."
    assert (problem.value.message, problem.value.hint) == (what, f"export {cpu_slots.SIZE}=2")


def test_the_command_line_says_so(
    faultlab: Command, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, machine(tmp_path / "sys", single(2)), 2)
    monkeypatch.setenv(cpu_slots.SIZE, "9")
    monkeypatch.setattr(engine, "slots", cpu_slots.of_machine)
    what = f"{cpu_slots.SIZE}: expected 1 to 2, the CPUs of this machine, got '9'."
    assert faultlab("doctor") == said(what, f"export {cpu_slots.SIZE}=2")


class Docker(LocalEngine):
    """Docker on a machine of so many CPUs, without a connection; `up`: the slots of stacks."""

    def __init__(self, count: int) -> None:
        self.up: dict[str, str] = {}
        self.bounds = SimpleNamespace(cpus=count)  # type: ignore[assignment]

    def slots_up(self) -> dict[str, str]:
        return dict(self.up)


@pytest.fixture
def eight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    pretend(monkeypatch, machine(tmp_path / "sys", single(8)), 8)
    return Docker(8)


def test_where_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One slot of all CPUs: no container is pinned, and Docker is not even asked."""
    pretend(monkeypatch, machine(tmp_path / "sys", single(2)), 2)
    engine = Docker(2)
    engine.bounds = None  # type: ignore[assignment]
    monkeypatch.setattr(engine, "slots_up", lambda: pytest.fail("Docker was asked"))
    with engine.slot("faultlab-mtu") as slot:
        assert slot == "" and engine.slots() == []
    assert not lock.folder_of_all().exists()


def test_a_docker_with_other_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of ours a smaller Docker has is unknown. In a larger one, ours are pinned."""
    pretend(monkeypatch, machine(tmp_path / "sys", single(8)), 4)
    assert Docker(2).slots() == []
    assert Docker(64).slots() == ["0-1", "2-3"]
    pretend(monkeypatch, tmp_path / "sys", 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)  # we are in a container with a cpuset
    assert Docker(64).slots() == ["0-1"]


def test_an_engine_whose_cpus_are_not_ours_has_no_slots() -> None:
    for kind in (VmEngine, KubernetesEngine):
        engine = kind.__new__(kind)
        assert engine.slots() == []


def test_the_slot_with_the_fewest_stacks(eight: Docker) -> None:
    for name in "abcdefghi":
        with eight.slot(name) as slot:
            eight.up[name] = slot
    assert [*eight.up.values()] == [*["0-1", "2-3", "4-5", "6-7"] * 2, "0-1"]
    del eight.up["c"]
    with eight.slot("j") as slot:
        assert slot == "4-5"


def test_a_stack_that_is_started_again_stays(eight: Docker) -> None:
    eight.up["a"] = "4-5"
    with eight.slot("a") as slot:
        assert slot == "4-5"


def test_slots_of_another_size_overlap(eight: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    eight.up |= {"a": "0-3", "b": "4"}
    with eight.slot("c") as slot:
        assert slot == "6-7"


def test_chosen_cpus_come_first(eight: Docker) -> None:
    """`score` chooses them. They are a slot only if all others can know it."""
    for chosen, wanted in (("2-3", "2-3"), ("0", "")):
        eight.cpus = chosen
        with eight.slot("a") as slot:
            assert slot == wanted


def test_a_stack_that_is_starting_counts_once(eight: Docker) -> None:
    with eight.slot("a") as first, eight.slot("b") as second:
        eight.up["a"] = first
        with eight.slot("c") as third:
            assert (first, second, third) == ("0-1", "2-3", "4-5")
    assert not [*lock.folder_of_all().glob("*.claim")]


CLAIM = """
import sys
from pathlib import Path
from faultlab.core import lock
from faultlab.engine import cpu_slots
lock._TOP = Path(sys.argv[1])
with cpu_slots.claim(sys.argv[2], ["0", "1", "2"], dict) as slot:
    print(slot, flush=True)
    sys.stdin.read()
"""
TURN = """
import sys
from pathlib import Path
from faultlab.core import lock
lock._TOP, lock._GIVES_WAY, lock._CLOSED = Path(sys.argv[1]), 0.1, 60
with lock.turn(alone=sys.argv[2] == "alone", slot=sys.argv[3]):
    print("mine", flush=True)
    sys.stdin.read()
"""


class Others:
    """Other processes on this machine."""

    def __init__(self, folder: Path, held: ExitStack) -> None:
        self.folder, self._held = folder, held

    def __call__(self, script: str, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", script, str(self.folder), *words]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = self._held.enter_context(subprocess.Popen(command, **pipes))
        self._held.callback(process.kill)
        return process


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Others]:
    with ExitStack() as held:
        yield Others(tmp_path, held)


def line(process: subprocess.Popen[str], seconds: float = 30) -> str:
    """Return what it printed; empty if it is still waiting."""
    assert process.stdout is not None
    ready = select.select([process.stdout], [], [], seconds)[0]
    return process.stdout.readline().strip() if ready else ""


def test_slots_that_are_taken_at_once_are_different(other: Others) -> None:
    some = [other(CLAIM, f"faultlab-{name}") for name in "abc"]
    assert sorted(map(line, some)) == ["0", "1", "2"]


def test_a_holder_that_is_killed_frees_its_slot(other: Others) -> None:
    first = other(CLAIM, "faultlab-a")
    assert line(first) == "0"
    second = other(CLAIM, "faultlab-b")
    assert line(second) == "1"
    first.kill()
    first.wait()
    left = lock.folder_of_all() / "faultlab-a=0.claim"
    assert left.exists()
    assert line(other(CLAIM, "faultlab-c")) == "0" and not left.exists()


def test_slots_have_their_loads_at_the_same_time(other: Others) -> None:
    first = other(TURN, "alone", "0-1")
    assert line(first) == "mine"
    assert line(other(TURN, "alone", "2-3")) == "mine"
    assert line(other(TURN, "share", "")) == "mine", "pytest starts beside a look"
    starts = other(TURN, "share", "0-1")
    assert not line(starts, 0.5), "a stack starts on the CPUs of a look"
    first.kill()
    assert line(starts) == "mine"


def test_a_slot_of_another_size_has_a_cpu_of_it(other: Others) -> None:
    first = other(TURN, "alone", "0-1")
    assert line(first) == "mine"
    overlap = other(TURN, "alone", "1")
    assert not line(overlap, 0.5)
    first.kill()
    assert line(overlap) == "mine"


@pytest.mark.parametrize("order", [("0-1", ""), ("", "0-1")])
def test_a_load_on_the_whole_machine_is_alone(other: Others, order: tuple[str, str]) -> None:
    first = other(TURN, "alone", order[0])
    assert line(first) == "mine"
    second = other(TURN, "alone", order[1])
    assert not line(second, 0.5)
    first.kill()
    assert line(second) == "mine"


def test_a_load_waits_until_a_start_on_its_slot_is_over(other: Others) -> None:
    starting = other(TURN, "share", "0-1")
    assert line(starting) == "mine"
    assert line(other(TURN, "share", "0-1")) == "mine"
    load = other(TURN, "alone", "0-1")
    assert not line(load, 0.5)


def test_every_user_can_lock_the_files_and_no_other_can_remove_them(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        with lock.turn(alone=True, slot="0"), lock.shared("slots.lock"):
            pass
    finally:
        os.umask(old)
    folder = lock.folder_of_all()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o644}


@pytest.mark.parametrize("how", ["closed", "file", "link", "linked lock"])
def test_a_folder_that_is_not_open_to_all_is_refused(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_TRIES", 2)
    folder, precious = lock.folder_of_all(), tmp_path / "precious"
    match how:
        case "closed":
            folder.mkdir(mode=0o700)
        case "file":
            folder.write_text("")
        case "link":
            precious.mkdir()
            folder.symlink_to(precious)
        case _:
            folder.mkdir()
            folder.chmod(0o1777)
            (folder / "slots.lock").symlink_to(precious)
    refused = pytest.raises(CannotRun, match=r"open to all users|cannot be made")
    with refused, lock.shared("slots.lock"):
        pass
    assert not precious.exists() or not [*precious.iterdir()]


def test_all_containers_of_a_stack_have_its_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load generator too. Without a slot, no file says anything of CPUs."""
    monkeypatch.setattr(compose, "up", lambda *_: None)
    monkeypatch.setattr(subnet, "host_routes", list)
    on: Any = SimpleNamespace(
        env={},
        errors=ExitStack,
        client=SimpleNamespace(networks=SimpleNamespace(list=list)),
    )
    for slot in ("0-1", ""):
        launch.launch(on, labs.load("somaxconn"), "faultlab-x", "r", tmp_path, slot=slot)
        parts = [yaml.safe_load(file.read_text())["services"] for file in tmp_path.glob("*.yaml")]
        made = [service for part in parts for service in part.values()]
        assert made and {service.get("cpuset", "") for service in made} == {slot}
        assert {service["labels"].get(SLOT_LABEL, "") for service in made} == {slot}


def test_the_slots_of_all_users_come_in_one_request() -> None:
    asked: list[Any] = []

    def containers(**how: Any) -> list[Any]:
        asked.append(how)
        label = {STACK_LABEL: "faultlab-a", SLOT_LABEL: "2-3"}
        return [{"Labels": label}, {"Labels": label}]

    engine = LocalEngine.__new__(LocalEngine)
    engine.client = SimpleNamespace(api=SimpleNamespace(containers=containers))  # type: ignore[assignment]
    assert engine.slots_up() == {"faultlab-a": "2-3"}
    assert asked == [{"all": True, "filters": {"label": SLOT_LABEL}}]


class Slotted(FakeEngine):
    """An engine on a machine with two slots of one CPU; `kept`: what was asked for."""

    def slots(self) -> list[str]:
        return ["0", "1"]

    def slot(self, stack: str) -> Any:
        return cpu_slots.claim(stack, self.slots(), dict)

    def launch(self, lab: Any, stack: str, run_id: str, folder: Path, slot: str = "") -> None:
        super().launch(lab, stack, run_id, folder)
        for its in self.stacks_up[stack].machines.values():
            its.slot = slot


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FAULTLAB_STATE", str(tmp_path))
    return Run.begin(Slotted(), labs.load("mtu"), "faultlab-mtu", collects=False)


def test_a_record_says_which_cpus(begun: Run) -> None:
    assert begun.record.facts["slot"] == "0" == begun.stack.slot
    begun.again()
    assert begun.stack.slot == "0"
    plain = Run.begin(FakeEngine(), labs.load("mtu"), "faultlab-mtu", collects=False)
    assert "slot" not in plain.record.facts


def test_a_look_takes_its_slot_and_not_the_machine(
    begun: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    had: list[tuple[bool, str]] = []
    turn = lock.turn

    def noting(alone: bool, patience: float = float("inf"), slot: str = "") -> Any:
        had.append((alone, slot))
        return turn(alone, patience, slot)

    monkeypatch.setattr(lock, "turn", noting)
    begun.measure(HEALTHY)
    begun.visit(HEALTHY)
    begun.inject()
    begun.down()
    assert {slot for _, slot in had} == {"0"}


def test_a_look_is_taken_from_inside_its_slot(begun: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own Python takes no time of other slots. After it, each thread is where it was."""
    here = cpu_slots.usable()
    some = str(min(here))
    monkeypatch.setattr(type(next(iter(begun.stack.values()))), "slot", some)
    for its in begun.stack.values():
        its.slot = some
    seen: list[set[int]] = []
    over = threading.Event()
    beside = threading.Thread(target=over.wait)
    beside.start()

    def taken(*_: Any, **__: Any) -> Reading[Any, Any]:
        seen.extend((os.sched_getaffinity(0), os.sched_getaffinity(beside.native_id or 0)))
        return Reading(None)

    monkeypatch.setattr(begun, "_taken", taken)
    try:
        with cpu_slots.inside(some):
            begun._look(Phase(HEALTHY))
        assert seen == [{int(some)}] * 2
        assert os.sched_getaffinity(beside.native_id or 0) == here == os.sched_getaffinity(0)
    finally:
        over.set()
        beside.join()


def test_status_and_doctor_say_which_cpus(
    begun: Run, faultlab: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = begun.engine
    assert isinstance(engine, Slotted)
    only_fake(monkeypatch, engine)
    said = " ".join(faultlab("status").out.split())
    assert "on the CPUs 0" in said
    (row,) = json.loads(faultlab("status", "--json").out)["stacks"]
    assert row["slot"] == "0"
    (fact,) = (fact for fact in preflight.ready(engine) if fact.name == "slots")
    assert fact.ok and fact.text == "2 for stacks, with the CPUs 0; 1"
    assert not [fact for fact in preflight.ready(FakeEngine()) if fact.name == "slots"]
    assert ", slot 0, " in history.where(begun.record.facts)


def test_a_tool_has_another_slot_than_the_stack() -> None:
    said: list[str] = []
    for slots, count, wanted in (
        (["0-1", "2-3", "4-5"], 6, ("0-1", "2-3")),
        (["0-1"], 3, ("0", "2")),
        ([], 2, ("0", "1")),
        ([], 1, ("", "")),
    ):
        engine = Docker(count)
        engine.slots = lambda slots=slots: slots  # type: ignore[method-assign, misc]
        engine.facts = lambda count=count: Facts("", "", "", "", count, 0)  # type: ignore[method-assign, misc]
        tools = share_out(engine, said.append)
        assert (engine.cpus, tools) == wanted
    assert len(said) == 1


def test_what_differs_of_machines() -> None:
    out = "cpus 2\nsomaxconn 4096\ntcp_mem\nnf_conntrack_max 262144\nopen_files 1048576\n"
    below = Facts("", "", "", "", 2, 0, tcp_mem="1 2 3")
    assert surroundings.read(Printing(out), below) == {
        "cpus": "2",
        "somaxconn": "4096",
        "nf_conntrack_max": "262144",
        "open_files": "1048576",
        "tcp_mem": "1 2 3",
    }


def test_the_surroundings_are_read_on_a_real_machine() -> None:
    done = subprocess.run(
        ["sh", "-c", surroundings._READ], capture_output=True, text=True, check=True
    )
    found = surroundings.parse(done.stdout)
    assert int(found["cpus"]) == len(os.sched_getaffinity(0)) and int(found["somaxconn"]) > 0
    assert {"open_files", "processes"} <= found.keys()


def test_a_record_has_its_surroundings(begun: Run) -> None:
    assert begun.record.facts["surroundings"] == {}, "a fake machine tells nothing"
