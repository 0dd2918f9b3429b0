"""The lab VM: killed, rebooted, hung, cut off or handled with Vagrant, it gives no wrong verdict.

Which lab meets which blow is thrown by dice; FAULTLAB_VM_BLOWS=all tries every pair, which takes
half an hour without KVM. A quick run takes a lab that it can afford.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from faultlab.core import paths
from faultlab.core.naming import stack_name
from faultlab.engine import kernel
from faultlab.engine.shell import Shell
from faultlab.engine.vm import libvirt
from faultlab.engine.vm.engine import VmEngine
from faultlab.lab import loader as labs
from faultlab.run import rotation
from tests.live import turns
from tests.live.commandline import finish, kill_9, spawn
from tests.live.stacks import boot_the_vm, needs_vm

LABS = [lab_id for lab_id in labs.ids() if needs_vm(labs.load(lab_id))]
SEED = int(os.environ["FAULTLAB_SEED"])  # conftest.py
DICE = random.Random(SEED)
# Other tests look whether the VM has a lab of theirs, and wait while it does not answer.
pytestmark = pytest.mark.alone


def of_the_vm() -> Shell:
    """A root shell in the VM."""
    return VmEngine.reach(patient=True).kernel("")


def qemu() -> int:
    """The process of our VM, and of no other."""
    pid = int(Path(f"/run/libvirt/qemu/{libvirt.name()}.pid").read_text())
    assert f"guest={libvirt.name()}," in Path(f"/proc/{pid}/cmdline").read_text()
    return pid


def virsh(*words: str) -> str:
    """Ask libvirt."""
    command = ["virsh", "--connect", "qemu:///system", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def vagrant(*words: str) -> str:
    """Type a Vagrant command in the project's folder, as a user does."""
    done = subprocess.run(
        ["vagrant", *words], cwd=paths.root(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def there() -> None:
    """Without a VM there is nothing to test."""
    if libvirt.state() != "running":
        pytest.skip(f"the lab VM is {libvirt.state()}: make vm")


@pytest.fixture(autouse=True)
def a_vm(there: None) -> None:
    """Each test has a VM that runs. The last one destroys it."""
    boot_the_vm()


def kill_qemu() -> None:
    """The VM's process ends as the OOM killer would end it."""
    os.kill(qemu(), signal.SIGKILL)


def reboot() -> None:
    """Somebody types `reboot` in the VM."""
    of_the_vm().run("systemctl reboot")


def nothing_left(lab_id: str, before: kernel.Settings) -> None:
    """No container, no changed setting, no note."""
    assert finish(spawn("down", lab_id))[0] == 0
    shell = of_the_vm()
    assert VmEngine.reach().leftovers(stack_name(lab_id)) == []
    # Each boot computes its reserve anew, from the memory that is free at that moment.
    changed = kernel.differences(before, kernel.read(shell))
    assert [line for line in changed if not line.startswith("vm.user_reserve_kbytes ")] == []
    assert shell.run("ls -A /run/faultlab 2>/dev/null").out == ""


def killed_start(lab_id: str) -> None:
    """`kill -9` of our own process when the fault is in place."""
    process = spawn("start", lab_id, "--engine", "vm")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("inject    done"):
            break
    kill_9(process)


def lost_check(lab_id: str, blow: Callable[[], None]) -> None:
    """The VM goes away while it is measured: that is no verdict, and what helps is said."""
    code, said = finish(spawn("start", lab_id, "--engine", "vm"))
    assert code == 0, said
    process = spawn("check", lab_id)
    time.sleep(3)
    blow()
    code, said = finish(process)
    assert code == 3, said
    assert "next: " in said and "Traceback" not in said


BLOWS: dict[str, Callable[[str], None]] = {
    "kill -9 of us": killed_start,
    "kill -9 of qemu": lambda lab_id: lost_check(lab_id, kill_qemu),
    "reboot": lambda lab_id: lost_check(lab_id, reboot),
}
PAIRS = [
    (blow, lab_id)
    for lab_id in LABS
    for blow in BLOWS
    if lab_id == turns.AFFORDED or not rotation.quick()
]


@pytest.mark.parametrize(
    ("blow", "lab_id"),
    PAIRS if os.environ.get("FAULTLAB_VM_BLOWS") == "all" else [DICE.choice(PAIRS)],
)
@pytest.mark.rotates(turn=2)
def test_a_blow_in_the_middle(blow: str, lab_id: str) -> None:
    """Whatever hits a lab in the VM, the next start works, and down leaves nothing."""
    before = kernel.read(of_the_vm())
    BLOWS[blow](lab_id)
    code, said = finish(spawn("start", lab_id, "--engine", "vm"))
    assert code == 0 and "proven" in said, f"seed {SEED}: {said}"
    nothing_left(lab_id, before)


@pytest.mark.rotates(minutes=0.7)
@pytest.mark.parametrize("how", ["hung", "cut off"])
def test_a_vm_that_does_not_answer(how: str) -> None:
    """Status and start say so, with the command that helps; and it helps."""
    link = virsh("domiflist", libvirt.name()).split()[-1]  # its MAC address
    if how == "hung":
        os.kill(qemu(), signal.SIGSTOP)
    else:
        virsh("domif-setlink", libvirt.name(), link, "down")
    code, said = finish(spawn("status"))
    assert code == 3 and "does not answer" in said and "faultlab vm reset" in said, said
    code, said = finish(spawn("vm", "reset"))
    assert code == 0, said
    assert of_the_vm().run("true").code == 0


@pytest.mark.rotates(minutes=0.3)
def test_reset_is_the_boot_state() -> None:
    """Settings, swap, files and containers are as they were after boot."""
    shell = of_the_vm()
    before = kernel.read(shell)
    shell.must("sysctl -w vm.swappiness=7 net.core.somaxconn=77; touch /var/tmp/mine")
    began = time.time()
    code, said = finish(spawn("vm", "reset"))
    assert code == 0, said
    shell = of_the_vm()
    assert kernel.differences(before, kernel.read(shell)) == []
    assert shell.run("ls /var/tmp/mine").code != 0
    # Its clock was set during the reset. In the boot state it shows an earlier time.
    assert began - 1 < float(shell.must("date +%s")) < time.time() + 1


@pytest.mark.rotates(minutes=0.1)
def test_filters_and_timestamps_have_a_user_from_boot_on() -> None:
    """Without KVM the first filter on a link hung the VM if a packet came just then."""
    shell = of_the_vm()
    assert "clsact" in shell.must("tc qdisc show dev lo")
    assert shell.must("systemctl is-active always-on").strip() == "active"


@pytest.mark.rotates(minutes=0.1)
def test_a_program_has_the_same_addresses_each_time() -> None:
    """Without KVM QEMU would translate it again each time, as it once did (decision 022)."""
    maps = [of_the_vm().must("cat /proc/self/maps") for _ in range(2)]
    assert maps[0] == maps[1]


@pytest.mark.rotates(minutes=0.7)
def test_vagrant_by_hand() -> None:
    """halt, up, ssh and destroy do what a Vagrant user expects, and we notice each."""
    assert "running" in vagrant("status")
    assert vagrant("ssh", "-c", "cat /etc/hostname").strip() == "faultlab"
    vagrant("halt")
    assert "is off" in finish(spawn("vm", "status"))[1]
    vagrant("up")
    assert "is running" in finish(spawn("vm", "status"))[1]
    vagrant("destroy", "--force")
    assert "is absent" in finish(spawn("vm", "status"))[1]
    code, said = finish(spawn("vm", "ssh"))
    assert code == 3 and "make vm" in said
