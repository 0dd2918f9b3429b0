"""CPU interference: what others took of the CPUs during a look, read from /proc."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faultlab.core.errors import CannotRun
from faultlab.engine.kubernetes.engine import KubernetesEngine
from faultlab.engine.kubernetes.node_pod import NodePod
from faultlab.engine.measure import cpu_interference, node_observer, procfs
from faultlab.engine.measure.cpu_interference import CpuInterference, Moment, Observer, Process
from faultlab.lab import checks
from faultlab.lab import loader as labs

# Of a virtual machine with two processors that had run for seven hours.
STAT = """\
cpu  1579625 37216 769675 2770511 62398 0 229210 101845 0 0
cpu0 790108 18602 384203 1386032 31117 0 114599 50902 0 0
ctxt 1002003
"""
TICK = 1 / os.sysconf("SC_CLK_TCK")
CPUS = os.cpu_count() or 1


def test_the_first_line_counts() -> None:
    assert cpu_interference.parse_stat(STAT) == (2_717_571, 2_832_909, 101_845)


def test_a_name_can_hold_spaces_and_brackets() -> None:
    stat = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 99 0 0"
    process = cpu_interference.parse_process(stat, "0::/x\n")
    assert process is not None
    assert (process.name, process.parent, process.cgroup) == ("a) b (c", 7, "0::/x\n")
    assert process.seconds == pytest.approx(127 * TICK)


def test_kernel_threads_do_not_count() -> None:
    stat = "12 (ksoftirqd/0) S 2 0 0 0 -1 69238848 0 0 0 0 0 77 0 0 20 0 1 0 1 0 0"
    assert cpu_interference.parse_process(stat, "0::/\n") is None


def moment(seconds: float, others: dict[int, Process], stolen: float = 0) -> Moment:
    """So many seconds after the boot of this machine."""
    ticks = 100 + round(seconds * CPUS / TICK)
    return Moment(ticks, round(stolen / TICK), others, cpus=CPUS)


def program(name: str, seconds: float, parent: int = 1) -> Process:
    return Process(name, parent, "0::/\n", seconds)


def test_others_are_a_share_of_all_cpus() -> None:
    before = moment(0, {5: program("stress", 100)})
    now = moment(2, {5: program("stress", 102), 6: program("cc1", 1)}, stolen=0.02 * CPUS)
    seen = cpu_interference.between(before, now)
    assert seen.others == pytest.approx(1.5 / CPUS)
    assert seen.stolen == pytest.approx(0.01)
    assert seen.busiest == "stress 1.0 CPUs, cc1 0.5 CPUs"


def test_what_a_child_used_before_is_not_its_parents_now() -> None:
    """The kernel adds the whole life of a child that has ended to its parent."""
    before = moment(0, {5: program("make", 1), 6: program("cc1", 600, parent=5)})
    now = moment(2, {5: program("make", 602)})
    assert cpu_interference.between(before, now).others == pytest.approx(0.5 / CPUS)


def test_what_a_grandchild_used_before_is_not_its_grandparents_now() -> None:
    others = {5: program("init", 1), 6: program("sh", 1, parent=5), 7: program("cc", 60, parent=6)}
    now = moment(1, {5: program("init", 62.5)})
    assert cpu_interference.between(moment(0, others), now).others == pytest.approx(0.5 / CPUS)


def test_what_a_container_used_is_not_inits_when_it_is_removed() -> None:
    """Its shim has its time, and is a child of init, as everything on a host is in the end."""
    shim = program("containerd-shim", 90)
    before = moment(0, {1: program("init", 5, parent=0), 8: shim})
    now = moment(1, {1: program("init", 95.5, parent=0)})
    assert cpu_interference.between(before, now).others == pytest.approx(0.5 / CPUS)


def test_a_number_that_is_used_again_is_another_process() -> None:
    before = moment(0, {5: program("old", 50)})
    now = moment(1, {5: program("new", 0.5)})
    assert cpu_interference.between(before, now).others == pytest.approx(0.5 / CPUS)


@pytest.mark.parametrize(
    ("stolen", "others", "words"),
    [
        (0.03, 0.2, ""),
        (0.0, 0.5, "other programs used 50% of the CPU time (stress 1.0 CPUs)"),
        (0.05, 0.0, "the hypervisor gave 5% of the CPU time to other machines"),
    ],
)
def test_it_says_who_took_too_much(stolen: float, others: float, words: str) -> None:
    assert CpuInterference(stolen, others, "stress 1.0 CPUs").words == words


class Proc:
    """A folder like /proc."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock(1000)
        self.process(os.getpid(), "python", parent=1, ticks=0)

    def clock(self, ticks: int, cpus: int = CPUS) -> None:
        lines = [f"cpu  {ticks} 0 0 0 0 0 0 0 0 0", *(f"cpu{n} 1 0 0" for n in range(cpus))]
        (self.folder / "stat").write_text("\n".join([*lines, "ctxt 1002003", ""]))

    def process(
        self,
        pid: int,
        name: str,
        *,
        parent: int = 1,
        ticks: int,
        cgroup: str = "",
        line: str = "",
        pids: str = "",
        cpus: str = "0",
    ) -> None:
        folder = self.folder / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
        stat = f"{pid} ({name}) S {parent} 0 0 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 1"
        (folder / "stat").write_text(stat)
        (folder / "cgroup").write_text(f"0::/{cgroup}\n")
        (folder / "cmdline").write_bytes(line.encode())
        (folder / "status").write_text(
            f"Name:\t{name}\nNSpid:\t{pids or pid}\nCpus_allowed_list:\t{cpus}\n"
        )
        (folder / "task" / str(pid) / "schedstat").write_text(f"9 {ticks * 10_000_000} 3\n")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_the_stack_docker_and_this_command_are_not_others(proc: Proc) -> None:
    observer = Observer(["c0ffee"], proc=proc.folder)
    proc.process(10, "nginx", ticks=0, cgroup="docker/c0ffee")
    proc.process(11, "mysqld", ticks=0, cgroup="docker/another")
    proc.process(12, "containerd-shim", ticks=0)
    proc.process(13, "ssh", parent=os.getpid(), ticks=0)
    before = observer.read()
    assert {p.name for pid, p in before.processes.items() if pid not in before.ours} == {"mysqld"}
    assert before.delay == 0 and before.pressure is None
    proc.clock(1100)
    proc.process(10, "nginx", ticks=50, cgroup="docker/c0ffee")
    proc.process(11, "mysqld", ticks=30, cgroup="docker/another")
    seen = observer.since(before)
    assert seen.others == pytest.approx(0.3)
    assert seen.delay == pytest.approx(0.5 * CPUS)


