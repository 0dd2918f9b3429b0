"""Crash safety: however we or the stack end, nothing leaks and no message misleads."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import docker
import pytest

from faultlab.core import paths
from faultlab.core.errors import CannotRun
from faultlab.core.naming import stack_name
from faultlab.engine.docker.connection import docker_url
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from tests.live.commandline import finish, kill_9, spawn
from tests.live.stacks import untouched
from tests.waiting import until

pytestmark = [
    pytest.mark.rotates(minutes=0.5),
    pytest.mark.beside,
    pytest.mark.usefixtures("nothing_up"),
]
LAB = "mtu"


def wait_for_containers(count: int) -> None:
    """Wait until so many containers of the lab are there: the command is in the middle of it."""
    engine = LocalEngine()
    until(lambda: len(engine.containers(stack=stack_name(LAB))) >= count, 120)


def test_after_a_kill_status_tells_and_the_next_start_works() -> None:
    """Status shows the rest of a killed start; the next start clears it away and works."""
    process = spawn("start", LAB)
    wait_for_containers(1)
    kill_9(process)
    assert stack_name(LAB) in finish(spawn("status"))[1]
    code, said = finish(spawn("start", LAB))
    assert code == 0 and "proven" in said, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop(number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM in the middle of a start: exit 3, and nothing is left without a sweep."""
    process = spawn("start", LAB)
    engine = LocalEngine()
    wait_for_containers(1)
    os.kill(process.pid, number)
    code, said = finish(process)
    assert code == 3, said
    assert "Interrupted" in said and "Traceback" not in said
    assert engine.stacks() == []


@pytest.mark.parametrize("later", [0.0, 0.7, 6.0])
def test_told_to_stop_while_verifying(later: float) -> None:
    """SIGTERM to verify takes its walk down too, whatever the walk is doing."""
    process = spawn("verify", LAB)
    engine = LocalEngine()
    wait_for_containers(1)
    time.sleep(later)
    os.kill(process.pid, signal.SIGTERM)
    code, said = finish(process)
    assert code == 3 and "Traceback" not in said, said
    assert engine.stacks() == []


def test_two_at_once() -> None:
    """The second command on one lab says who holds it, and changes nothing."""
    first = spawn("start", LAB)
    wait_for_containers(1)
    code, said = finish(spawn("reset", LAB))
    assert code == 3
    assert f"in use by `faultlab start {LAB}` (process {first.pid})" in said
    code, said = finish(first)
    assert code == 0 and "proven" in said


def test_a_daemon_killed_underneath() -> None:
    """A dead daemon serves nobody: no, and the command that starts it, which then works."""
    assert finish(spawn("start", LAB))[0] == 0
    LocalEngine().client.containers.get(f"{stack_name(LAB)}-nginx").kill()
    code, said = finish(spawn("check", LAB))
    assert code == 1
    assert "nginx has ended (exit code 137); its users get nothing." in said
    assert f"docker start {stack_name(LAB)}-nginx" in said
    LocalEngine().client.containers.get(f"{stack_name(LAB)}-nginx").start()
    assert finish(spawn("check", LAB))[0] == 1


def test_a_machine_removed_underneath() -> None:
    """A machine that is gone is no verdict either; reset brings the lab back."""
    assert finish(spawn("start", LAB))[0] == 0
    LocalEngine().client.containers.get(f"{stack_name(LAB)}-web").remove(force=True)
    code, said = finish(spawn("check", LAB))
    assert code == 3 and f"{LAB} has lost web" in said, said
    code, said = finish(spawn("start", LAB))
    assert code == 0 and "proven" in said, said


def test_a_machine_restarted_underneath() -> None:
    """A restarted machine has lost the fault: that is no repair, and check does not say so."""
    assert finish(spawn("start", LAB))[0] == 0
    LocalEngine().client.containers.get(f"{stack_name(LAB)}-client").restart(timeout=0)
    code, said = finish(spawn("check", LAB))
    assert code == 1 and f"make reset-{LAB}" in said
    assert "client was started again, and everything set on it since is gone." in said


@pytest.mark.parametrize("name", ["web", "client"])
def test_a_machine_ended_from_within(name: str) -> None:
    """As root can do on each machine: its users get nothing, and that is no missing verdict."""
    assert finish(spawn("start", LAB))[0] == 0
    machine = Stack(LocalEngine(), stack_name(LAB))[name]
    machine.run("kill -TERM 1")
    until(lambda: not machine.state.running)
    code, said = finish(spawn("check", LAB))
    assert code == 1 and f"{name} has ended (exit code 143); its users get nothing." in said


