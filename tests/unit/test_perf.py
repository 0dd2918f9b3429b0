"""perf: what its parsers make of recordings, and what a picture says of itself."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from faultlab.cli.main import main
from faultlab.core import archive
from faultlab.core.errors import CannotRun
from faultlab.observe import flame, profiler
from faultlab.observe.profiler import Recording
from faultlab.probes import perf
from faultlab.probes.perf import Share, Stacks
from tests.unit.conftest import Printing

RECORDED = Path(__file__).parents[1] / "recorded/perf"


def recorded(name: str, mode: perf.Mode = "on") -> Stacks:
    return perf.parse(
        (RECORDED / f"{name}.txt").read_text(), lambda _pid, comm: f"web;{comm}", mode
    )


def made(counts: dict[str, int], lost: int = 0, mode: perf.Mode = "on") -> Recording:
    return Recording(Stacks(counts, lost), mode, 3.0, ("web",), ("client",), 2, 1)


def test_samples_by_stack() -> None:
    got = recorded("on")
    assert (got.total, got.lost, len(got.counts)) == (6, 0, 6)
    assert all(
        stack.startswith("web;nginx;_start;__libc_start_main;[libc.so.6];main;")
        for stack in got.counts
    )
    assert got.share("__inet_hash_connect") == pytest.approx(2 / 6)
    assert got.own_share("__inet_hash_connect") == pytest.approx(1 / 6)
    assert got.share("nginx") == got.kernel_share == 1
    assert got.share("no such function") == got.nameless_share == 0
    assert got.functions()[0] == Share("__inet_hash_connect_[k]", total=2, own=1)


def test_folded_lines_are_what_flame_graph_tools_read() -> None:
    lines = recorded("on").folded().splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("web;nginx;_start;") and lines[0].endswith(";__fput_[k] 1")
    assert recorded("on").folded() == recorded("on").folded()


def test_waits_last_until_the_thread_is_back() -> None:
    """Time without a processor is told from time spent waiting for something else."""
    got = recorded("off", "off")
    by_top = {stack.rsplit(";", 1)[1]: 0 for stack in got.counts}
    for stack, microseconds in got.counts.items():
        by_top[stack.rsplit(";", 1)[1]] += microseconds
    assert by_top == {"do_epoll_wait_[k]": 4164, perf.PREEMPTED: 11464}


def test_an_idle_processor_is_not_in_it() -> None:
    """In the VM all processors are recorded, also while they do nothing: five samples of ten."""
    text = (RECORDED / "vm-on.txt").read_text()
    assert text.count("swapper") == 5
    got = recorded("vm-on")
    assert got.total == 5 and "swapper" not in got.folded()


def test_waits_on_all_processors_of_the_vm() -> None:
    """The lines of switches name the other thread too; that one is not meant."""
    text = (RECORDED / "vm-off.txt").read_text()
    got = perf.parse(text, lambda _pid, comm: comm if comm == "nginx" else None, "off")
    tops = {stack.rsplit(";", 1)[1]: count for stack, count in got.counts.items()}
    assert tops == {perf.PREEMPTED: 252, "do_epoll_wait_[k]": 739}


def test_a_wait_that_is_not_over_counts_for_nothing() -> None:
    assert "php-fpm" not in recorded("off", "off").folded()


def test_where_records_were_lost_no_wait_is_guessed() -> None:
    text = (RECORDED / "off.txt").read_text()
    cut = text.replace(
        "nginx    19/19    24701.621800: PERF_RECORD_SWITCH IN",
        "nginx    19/19    24701.621800: PERF_RECORD_LOST lost 17",
    )
    assert cut != text
    whole = perf.parse(text, lambda _pid, comm: comm, "off")
    got = perf.parse(cut, lambda _pid, comm: comm, "off")
    assert (got.lost, whole.lost) == (17, 0)
    assert got.total == whole.total - 1339


@pytest.mark.parametrize(
    ("line", "frames"),
    [
        ("\tffffffff8220176b _raw_spin_lock ([kernel.kallsyms])", ["_raw_spin_lock_[k]"]),
        ("\tffffffffc05c16f0 netem_enqueue ([sch_netem])", ["netem_enqueue_[k]"]),
        ("\tffffffff8220176b [unknown] ([kernel.kallsyms])", ["[kernel]_[k]"]),
        ("\t           5432a [unknown] (/usr/sbin/nginx)", ["[nginx]"]),
        ("\t    7f0000001234 [unknown] (/tmp/perf-123.map)", ["[compiled]"]),
        ("\t 7f0000001234 operator new(unsigned long) (/x)", ["operator new(unsigned long)"]),
        ("\tffffffffffffffff [unknown] ([unknown])", []),
        ("\t    563875328968 [unknown] ([unknown])", []),
        ("\tgarbage", []),
    ],
)
def test_a_frame_has_a_name_or_that_of_its_file(line: str, frames: list[str]) -> None:
    assert perf._frame(line) == frames


def test_nothing_recorded() -> None:
    got = perf.parse("", lambda _pid, comm: comm, "on")
    assert (got.total, got.share("main"), got.functions(), got.folded()) == (0, 0, [], "")


def test_a_recording_that_had_to_end_early() -> None:
    got = perf.parse(f"perf 0/0 0.0: {perf._FULL}\n", lambda _pid, comm: comm, "on")
    assert got.full and not got.total
    recording = Recording(got, "on", 3.0, ("web",), ("client",), 2, 1)
    assert any("the end" in line for line in flame.missing(recording, local=True))


def test_whose_a_sample_is() -> None:
    """Of a machine, of the kernel, or of neither: Docker and the load."""
    processes = (
        "1 0 10 init\n2 0 10 kthreadd\n15 2 10 ksoftirqd/0\n300 1 10 dockerd\n"
        "400 399 20 docker-init\n401 400 20 nginx\n402 400 20 collector\n500 499 30 my wrk\n"
    )
    root = profiler.owners(processes, {"400": "web"}, "on")
    assert root(400, "docker-init") == "web;docker-init"
    assert root(401, "nginx") == "web;nginx"
    assert root(15, "ksoftirqd/0") == "kernel;ksoftirqd/0"
    assert root(0, "swapper") == "kernel;swapper"
    assert root(300, "dockerd") is root(500, "wrk") is root(402, "collector") is None
    assert root(9999, "gone") is None
    off = profiler.owners(processes, {"400": "web"}, "off")
    assert (off(401, "nginx"), off(15, "ksoftirqd/0")) == ("web;nginx", None)


def test_perf_says_no() -> None:
    said = "Error:\nAccess to performance monitoring is limited.\nConsider adjusting …\n"
    with pytest.raises(CannotRun, match="Access to performance monitoring is limited") as caught:
        perf.start(Printing("", 1, said), "-a", "on", 1, 99)
    assert "perf_event_paranoid" in caught.value.hint


@pytest.mark.parametrize("seconds", ["0", "-1", "61", "1000000", "many"])
def test_seconds_that_make_no_sense(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flame", "port-range", "--seconds", seconds]) == 2
    said = capsys.readouterr().err
    assert "seconds" in said and "next:" in said


def test_a_lab_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flame", "no-such-lab"]) == 2
    assert "no-such-lab" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("recording", "said"),
    [
        (made({"web;nginx;main": 9}), "the kernel: kernel.perf_event_paranoid=2"),
        (made({"web;nginx;[kernel]_[k]": 9}), "names in the kernel: kernel.kptr_restrict=1"),
        (made({"web;nginx;[nginx]": 1, "web;nginx;main": 3}), "in [brackets]: 25% of the time"),
        (made({"web;nginx;vfs_read_[k]": 1}), "after faultlab start --engine vm"),
        (made({"web;nginx;vfs_read_[k]": 1}, mode="off"), "kernel threads, which wait"),
        (made({"app;java;[compiled]": 1}), "compiled at run time: 100% of the time"),
        (made({"web;nginx;main": 1}, lost=5), "5 records that perf could not write in time"),
    ],
)
def test_what_is_missing_is_said_with_the_reason(recording: Recording, said: str) -> None:
    assert any(said in line for line in flame.missing(recording, local=True))


def test_a_whole_picture_says_only_what_never_is_in_it() -> None:
    recording = made({"web;nginx;main;vfs_read_[k]": 9})
    assert flame.missing(recording, local=False) == ["client, for the load"]


def test_colours_tell_kernel_from_user_and_from_code_without_a_name() -> None:
    colours = dict(
        line.split("->")
        for line in flame._palette(Stacks({"main;[nginx];read_[k]": 1}, 0)).splitlines()
    )
    assert set(colours) == {"main", "[nginx]", "read_[k]"}
    assert len(set(colours.values())) == 3


def test_files_reach_a_container_as_a_tar() -> None:
    with tarfile.open(fileobj=BytesIO(archive.packed({"a": b"1\n", "b": "é".encode()}))) as tar:
        assert tar.getnames() == ["a", "b"]
        member = tar.extractfile("b")
        assert member is not None and member.read().decode() == "é"