def test_a_program_in_a_container_is_not_docker_by_its_name(proc: Proc) -> None:
    """A learner can call a busy loop `dockerd`. The checks of the neighbours must notice it."""
    observer = Observer(["c0ffee"], proc=proc.folder)
    proc.process(10, "nginx", ticks=0, cgroup="docker/c0ffee", pids="10\t1")
    proc.process(11, "dockerd", ticks=0, cgroup="docker/another", pids="11\t7")
    before = observer.read()
    proc.clock(1100)
    proc.process(11, "dockerd", ticks=50, cgroup="docker/another", pids="11\t7")
    assert observer.since(before).others == pytest.approx(0.5)


def test_in_the_vm_qemu_is_the_stack(proc: Proc) -> None:
    observer = Observer(guest="faultlab", proc=proc.folder)
    proc.process(10, "qemu-system-x86", ticks=0, line="qemu\0-name\0guest=faultlab,debug=on\0")
    proc.process(11, "qemu-system-x86", ticks=0, line="qemu\0-name\0guest=faultlab2,debug=on\0")
    now = observer.read()
    assert list(now.processes.keys() - now.ours) == [11]


class Slotted:
    """A machine of four CPUs, whose CPUs 2 and 3 are the slot of a stack."""

    def __init__(self, proc: Proc) -> None:
        self.proc = proc
        self.observer = Observer(["c0ffee"], proc=proc.folder, cpus=frozenset({2, 3}))
        self.ran(0, 0)
        proc.process(os.getpid(), "python", parent=1, ticks=0, cpus="2-3")
        proc.process(10, "nginx", parent=12, ticks=0, cgroup="docker/c0ffee", cpus="2-3")
        proc.process(12, "containerd-shim", ticks=0, cpus="0-3")
        self.before = self.observer.read()

    def ran(self, here: int, elsewhere: int, *, softirq: int = 0, irq: int = 0) -> None:
        """Let programs run for so many of 100 ticks on each CPU of the slot, and on the others.

        The hypervisor takes 50 of the ticks of the others.
        """
        after = bool(here or elsewhere)
        ours = f"{1000 + here} 0 0 {1000 + 100 * after - here - softirq - irq} 0 {irq} {softirq} 0"
        other = f"{1000 + elsewhere} 0 0 {1000 + 50 * after - elsewhere} 0 0 0 {50 * after}"
        every = [f"cpu{n} {other if n < 2 else ours} 0 0" for n in range(4)]
        text = "\n".join(["cpu  9 9 9 9 9 9 9 9 9 9", *every, "ctxt 1"])
        (self.proc.folder / "stat").write_text(text)

    def seen(self) -> CpuInterference:
        return self.observer.since(self.before)