def test_a_shell_where_there_is_no_machine() -> None:
    """A typing error is exit 2 and lists the machines."""
    assert finish(spawn("start", LAB))[0] == 0
    code, said = finish(spawn("shell", LAB, "wbe"))
    assert code == 2 and "client, web, nginx, php-fpm" in said


def test_a_person_who_leaves_a_shell_has_made_no_mistake() -> None:
    """At a terminal the last command's exit code is not ours; that of a script is."""
    assert finish(spawn("start", LAB))[0] == 0
    shell = f"{sys.executable} -m faultlab shell {LAB} web"
    at_terminal = ["script", "-qec", shell, "/dev/null"]
    person = subprocess.run(at_terminal, input="false\nexit\n", text=True, timeout=30, check=False)
    assert person.returncode == 0
    script = subprocess.run(shell.split(), input="exit 3\n", text=True, timeout=30, check=False)
    assert script.returncode == 3


def test_fix_twice() -> None:
    """A repaired lab cannot be repaired again: exit 3, and how to go on."""
    assert finish(spawn("start", "iptables-drop"))[0] == 0
    assert finish(spawn("fix", "iptables-drop"))[0] == 0
    code, said = finish(spawn("fix", "iptables-drop"))
    assert code == 3 and "make reset-iptables-drop fix-iptables-drop" in said


class Relay:
    """A socket that passes everything on to Docker, until it is cut: Docker as it stops."""

    def __init__(self, target: str) -> None:
        # Not below a TMPDIR: a socket's path has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="faultlab-", dir="/tmp"))
        self.path = self.folder / "docker.sock"
        self.target = target
        self.open: list[socket.socket] = []
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(self.path))
        self.server.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.target)
            self.open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def cut(self) -> None:
        """Stop answering, also on what is open."""
        shutil.rmtree(self.folder)
        self.server.close()
        for one in self.open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def test_docker_stops_in_the_middle() -> None:
    """No answer any more: exit 3, one line, the command that helps; a sweep removes the rest."""
    url = docker_url()
    if not url.startswith("unix://"):
        pytest.skip(f"the relay needs a Unix socket, Docker is at {url}")
    relay = Relay(url.removeprefix("unix://"))
    process = spawn("start", LAB, env={"DOCKER_HOST": f"unix://{relay.path}"})
    wait_for_containers(4)
    relay.cut()
    code, said = finish(process)
    assert code == 3, said
    assert "Docker does not answer" in said and "make setup" in said
    assert "Traceback" not in said
    assert finish(spawn("sweep"))[0] == 0
    assert LocalEngine().stacks() == []


def test_a_full_disk(tmp_path: Path) -> None:
    """No room for the record: exit 3 and what to look at, and nothing is left."""
    if os.geteuid() != 0:
        pytest.skip("a small file system of its own needs root")
    for folder in ("labs", "checks", "images"):
        shutil.copytree(paths.root() / folder, tmp_path / folder)
    shutil.copy(paths.root() / "collection.toml", tmp_path)
    (tmp_path / "runs").mkdir()
    script = (
        f"mount -t tmpfs -o size=16k tmpfs {tmp_path}/runs && "
        f"dd if=/dev/zero of={tmp_path}/runs/filler bs=1k count=12 2>/dev/null; "
        f"exec {sys.executable} -m faultlab start {LAB}"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "FAULTLAB_ROOT": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    assert "No space left on device" in done.stderr and "df -h" in done.stderr
    assert "Traceback" not in done.stderr
    assert LocalEngine().stacks() == []


def test_a_foreign_container_is_not_ours() -> None:
    """A container with a name like ours, but without our label, survives a sweep."""
    client = docker.DockerClient(base_url=docker_url())
    from faultlab.lab import images

    mine = client.containers.run(
        images.tag("machine"), network_mode="none", detach=True, name="faultlab-mtu-lookalike"
    )
    try:
        assert finish(spawn("sweep"))[0] == 0
        mine.reload()
        assert mine.status == "running"
    finally:
        mine.remove(force=True)
        client.close()


def test_a_command_whose_container_restarts_comes_to_an_end() -> None:
    """Docker 20.10 never ends the answer: then it is cut off, and that is no reading."""
    with untouched(LAB, "restarts") as run:
        nginx = run.stack["nginx"]
        assert nginx.run("echo out; echo err >&2; exit 3").code == 3
        ended: list[object] = []

        def wait() -> None:
            try:
                ended.append(nginx.run("sleep 8", timeout=3))
            except CannotRun as problem:
                ended.append(problem)

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        time.sleep(0.5)
        nginx.restart()
        waiting.join(20)
        assert ended, "it hangs"
        assert isinstance(ended[0], CannotRun) or getattr(ended[0], "code", 0) == 137, ended
