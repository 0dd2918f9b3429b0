"""VM: what libvirt says of it, by a stub in place of virsh; no VM is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import pytest

from faultlab.core import lock
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.shell import Done
from faultlab.engine.vm import boot, libvirt, ssh
from faultlab.engine.vm.engine import VmEngine

Virsh = Callable[[str], None]


@pytest.fixture
def virsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Virsh:
    """Puts a virsh of these lines first in the PATH, in a project that has a box."""
    monkeypatch.setenv("FAULTLAB_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / ".vm").mkdir()

    def put(lines: str) -> None:
        file = tmp_path / "virsh"
        file.write_text(f"#!/bin/sh\n{lines}\n")
        file.chmod(0o755)

    return put


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("running", "running"),
        ("paused", "paused"),
        ("shut off", "off"),
        ("crashed", "off"),
        ("pmsuspended", "off"),
    ],
)
def test_state(virsh: Virsh, said: str, state: str) -> None:
    virsh(f"echo '{said}'; echo")
    assert libvirt.state() == state


def test_without_a_domain_or_a_box_there_is_none(virsh: Virsh, tmp_path: Path) -> None:
    virsh("echo 'error: failed to get domain' >&2; exit 1")
    assert libvirt.state() == "absent"
    virsh("echo running")
    (tmp_path / ".vm").rmdir()
    assert libvirt.state() == "absent"


def test_a_vm_whose_folder_was_removed_by_hand(
    virsh: Virsh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed all the same, and no lab is started in it."""
    virsh(f'[ "$3" = desc ] && echo "Source: {tmp_path}/Vagrantfile" || echo running')
    (tmp_path / ".vm").rmdir()
    removed: list[str] = []
    monkeypatch.setattr(boot, "_destroy", lambda _note: removed.append(libvirt.name()))
    boot.down(Terminal())
    assert removed == [libvirt.name()]
    assert VmEngine.absent() == "the lab VM is absent"


def test_a_vm_of_another_checkout_is_not_asked(virsh: Virsh, tmp_path: Path) -> None:
    """Its key is in the other folder, so from here it would seem to be silent."""
    other = tmp_path / "other"
    other.mkdir()
    virsh(f'[ "$3" = desc ] && echo "Source: {other}/Vagrantfile" || echo running')
    assert VmEngine.absent() == ""  # the other folder was removed by hand
    (other / "Vagrantfile").touch()
    assert VmEngine.absent() == f"the lab VM belongs to {other}"


def test_libvirt_that_is_silent_is_no_vm_that_is_gone(virsh: Virsh) -> None:
    virsh("echo 'error: failed to connect to the hypervisor' >&2; exit 1")
    with pytest.raises(CannotRun, match="does not say if there is a VM: error: failed to connect"):
        boot.down(Terminal())


def test_a_silent_libvirt_hides_no_stack(virsh: Virsh) -> None:
    """`status` and `sweep` do not say that nothing is there."""
    virsh("echo 'error: failed to connect to the hypervisor' >&2; exit 1")
    VmEngine.require_reachable()  # this user has no stack in the VM
    (lock.private(lock.folder()) / "faultlab-conntrack.in-vm").touch()
    with pytest.raises(CannotRun, match="libvirt does not say"):
        VmEngine.require_reachable()


def test_a_vm_of_somebody_else_is_left_alone(virsh: Virsh) -> None:
    """It has our name, and no description that names a folder of ours."""
    virsh("test $4 = desc && echo No description for domain: x || echo running")
    with pytest.raises(CannotRun, match="was not made by faultlab"):
        libvirt.refuse_what_is_not_ours()


def test_address(virsh: Virsh) -> None:
    virsh(
        """cat <<'.'
 Name       MAC address          Protocol     Address
-------------------------------------------------------------------------------
 vnet10     52:54:00:8e:3c:11    ipv4         198.19.254.112/24
."""
    )
    assert libvirt.address() == "198.19.254.112"


def test_a_vm_without_an_address_says_what_helps(virsh: Virsh) -> None:
    virsh('[ "$3" = domstate ] && echo running || echo " Name MAC address Protocol Address"')
    with pytest.raises(CannotRun, match="no address") as caught:
        libvirt.address()
    assert caught.value.hint == "faultlab vm reset"


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        ("running", "The lab VM does not answer.", "faultlab vm reset"),
        ("shut off", "The lab VM is off.", "make vm"),
        ("paused", "The lab VM is paused.", "make vm"),
    ],
)
def test_a_silent_vm_says_what_libvirt_says(
    virsh: Virsh, said: str, message: str, hint: str
) -> None:
    virsh(f"echo '{said}'")
    problem = libvirt.silent()
    assert (problem.message, problem.hint) == (message, hint)


def test_a_connection_that_is_gone_is_no_verdict(virsh: Virsh, tmp_path: Path) -> None:
    virsh("echo running")
    with pytest.raises(CannotRun, match="does not answer"):
        done: Done = ssh.VmKernel(tmp_path / "gone").run("true")
        assert done.code == 0
    with (
        ssh.VmKernel(tmp_path / "gone").uptime() as uptime,
        pytest.raises(CannotRun, match="does not answer"),
    ):
        uptime()