@pytest.fixture
def slotted(proc: Proc) -> Slotted:
    return Slotted(proc)


def test_a_slot_does_not_feel_what_may_not_run_there(slotted: Slotted) -> None:
    """Such as the stacks of other slots. Nor what the hypervisor took of other CPUs."""
    slotted.proc.process(20, "stress", ticks=100, cpus="0-1")
    slotted.ran(90, 50)
    assert (slotted.seen().others, slotted.seen().stolen) == (0, 0)


def test_a_program_on_any_cpu_took_what_the_slot_did_not_use_itself(slotted: Slotted) -> None:
    """The CPUs of the slot ran for 180 ticks: 100 are of the stack, 30 of this command."""
    slotted.proc.process(20, "stress", ticks=160, cpus="0-3")
    slotted.proc.process(10, "nginx", parent=12, ticks=100, cgroup="docker/c0ffee", cpus="2-3")
    slotted.proc.process(os.getpid(), "python", parent=1, ticks=30, cpus="2-3")
    slotted.ran(90, 50)
    seen = slotted.seen()
    assert seen.others == pytest.approx(0.25)
    assert seen.words == "other programs used 25% of the CPU time (stress 0.5 CPUs)"


def test_a_busy_program_of_a_slot_that_is_idle_was_elsewhere(slotted: Slotted) -> None:
    slotted.proc.process(20, "stress", ticks=100, cpus="0-3")
    slotted.ran(0, 50)
    assert slotted.seen().others == 0


def test_a_program_that_used_little_took_no_more(slotted: Slotted) -> None:
    slotted.proc.process(20, "cron", ticks=10, cpus="0-3")
    slotted.ran(90, 0)
    assert slotted.seen().others == pytest.approx(0.05)


def test_what_was_run_in_a_container_and_has_ended_is_the_stacks(slotted: Slotted) -> None:
    """A load that `docker exec` starts is a child of the shim, which then has its time."""
    slotted.proc.process(20, "stress", ticks=200, cpus="0-3")
    slotted.proc.process(12, "containerd-shim", ticks=140, cpus="0-3")
    slotted.ran(80, 50)
    assert slotted.seen().others == pytest.approx(0.1)


@pytest.mark.parametrize(("irq", "others"), [(0, 0.2), (5, 0.0)])
def test_interrupts_are_of_a_program_where_the_kernel_says_so(
    slotted: Slotted, irq: int, others: float
) -> None:
    slotted.proc.process(20, "stress", ticks=200, cpus="0-3")
    slotted.proc.process(12, "containerd-shim", ticks=100, cpus="0-3")
    slotted.ran(50, 50, softirq=20, irq=irq)
    assert slotted.seen().others == pytest.approx(others)


def test_of_cpus_that_are_offline_nothing_is_known(slotted: Slotted) -> None:
    slotted.observer = replace(slotted.observer, cpus=frozenset({8}))
    slotted.before = slotted.observer.read()
    slotted.ran(90, 90)
    assert slotted.seen() == CpuInterference(0.0, 0.0)


@pytest.mark.parametrize("observer", [Observer(["c0ffee"]), Observer(guest="nobody")])
def test_of_a_stack_on_another_machine_nothing_is_known(observer: Observer) -> None:
    before = observer.read()
    assert observer.since(before) == CpuInterference(0.0, 0.0)


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    observer = Observer(proc=tmp_path / "none")
    assert observer.since(observer.read()) == CpuInterference(0.0, 0.0)


