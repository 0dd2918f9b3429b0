"""Ssh: the connection to the lab VM's kernel and to its Docker. It ends when we end."""

import atexit
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE

from faultlab.core import lock, paths
from faultlab.core.command import DIE_WITH_US, run
from faultlab.core.errors import CannotRun
from faultlab.engine.docker.connection import Docker
from faultlab.engine.shell import Done, Shell, late
from faultlab.engine.vm import libvirt

# Nothing of the user's ~/.ssh/config. The language goes along, as with Debian's ssh_config.
_SSH = ("ssh", "-F", "none", "-o", "SendEnv=LANG LC_*")
BOOT_SECONDS = 60  # for this long, a VM that is just booting can refuse connections


def ssh_command() -> list[str]:
    """Return the ssh command for the VM. Its host key is new with every box, so none is stored."""
    options = (
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "LogLevel=ERROR",
        "IdentitiesOnly=yes",
    )
    timeouts = ("ConnectTimeout=20", "ServerAliveInterval=10", "ServerAliveCountMax=3")
    flags = [word for option in (*options, *timeouts) for word in ("-o", option)]
    return [*_SSH, "-i", str(paths.vm() / "ssh_key"), *flags, f"vagrant@{libvirt.address()}"]


class VmKernel(Shell):
    """A root shell in the VM, outside of any container: `at = "kernel"`."""

    name = "kernel"

    def __init__(self, control: Path) -> None:
        self._control = control

    def run(self, command: str, timeout: float = 30) -> Done:
        """Run a shell command as root in the VM."""
        inner = f"sudo timeout -k 1 {timeout:g} sh -c {shlex.quote(command)}"
        started = time.monotonic()
        done = run(self._ssh(inner), timeout=timeout + 60)
        seconds = time.monotonic() - started
        if done.returncode == 255:
            raise libvirt.silent()
        if done.returncode == 124:
            raise late("In the lab VM", timeout, command, "faultlab vm reset")
        return Done(command, done.returncode, done.stdout, done.stderr, seconds)

    @contextmanager
    def uptime(self) -> Iterator[Callable[[], float]]:
        """Give a function that reads the seconds since the VM has booted, in one session.

        A reading takes milliseconds. Without KVM a command would take half a second.
        """
        loop = "while read -r _; do read -r up _ </proc/uptime; echo $up; done"
        with subprocess.Popen(self._ssh(loop), stdin=PIPE, stdout=PIPE, bufsize=0) as session:
            asks, answers = session.stdin, session.stdout
            assert asks is not None and answers is not None

            def read() -> float:
                with suppress(BrokenPipeError):
                    asks.write(b"\n")
                if line := answers.readline():
                    return float(line)
                raise libvirt.silent()

            try:
                yield read
            finally:
                asks.close()

    def _ssh(self, command: str) -> list[str]:
        """Return an ssh command that uses the existing connection, and no new one to another VM."""
        return [*_SSH, "-S", str(self._control), "-o", "ProxyCommand=false", "vm", command]


def _stands(command: list[str], control: Path, socket: Path) -> bool:
    """Open the ssh connection; it stays open until we end."""
    quiet = subprocess.DEVNULL
    # Ctrl-C in a terminal reaches our whole group, and a clean-up still needs the connection.
    ssh = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    atexit.register(ssh.terminate)
    deadline = time.monotonic() + BOOT_SECONDS
    while not (socket.exists() and control.exists()):
        if ssh.poll() is not None:
            return False
        if time.monotonic() > deadline:
            ssh.terminate()
            return False
        time.sleep(0.05)
    return True


def _sockets() -> Path:
    """Return the folder for the sockets, after removing the leftovers of killed commands."""
    folder = lock.private(lock.folder())
    young = time.time() - 5 * BOOT_SECONDS
    for old in folder.glob("vm-*"):
        with suppress(FileNotFoundError, CannotRun):  # its command has just ended, or is suspended
            if old.stat().st_mtime > young:
                continue
            probe = [*_SSH, "-S", str(old / "ssh"), "-O", "check", "vm"]
            if run(probe, timeout=10).returncode != 0:
                shutil.rmtree(old, ignore_errors=True)
    return folder


class VmDocker(Docker):
    """Docker in the VM."""

    def unreachable(self, error: BaseException) -> CannotRun:
        """Return the error for a VM that hangs, died or lost its network, and the next command."""
        return libvirt.silent()


class Connection:
    """One ssh connection to the running VM, which ends when we end.

    `patience`: seconds in which a VM that is just booting can still refuse it. Raises CannotRun.
    """

    def __init__(self, patience: float = 0) -> None:
        where = Path(tempfile.mkdtemp(prefix="vm-", dir=_sockets()))
        atexit.register(shutil.rmtree, where, ignore_errors=True)
        control, socket = where / "ssh", where / "docker.sock"
        command = ssh_command()
        options = ["-M", "-S", str(control), "-N", "-L", f"{socket}:/var/run/docker.sock"]
        began = time.monotonic()
        while not _stands([*DIE_WITH_US, command[0], *options, *command[1:]], control, socket):
            if time.monotonic() > began + patience:
                raise libvirt.silent()
            time.sleep(0.5)
        self.kernel = VmKernel(control)
        self.url = f"unix://{socket}"

    def docker(self) -> VmDocker:
        """Return Docker in the VM."""
        return VmDocker(self.url)