def test_the_clock_of_the_vm_is_read_in_one_session(virsh: Virsh, tmp_path: Path) -> None:
    virsh('for last; do :; done; exec sh -c "$last"')
    (tmp_path / "virsh").rename(tmp_path / "ssh")
    with ssh.VmKernel(tmp_path).uptime() as uptime:
        first, second = uptime(), uptime()
    assert 0 < first <= second


def test_ssh_reads_no_configuration_of_the_user(virsh: Virsh, tmp_path: Path) -> None:
    virsh("echo $*")
    (tmp_path / "virsh").rename(tmp_path / "ssh")
    virsh("echo vnet10 52:54:00:8e:3c:11 ipv4 198.19.254.112/24")
    assert ssh.ssh_command()[:3] == ["ssh", "-F", "none"]
    assert ssh.VmKernel(tmp_path).run("true").out.startswith("-F none ")


def test_what_a_volume_is_based_on(virsh: Virsh) -> None:
    virsh(
        """cat <<'.'
<volume type='file'>
  <target>
    <path>/pool/faultlab.img</path>
    <format type='qcow2'/>
  </target>
  <backingStore>
    <path>/pool/faultlab_vagrant_box_image_0.1_box.img</path>
    <format type='qcow2'/>
  </backingStore>
</volume>
."""
    )
    assert libvirt._based_on("faultlab.img") == ["faultlab_vagrant_box_image_0.1_box.img"]
    virsh("echo '<volume><target><path>/pool/x.img</path></target></volume>'")
    assert libvirt._based_on("x.img") == []


def test_boxes_of_other_builds(virsh: Virsh, tmp_path: Path) -> None:
    """Two folders of the project on one machine: the other one's box can be the newer one."""
    virsh("exit 1")
    (tmp_path / ".vm/version").write_text("0.20261121.142400\n")
    (tmp_path / "virsh").rename(tmp_path / "vagrant")
    (tmp_path / "vagrant").write_text(
        """#!/bin/sh
cat <<'.'
1795281191,,ui,info,debian (libvirt%!(VAGRANT_COMMA) 12.0)
1795281191,,box-name,debian
1795281191,,box-provider,libvirt
1795281191,,box-version,12.0
1795281191,,ui,info,faultlab (libvirt%!(VAGRANT_COMMA) 0.20261121.142400)
1795281191,,box-name,faultlab
1795281191,,box-provider,libvirt
1795281191,,box-version,0.20261121.142400
1795281191,,ui,info,faultlab (libvirt%!(VAGRANT_COMMA) 0.20261121.161743)
1795281191,,box-name,faultlab
1795281191,,box-provider,libvirt
1795281191,,box-version,0.20261121.161743
.
"""
    )
    assert libvirt._old_versions() == ["0.20261121.161743"]


def test_a_socket_has_a_short_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what mkdtemp and ssh add it has at most 107 bytes (unix(7)), for any user."""
    monkeypatch.undo()
    monkeypatch.setattr(os, "getuid", lambda: 2**32 - 2)
    assert len(f"{lock.folder()}/vm-12345678/ssh.{'x' * 16}") <= 107


@dataclass
class Clock:
    """Our clock, which only goes on while somebody sleeps."""

    now: float = 100.0

    def monotonic(self) -> float:
        """Return it, in seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let it go on."""
        self.now += seconds


class Booted:
    """A VM whose clock runs `rate` times as fast as ours; its kernel answers slowly."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self.rate = rate
        self.clock = clock
        self.delays = cycle([0.3, 0.0, 0.1])  # seconds
        self.kernel = self  # like a connection's

    @contextmanager
    def uptime(self) -> Iterator[Callable[[], float]]:
        """Give the function that reads the VM's clock."""
        yield self._read

    def _read(self) -> float:
        self.clock.sleep(next(self.delays))
        there = self.rate * self.clock.monotonic()
        self.clock.sleep(next(self.delays))
        return round(there, 2)

    def docker(self) -> None:
        """Its Docker is there at once."""


@pytest.mark.parametrize(
    ("rates", "boots", "refused"),
    [([1], 1, False), ([12.5, 1.02], 2, False), ([0.5, 1.25, 1], 3, False), ([1.25] * 3, 3, True)],
)
def test_a_vm_with_a_wrong_clock_boots_again(
    monkeypatch: pytest.MonkeyPatch, rates: list[float], boots: int, refused: bool
) -> None:
    """The kernel measures its processor once, and on a busy machine wrongly."""
    booted: list[float] = []
    switched_off: list[float] = []
    clock = Clock()
    monkeypatch.setattr(boot, "time", clock)
    monkeypatch.setattr(libvirt, "virsh", lambda verb, _: switched_off.append(booted[-1]))
    monkeypatch.setattr(boot, "Connection", lambda _patience: Booted(booted[-1], clock))
    monkeypatch.setattr(libvirt, "acceleration", lambda: ("tcg", "no KVM"))
    monkeypatch.setattr(libvirt, "vagrant", lambda *_, **__: booted.append(rates[len(booted)]))
    with pytest.raises(CannotRun, match="clock") if refused else nullcontext():
        boot._start(print)
    assert len(booted) == boots
    assert switched_off == rates[: boots if refused else boots - 1]