UID = "0badcafe-9f4c-4d3e-8a44-0123456789ab"
NODE_POD = "a9e27000-5d1b-4c2a-9f00-ba9876543210"
POD = f"kubepods/besteffort/pod{UID}"
SLICE = f"kubepods.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice"


def script_on(folder: Path, script: str) -> str:
    """Run a script of the node on another /proc; entering the node's namespace needs root."""
    script = script.replace('"/proc"', f'"{folder}"').replace("nsenter -t 1 -C ", "")
    command = ["sh", "-ec", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def cluster(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> KubernetesEngine:
    """A cluster with a machine and the node pod, on a node with this /proc."""
    engine = KubernetesEngine.__new__(KubernetesEngine)
    pods = [SimpleNamespace(metadata=SimpleNamespace(uid=uid)) for uid in (UID, NODE_POD)]
    engine.cluster = SimpleNamespace(pods=lambda _stack: pods)  # type: ignore[assignment]
    engine.node_pod = NodePod(engine.cluster)
    printed = partial(script_on, proc.folder)
    monkeypatch.setattr(engine.node_pod, "run", lambda _stack, script: printed(script))
    return engine


def others(moment: Moment) -> set[str]:
    return {p.name for pid, p in moment.processes.items() if pid not in moment.ours}


def test_another_program_on_the_node_is_seen(proc: Proc, cluster: KubernetesEngine) -> None:
    """Its share is that of the node's CPUs, however many this machine has."""
    proc.clock(1000, cpus=4)
    proc.process(10, "nginx", ticks=0, cgroup=f"{SLICE}/cri-containerd-c0ffee.scope")
    proc.process(11, "stress", ticks=0, cgroup="user.slice")
    observer = cluster.observer("faultlab-mtu")
    before = observer.read()
    proc.clock(1400, cpus=4)
    proc.process(10, "nginx", ticks=50, cgroup=f"{SLICE}/cri-containerd-c0ffee.scope")
    proc.process(11, "stress", ticks=200, cgroup="user.slice")
    seen = observer.since(before)
    assert seen.words == "other programs used 50% of the CPU time (stress 2.0 CPUs)"
    assert seen.delay == pytest.approx(0.5)


def test_on_a_node_our_own_are_known_by_their_cgroups(
    proc: Proc, cluster: KubernetesEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our number is another program's there, and a program in a pod can have any name."""
    monkeypatch.setenv("FAULTLAB_POD_UID", "7777aaaa-1111-4222-8333-444455556666")
    proc.process(os.getpid(), "etcd", ticks=0)
    proc.process(10, "nginx", ticks=0, cgroup=f"{POD}/c0ffee", pids="10\t7")
    proc.process(11, "perl", ticks=0, cgroup=f"kubepods/besteffort/pod{NODE_POD}/beef")
    for pid, name in enumerate(("kubelet", "containerd-shim", "crio", "conmon"), 20):
        proc.process(pid, name, ticks=0, cgroup="system.slice/kubelet.service")
    proc.process(30, "faultlab", ticks=0, cgroup="kubepods/pod7777aaaa-1111-4222-8333-444455556666")
    proc.process(31, "python3", ticks=0, cgroup="x-pod7777aaaa_1111_4222_8333_444455556666.slice")
    proc.process(40, "kubelet", ticks=0, cgroup="kubepods/podffff/123", pids="40\t1")
    now = cluster.observer("faultlab-mtu").read()
    assert list(now.processes.keys() - now.ours - {40}) == [os.getpid()]
    assert others(now) == {"etcd", "kubelet"}
    monkeypatch.delenv("FAULTLAB_POD_UID")
    assert others(cluster.observer("faultlab-mtu").read()) > {"faultlab", "python3"}


def test_a_node_is_read_like_this_machine(proc: Proc) -> None:
    proc.process(10, "nginx", ticks=7, cgroup=POD, pids="10\t7")
    proc.process(11, "a) \n(b c", ticks=30, cgroup="user.slice")
    proc.process(12, "containerd", ticks=0)
    proc.process(13, "dockerd", ticks=0, cgroup="another", pids="13\t7")
    (proc.folder / "14").mkdir()  # it has ended
    (proc.folder / "pressure").mkdir()
    (proc.folder / "pressure" / "cpu").write_text("some avg10=0.00 total=1500000\n")
    here = Observer([UID], proc=proc.folder).read()
    assert here.pressure == 1.5 and here.delay == pytest.approx(0.07) and here.cpus == CPUS
    printed = script_on(proc.folder, procfs.counters([UID]))
    there = Observer([UID], node=lambda: procfs.unpack(printed)).read()
    assert there == replace(here, ours=here.ours - {os.getpid()})


def test_the_script_of_the_node_reads_a_real_machine() -> None:
    now = Observer(node=lambda: procfs.unpack(script_on(Path("/proc"), procfs.counters([])))).read()
    assert now.ticks > 0 and now.cpus == CPUS and now.processes[os.getpid()].seconds > 0


def test_a_node_that_is_this_machine_is_read_here(
    proc: Proc, cluster: KubernetesEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_observer, "Observer", partial(Observer, proc=proc.folder))
    monkeypatch.setattr(cluster.node_pod, "run", lambda *_: pytest.fail("the node pod was asked"))
    proc.process(10, "nginx", ticks=0, cgroup=POD)
    proc.process(11, "kubelet", ticks=0)
    proc.process(12, "stress", ticks=0)
    now = cluster.observer("faultlab-mtu").read()
    assert others(now) == {"stress"} and os.getpid() in now.ours


def test_of_a_node_that_cannot_be_read_nothing_is_known(
    proc: Proc, cluster: KubernetesEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.process(10, "nginx", ticks=0, cgroup=POD)
    observer = cluster.observer("faultlab-mtu")
    before = observer.read()

    def gone(*_: Any) -> str:
        raise CannotRun("node-pod is not running any more.", "faultlab status")

    monkeypatch.setattr(cluster.node_pod, "run", gone)
    assert before.ticks and observer.since(before) == CpuInterference(0.0, 0.0)
    assert cluster.observer("faultlab-mtu").read() == Moment(0, 0, {})


def test_it_waits_until_the_node_is_calm(
    proc: Proc, cluster: KubernetesEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        proc.clock(1000 + 100 * len(slept))
        proc.process(11, "stress", ticks=min(100 * len(slept), 300))

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    proc.process(10, "nginx", ticks=0, cgroup=POD)
    proc.process(11, "stress", ticks=0)
    cluster.observer("faultlab-mtu").wait_for_calm(9)
    assert sum(slept) == 4


def test_a_program_that_burns_is_found() -> None:
    """On this very machine: what it has started with a parent that is gone is not ours."""
    burn = "import time; end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    command = ["sh", "-c", '"$0" -c "$1" >/dev/null 2>&1 & echo $!', sys.executable, burn]
    pid = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    try:
        before = Observer().read()
        time.sleep(0.5)
        now = Observer().read()
        assert pid not in now.ours
        assert now.processes[pid].seconds > before.processes[pid].seconds
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("lab_id", labs.ids())
def test_a_look_that_counts_was_slowed_down_too_little_to_cross_a_gap(lab_id: str) -> None:
    for measure in checks.load(labs.load(lab_id)).symptom:
        if measure.relative and measure.bad is not None:
            assert measure.gap >= 1 / (1 - cpu_interference.MOST_OTHERS), measure.name


def calm_after(*shares: float) -> Iterator[CpuInterference]:
    """Return what is seen second by second; the last share stays for good."""
    return (
        CpuInterference(0.0, share, "stress")
        for share in itertools.chain(shares, itertools.repeat(shares[-1]))
    )


@pytest.mark.parametrize(
    ("shares", "seconds"), [((0.0,), 1), ((0.2,), 1), ((0.9, 0.5, 0.01), 3), ((0.9,), 5)]
)
def test_it_waits_until_the_machine_is_calm(
    shares: tuple[float, ...], seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    seen = calm_after(*shares)

    class Seeing(Observer):
        def since(self, before: Moment) -> CpuInterference:
            return next(seen)

    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    Seeing().wait_for_calm(5)
    assert sum(slept) == seconds


def test_without_patience_it_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it slept"))
    Observer().wait_for_calm(-1)
