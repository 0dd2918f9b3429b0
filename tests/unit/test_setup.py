"""`setup/` run for real on a machine that is made of stubs.

A `Machine` is a copy of the scripts beside a `bin` directory that is the whole PATH: a few real
tools and stubs that note how they were called. Of what setup prints, the tests compare what is
missing and what to type next, which are all that a newcomer has.
"""

import hashlib
import platform
import re
import shutil
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

SUITE = platform.freedesktop_os_release().get("VERSION_CODENAME", "")

REPO = Path(__file__).resolve().parents[2]
# The real tools a machine has: coreutils, findutils, grep, sed, util-linux, a shell.
TOOLS = """
    bash cat chmod comm cp cut date dirname env find flock fold grep mkdir mktemp mv nice nproc
    readlink rm sed setsid sh sha256sum sleep sort tail tar test timeout touch tr uname
"""

DOCKER = """case "$1" in
version) case $(cat "$STATE/engine") in
    answers) echo 28.0 ;;
    denied) echo "permission denied while trying to connect to the socket" >&2; exit 1 ;;
    *) echo "Cannot connect to the Docker daemon" >&2; exit 1 ;;
    esac ;;
load) ;;
*) exit 1 ;;
esac"""
# A Python that can only make an environment. Its pip and uv install nothing.
PYTHON = """[ -e "$STATE/old" ] && exit 1
case "$*" in *"-m venv"*) for dir; do :; done
mkdir -p "$dir/bin"; touch "$dir/bin/pytest"; echo "#!$dir/bin/python3" >"$dir/bin/pip"
cp "$0" "$dir/bin/python"; cp "$0" "$dir/bin/uv"; chmod +x "$dir/bin/"* ;;
esac"""
PIP = "python -m pip install --progress-bar off --no-compile"
UV = "uv pip install --no-progress --python"
STARTS = 'echo answers >"$STATE/engine"'


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Machine:
    """A machine of stubs; everything it needs is there until a test takes it away."""

    root: Path

    def stub(self, name: str, body: str = "") -> None:
        path = self.root / "bin" / name
        path.write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >>"$STATE/calls"\n{body}\n')
        path.chmod(0o755)

    def without(self, *names: str) -> None:
        for name in names:
            (self.root / "bin" / name).unlink()

    def engine(self, state: str) -> None:
        (self.root / "engine").write_text(state)

    def user(self, uid: int) -> None:
        self.stub("id", f"echo {uid}")

    def calls(self, *names: str) -> list[str]:
        """Return the calls of the named commands since the last time this was asked."""
        log = self.root / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line for line in lines if line.split()[0] in names]

    def run(self, script: str = "setup/setup.sh", *arguments: str, **env: str) -> Result:
        done = subprocess.run(
            [self.root / "bin/bash", self.root / "repo" / script, *arguments],
            env={
                "PATH": str(self.root / "bin"),
                "STATE": str(self.root),
                "TMPDIR": str(self.root),
                "FAULTLAB_SYSROOT": str(self.root / "sys"),
                **env,
            },
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        err = re.sub(r"whole log: .*", "whole log: LOG", done.stderr)
        err = re.sub(r" in \d+ s$", " in N s", err, flags=re.M)
        assert [line for line in err.splitlines() if len(line) > 80] == []
        return Result(done.returncode, done.stdout, err)

    def refuses(
        self, problem: str, *hints: str, script: str = "setup/setup.sh", **env: str
    ) -> None:
        """Run a script that cannot go on: it says why, and what to type next, in these words."""
        result = self.run(script, **env)
        assert (result.code, result.out) == (3, "")
        said = " ".join(result.err.rpartition("faultlab setup: ")[2].replace("\\\n", "").split())
        assert said.startswith(f"{problem} next: "), result.err
        assert [hint for hint in hints if hint not in said] == [], result.err


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for made in ("bin", "repo", "sys/usr/share/keyrings", "sys/var/log"):
        (tmp_path / made).mkdir(parents=True)
    shutil.copytree(REPO / "setup", tmp_path / "repo/setup")
    (tmp_path / "repo/pyproject.toml").write_text("[project]\n")
    (tmp_path / "sys/usr/share/keyrings/debian-archive-keyring.gpg").touch()
    for tool in TOOLS.split():
        real = shutil.which(tool)
        assert real, f"these tests need {tool}"
        (tmp_path / "bin" / tool).symlink_to(real)
    machine = Machine(tmp_path)
    machine.stub("docker", DOCKER)
    machine.stub("python3", PYTHON)
    machine.stub("apt-cache", 'echo "  Candidate: (none)"')
    for name in ("docker-compose", "dockerd", "iptables", "mmdebstrap", "newuidmap", "apt-get"):
        machine.stub(name)
    machine.user(0)
    machine.engine("answers")
    return machine


@pytest.fixture
def ready(machine: Machine) -> Machine:
    """A machine on which setup has been run."""
    assert machine.run().code == 0
    machine.calls()
    return machine


# --- nothing to do, and usage ---


def test_with_nothing_missing_it_is_silent(ready: Machine) -> None:
    assert ready.run() == Result(0, "", "")
    assert ready.calls("docker", "python3", "apt-get", "id") == [
        "docker version --format {{.Server.Version}}"
    ]


def test_unknown_argument_is_a_usage_error(machine: Machine) -> None:
    result = machine.run("setup/setup.sh", "--frob")
    assert result == Result(2, "", "usage: setup/setup.sh [--help]\n")


def test_help_is_the_header(machine: Machine) -> None:
    result = machine.run("setup/setup.sh", "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Purpose: install what faultlab needs")
    assert result.out.endswith("3 cannot run here (prints what to type next)\n")


# --- the virtual environment ---

MADE = "Making .venv with python3: faultlab.\n  made in N s\n"
WITH_TESTS = MADE.replace("faultlab", "faultlab and what its tests use")


def test_environment_is_made_again_only_when_what_it_is_made_of_changes(machine: Machine) -> None:
    assert machine.run() == Result(0, "", MADE)
    venv, repo = machine.root / "repo/.venv", machine.root / "repo"
    lock = repo / "setup/lock"
    assert machine.calls("python", "uv") == [
        "python -m pip config list",
        f"{PIP} --require-hashes --no-deps -r {lock}/uv.txt",
        f"{UV} {venv}/bin/python --require-hashes --no-deps -r {lock}/plain.txt",
        f"{UV} {venv}/bin/python --no-build-isolation --no-deps -e {repo}",
    ]
    (repo / "pyproject.toml").write_text("[project]\nname = 'changed'\n")
    assert machine.run() == Result(0, "", MADE)
    assert f"python3 -m venv --clear {venv}" not in machine.calls("python3")
    assert machine.run() == Result(0, "", "")
    (repo / "setup/lock/plain.txt").write_text("changed\n")
    assert machine.run() == Result(0, "", MADE)
    assert machine.run() == Result(0, "", "")


def test_the_tests_need_more_and_more_will_do(machine: Machine) -> None:
    assert machine.run() == Result(0, "", MADE)
    machine.calls()
    repo = machine.root / "repo"
    assert machine.run(FAULTLAB_TESTS="1").err.endswith(WITH_TESTS)
    assert machine.calls("uv")[-2].endswith(f"-r {repo}/setup/lock/test.txt")
    assert "Making" not in machine.run(FAULTLAB_TESTS="1").err
    assert machine.run() == Result(0, "", "")


def test_a_class_needs_more_and_the_tests_have_that_too(machine: Machine) -> None:
    repo = machine.root / "repo"
    assert machine.run(FAULTLAB_WEB="1").err == MADE.replace(
        "faultlab", "faultlab and what serves the pages of a class"
    )
    assert machine.calls("uv")[-2].endswith(f"-r {repo}/setup/lock/web.txt")
    assert machine.run() == Result(0, "", "")
    assert machine.run(FAULTLAB_TESTS="1").err.endswith(WITH_TESTS)
    assert machine.run(FAULTLAB_WEB="1") == Result(0, "", "")


# --- a bundle in place of a network ---


MACHINE = platform.machine()
HERE = f'{{"machine": "{MACHINE}"'


def bundle(machine: Machine, **changed: str) -> Path:
    """An archive as `faultlab bundle` writes it, with small things in it."""
    folder = machine.root / "made"
    files = {
        "bundle.json": f'{HERE}, "suite": "{SUITE}"}}',
        "images.tar.gz": "images",
        "wheels/some.whl": "wheel",
        "debs/Packages": "",
        **{name: text for name, text in changed.items() if name != "sums"},
    }
    wrong = files.pop("wrong", "")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sums = [
        f"{hashlib.sha256(text.encode()).hexdigest() if name != wrong else '0' * 64}  {name}"
        for name, text in files.items()
    ]
    (folder / "SHA256SUMS").write_text(changed.get("sums", "\n".join(sums) + "\n"))
    out = machine.root / "x.bundle.tar"
    with tarfile.open(out, "w") as archive:
        archive.add(folder, ".")
    return out


def test_a_bundle_brings_what_a_network_would(machine: Machine) -> None:
    """Also where nothing else is missing: images are not seen from here."""
    machine.stub("python3", f'echo "$PIP_NO_INDEX $PIP_FIND_LINKS" >>"$STATE/pip"\n{PYTHON}')
    for _ in range(2):
        result = machine.run(BUNDLE=bundle(machine).name)
        assert result.code == 0, result.err
        assert result.err.endswith("Loading the images.\n")
        repo = machine.root / "repo"
        loads = [call for call in machine.calls("docker") if " load " in call]
        assert loads == [f"docker load --input {repo}/.bundle/images.tar.gz"]
        assert not (repo / ".bundle").exists()
    assert f"1 {repo}/.bundle/wheels" in (machine.root / "pip").read_text().splitlines()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"wrong": "images.tar.gz"}, "is damaged: images.tar.gz: FAILED"),
        (
            {"bundle.json": '{"machine": "pdp11"}'},
            f"was made on another kind of processor than {MACHINE}",
        ),
        (
            {"bundle.json": f'{HERE}, "suite": "potato"}}'},
            f"was made on another Debian than {SUITE}",
        ),
    ],
)
def test_a_bundle_that_does_not_fit(changed: dict[str, str], said: str, machine: Machine) -> None:
    again = "copy it once more, or make it again: faultlab bundle"
    machine.refuses(f"x.bundle.tar {said}", again, BUNDLE=bundle(machine, **changed).name)
    loads_nothing(machine)


def loads_nothing(machine: Machine) -> None:
    assert not any(" load " in call for call in machine.calls("docker"))
    assert not (machine.root / "repo/.bundle").exists()


def _more(name: str) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.mode = 0o644
    return made


def _link(name: str) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = tarfile.SYMTYPE, "/etc/hostname"
    return made


@pytest.mark.parametrize(
    "more",
    [
        *map(_more, ("debs/evil.deb", "wheels/evil.whl", "vm/digest", ".hidden", "a b")),
        *map(_link, ("wheels/some", "vm/box.json")),
    ],
    ids=lambda its: its.name,
)
def test_a_bundle_with_more_than_it_names(more: tarfile.TarInfo, machine: Machine) -> None:
    """apt, pip and Docker take all that is there, so a file without a checksum was installed."""
    file = bundle(machine)
    with tarfile.open(file, "a") as archive:
        archive.addfile(more)
    result = machine.run(BUNDLE=file.name)
    assert (result.code, f"SHA256SUMS does not name {more.name}\n" in result.err) == (3, True)
    loads_nothing(machine)


def test_a_bundle_has_one_digest(machine: Machine) -> None:
    """It is printed where the bundle is made, and read again here."""
    file = bundle(machine)
    sums = (machine.root / "made/SHA256SUMS").read_bytes()
    digest = hashlib.sha256(sums).hexdigest()
    result = machine.run(BUNDLE=file.name, DIGEST=digest)
    assert result.code == 0 and f"  digest: {digest}\n" in result.err
    assert machine.run(BUNDLE=file.name).code == 0
    for wrong in ("0" * 64, digest[:12], "x"):
        problem = "x.bundle.tar is not the one with your DIGEST"
        machine.refuses(problem, BUNDLE=file.name, DIGEST=wrong)


def test_a_list_of_other_things(machine: Machine) -> None:
    """A line that is no checksum is an error, and not left out."""
    made = bundle(machine)
    lines = (machine.root / "made/SHA256SUMS").read_text()
    again = bundle(machine, sums=f"{lines}nonsense\n")
    assert made == again and machine.run(BUNDLE=again.name).code == 3


def test_a_setup_that_fails_names_its_bundle_and_leaves_none(machine: Machine) -> None:
    bundle(machine).rename(machine.root / "x y")
    machine.stub("python3", f'case "$*" in *install*) exit 1 ;; esac\n{PYTHON}')
    result = machine.run(BUNDLE="x y")
    assert result.code == 3
    assert "look at the lines above, then: make setup BUNDLE=x\\ y\n" in result.err
    assert not (machine.root / "repo/.bundle").exists()


def test_what_a_bundle_replaces_may_be_linked_elsewhere(machine: Machine) -> None:
    repo, old = machine.root / "repo", machine.root / "old-box"
    old.write_text("old")
    (repo / ".vm").mkdir()
    (repo / ".vm/disk.qcow2").touch()
    (repo / ".vm/faultlab.box").hardlink_to(old)
    vm = {"vm/digest": "abc", "vm/faultlab.box": "new", "vm/box.json": "{}"}
    result = machine.run(BUNDLE=bundle(machine, **vm).name)
    assert result.code == 0, result.err
    assert (old.read_text(), (repo / ".vm/faultlab.box").read_text()) == ("old", "new")
    assert not (repo / ".vm/disk.qcow2").exists()


def test_what_is_no_bundle(machine: Machine) -> None:
    (machine.root / "x").write_text("x" * 2000)
    assert "x is no bundle, or cut off" in machine.run(BUNDLE="x").err
    whole = bundle(machine).read_bytes()
    (machine.root / "half").write_bytes(whole[:3000])
    assert "half is no bundle" in machine.run(BUNDLE="half").err
    result = machine.run(BUNDLE="nowhere")
    assert (result.code, "there is no bundle nowhere" in result.err) == (3, True)


def test_environment_that_is_broken_is_made_again(ready: Machine) -> None:
    (ready.root / "repo/.venv/bin/python").unlink()
    assert ready.run() == Result(0, "", MADE)
    assert f"python3 -m venv --clear {ready.root}/repo/.venv" in ready.calls("python3")


def test_environment_of_a_moved_checkout_is_made_again(ready: Machine) -> None:
    shutil.copytree(ready.root / "repo", ready.root / "moved")
    assert ready.run("../moved/setup/setup.sh") == Result(0, "", MADE)
    # What is in .venv/bin names the Python of the other checkout.
    assert f"python3 -m venv --clear {ready.root}/moved/.venv" in ready.calls("python3")
    assert ready.run() == Result(0, "", "")


@pytest.mark.parametrize(
    ("stops", "uv"),
    [
        ("*config*) echo \"global.index-url='https://mirror.invalid'\" ;;", 0),
        ("*--no-progress*) exit 1 ;;", 1),
    ],
)
def test_pip_installs_where_uv_cannot(machine: Machine, stops: str, uv: int) -> None:
    """Pip may have a mirror that uv does not know."""
    machine.stub("python3", f'case "$*" in {stops} esac\n{PYTHON}')
    assert machine.run() == Result(0, "", MADE)
    repo, calls = machine.root / "repo", machine.calls("python", "uv")
    assert len([call for call in calls if call.startswith(UV)]) == uv
    assert calls[-2:] == [
        f"{PIP} --require-hashes --no-deps -r {repo}/setup/lock/plain.txt",
        f"{PIP} --no-build-isolation --no-deps -e {repo}",
    ]


def test_pip_that_fails_leaves_no_stamp(machine: Machine) -> None:
    fails = 'case "$*" in *install*) echo "ERROR: no such thing"; exit 1 ;; esac'
    machine.stub("python3", f"{fails}\n{PYTHON}")
    for _ in range(2):
        machine.refuses("pip could not make .venv", "look at the lines above, then: make setup")
    assert "    ERROR: no such thing\n  whole log: LOG\n" in machine.run().err
    assert len(list(machine.root.glob("faultlab-setup.*"))) == 3


def test_older_default_python_gives_way_to_a_newer_one(machine: Machine) -> None:
    machine.stub("python3", "exit 1")
    machine.stub("python3.12", PYTHON)
    assert machine.run() == Result(0, "", MADE.replace("python3", "python3.12"))


# --- packages ---

NO_RIGHTS = "packages are missing, and there is neither root nor sudo"
AS_ROOT = "as root (or ask who has it), and then make setup:"
INSTALL = "apt-get install --no-install-recommends"


def test_packages_without_root_and_sudo(ready: Machine) -> None:
    ready.user(1000)
    ready.engine("silent")
    ready.without("docker", "dockerd", "docker-compose", "iptables", "mmdebstrap")
    (ready.root / "sys/usr/share/keyrings/debian-archive-keyring.gpg").unlink()
    names = "docker.io docker-compose iptables mmdebstrap debian-archive-keyring"
    ready.refuses(NO_RIGHTS, AS_ROOT, f"{INSTALL} {names}")
    assert ready.calls("apt-get") == []


def test_sudo_that_wants_a_password_nobody_can_type(ready: Machine) -> None:
    ready.user(1000)
    ready.stub("sudo", "exit 1")
    ready.without("docker-compose")
    ready.refuses(NO_RIGHTS, AS_ROOT, f"{INSTALL} docker-compose")
    assert ready.calls("sudo") == ["sudo -n true"]


def test_other_distribution(machine: Machine) -> None:
    (machine.root / "old").touch()  # no Python is new enough
    machine.engine("silent")
    machine.without("apt-get", "docker", "dockerd", "docker-compose", "mmdebstrap")
    machine.refuses(
        "packages are missing, and apt-get too: not Debian or Ubuntu?",
        "install these your own way, then: make setup - Docker Engine - the docker command"
        " - Docker Compose - Python 3.11 or newer with venv",
    )


def test_package_that_few_machines_need_is_missed_once(ready: Machine) -> None:
    ready.user(1000)
    ready.without("mmdebstrap", "iptables")
    said = ready.run()
    assert said.code == 0 and said.err.startswith("Going on without iptables, mmdebstrap.\n")
    assert f"Reason: {NO_RIGHTS}." in said.err
    assert "To try again: rm .venv/.without; make setup\n" in said.err
    assert ready.run() == Result(0, "", "")


def test_user_makes_the_base_image_in_a_user_namespace(ready: Machine) -> None:
    """Without uidmap, mmdebstrap says only "unable to pick chroot mode automatically"."""
    ready.without("newuidmap")
    assert ready.run() == Result(0, "", "")  # root needs no such namespace
    ready.user(1000)
    ready.stub("sudo", '[ "$1" != -n ] || shift\n"$@"')
    ready.stub("apt-get")
    assert "Installing to make the base image: uidmap\n" in ready.run().err
    assert ready.calls("apt-get")[-1] == f"{APT} install --no-install-recommends --no-remove uidmap"


INSTALLS = """case "$*" in *" install "*) mv "$STATE/kept/"* "$STATE/bin/" ;; esac"""


def keep(machine: Machine, *names: str) -> None:
    """Take commands away, for a stub apt-get to bring back."""
    kept = machine.root / "kept"
    kept.mkdir()
    for name in names:
        (machine.root / "bin" / name).rename(kept / name)
    machine.stub("apt-get", INSTALLS)


APT = "apt-get -y -o DPkg::Lock::Timeout=300"


def test_install_on_debian_12(machine: Machine) -> None:
    keep(machine, "docker", "dockerd", "docker-compose", "mmdebstrap")
    (machine.root / "sys/etc").mkdir()
    (machine.root / "sys/etc/os-release").write_text('PRETTY_NAME="Debian"\nID=debian\n')
    result = machine.run(FAULTLAB_TESTS="1")
    assert (result.code, result.out) == (0, "") and result.err.endswith(WITH_TESTS)
    assert re.findall(r"^Installing (.*):", result.err, re.M) == [
        *("to run the stacks", "to make the base image", "for make test")
    ]
    packages = "docker.io docker-compose mmdebstrap shellcheck chromium"
    assert machine.calls("apt-get") == [
        f"{APT} update",
        f"{APT} install --no-install-recommends --no-remove {packages}",
    ]


def test_install_where_the_client_and_compose_2_are_packages(machine: Machine) -> None:
    keep(machine, "docker", "dockerd", "docker-compose")
    machine.stub("apt-cache", 'echo "  Candidate: 26.1"')
    assert machine.run().code == 0
    install = machine.calls("apt-get")[1]
    assert install.endswith(" docker.io docker-cli docker-compose-v2")


def test_apt_that_fails(ready: Machine) -> None:
    ready.without("docker-compose")
    ready.stub("apt-get", 'echo "E: Unable to fetch some archives"; exit 100')
    ready.refuses("apt could not install what is missing", AS_ROOT, f"{INSTALL} docker-compose")
    said = ready.run().err
    assert "it had errors; going on with what apt knows\n" in said
    assert "    E: Unable to fetch some archives\n  whole log: LOG\n" in said


# --- an installed package ---


@pytest.fixture
def package(machine: Machine) -> Machine:
    """A machine on which faultlab was installed by pip, so there is no checkout."""
    (machine.root / "repo/pyproject.toml").unlink()
    return machine


def test_a_package_has_its_python_already(package: Machine) -> None:
    assert package.run() == Result(0, "", "")
    assert package.calls("python3") == []
    assert not (package.root / "repo/.venv").exists()


def test_a_package_gets_docker_and_is_never_written(package: Machine) -> None:
    keep(package, "docker", "dockerd", "docker-compose")
    result = package.run()
    assert (result.code, "docker.io docker-compose\n" in result.err) == (0, True)
    package.user(1000)
    package.without("iptables", "docker-compose")
    here = AS_ROOT.replace("make setup", "faultlab setup")
    package.refuses(NO_RIGHTS, here, f"{INSTALL} docker-compose iptables")
    package.stub("docker-compose")
    assert "To try again: faultlab setup\n" in package.run().err
    assert [path.name for path in (package.root / "repo").iterdir()] == ["setup"]


def test_a_package_takes_no_bundle(package: Machine) -> None:
    package.refuses("a bundle is for a checkout", "make setup BUNDLE=FILE", BUNDLE="x.tar")


# --- the engine ---

# sudo that works, and as which docker answers.
SUDO = """[ "$1" != -n ] || shift
case "$*" in *"docker version"*) exit 0 ;; esac
"$@\""""


def test_socket_that_may_not_be_used(ready: Machine) -> None:
    ready.engine("denied")
    ready.user(1000)
    hints = 'sudo usermod -aG docker "$USER"', "log out and in again (or run make as root"
    ready.refuses("this user may not use the socket of Docker Engine", *hints)
    assert ready.calls("apt-get", "service", "dockerd", "sudo") == []


def test_docker_host_that_is_silent_starts_nothing(ready: Machine) -> None:
    ready.engine("silent")
    ready.stub("service", STARTS)
    there = "tcp://198.18.0.9:2375"
    problem = f"no Docker Engine answers at DOCKER_HOST={there}"
    ready.refuses(problem, "start it there", "unset DOCKER_HOST", DOCKER_HOST=there)
    assert ready.calls("apt-get", "service", "dockerd") == []


def test_engine_that_only_root_can_start(ready: Machine) -> None:
    ready.engine("silent")
    ready.user(1000)
    problem = "Docker Engine does not run, and starting it needs root"
    ready.refuses(problem, "sudo service docker start (or ask who has root)")


def test_service_that_fails_falls_through_to_dockerd(ready: Machine) -> None:
    ready.engine("silent")
    ready.stub("service", "echo 'ulimit: not permitted' >&2; exit 1")
    ready.stub("dockerd", f"{STARTS}\nsleep 3")  # it stays, as the real one does
    told = "Starting Docker Engine (service).\nStarting Docker Engine (dockerd).\n"
    assert ready.run() == Result(0, "", told)
    assert ready.calls("service", "dockerd") == ["service docker start", "dockerd "]


def test_systemd_comes_first_and_is_enough(ready: Machine) -> None:
    ready.engine("silent")
    (ready.root / "sys/run/systemd/system").mkdir(parents=True)
    ready.stub("systemctl", STARTS)
    ready.stub("service", STARTS)
    assert ready.run() == Result(0, "", "Starting Docker Engine (systemd).\n")
    assert ready.calls("systemctl", "service", "dockerd") == ["systemctl start docker"]


def test_engine_that_no_way_starts(ready: Machine) -> None:
    ready.engine("silent")
    ready.stub("service", "exit 1")
    ready.stub("dockerd", 'echo "failed to start daemon: no iptables" >&2; exit 1')
    ready.refuses("Docker Engine did not start", "read the lines above, then: make setup")
    assert "    failed to start daemon: no iptables\n  whole log: LOG\n" in ready.run().err


@pytest.mark.parametrize(
    ("state", "ended"), [("R (running)", False), ("D (disk sleep)", False), ("Z (zombie)", True)]
)
def test_dockerd_that_the_kernel_still_loads_has_not_ended(
    state: str, ended: bool, tmp_path: Path
) -> None:
    """Until its first page is read from a slow disk, its command line is empty as a zombie's is."""
    (tmp_path / "cmdline").touch()
    (tmp_path / "status").write_text(f"Name:\tdockerd\nState:\t{state}\n")
    asked = f". {REPO}/setup/start.sh && DOCKERD_PID=..{tmp_path} && dockerd_ended"
    env = {"SYSROOT": "", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash", "-euc", asked], env=env, check=False)
    assert (done.returncode == 0) == ended


def test_socket_that_a_dead_engine_left_is_not_a_matter_of_rights(ready: Machine) -> None:
    ready.user(1000)
    ready.engine("denied")
    ready.stub("sudo", SUDO.replace("exit 0", "exit 1"))
    ready.stub("service", STARTS)
    assert ready.run() == Result(0, "", "Starting Docker Engine (service).\n")


def test_engine_that_starts_for_root_only(ready: Machine) -> None:
    ready.engine("silent")
    ready.user(1000)
    ready.stub("sudo", SUDO)
    ready.stub("service", 'echo denied >"$STATE/engine"')
    ready.refuses("this user may not use the socket of Docker Engine", "sudo usermod -aG docker")


# --- libvirt ---


@pytest.fixture
def libvirt(machine: Machine) -> Machine:
    """A machine with the packages for the VM, where libvirt answers root only."""
    for tool in ("echo", "xargs"):
        (machine.root / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    machine.stub("dpkg-query", 'shift 2; printf "installed %s\\n" "$@"')
    machine.stub("virsh", '[ "$ROOT" ] && echo default')
    return machine


def test_libvirt_that_answers(libvirt: Machine) -> None:
    assert libvirt.run("setup/libvirt.sh", ROOT="1") == Result(0, "", "")


def test_libvirt_that_this_user_may_not_use(libvirt: Machine) -> None:
    libvirt.user(1000)
    libvirt.stub("sudo", '[ "$1" != -n ] || shift\nROOT=1 "$@"')
    hints = 'sudo usermod -aG libvirt "$USER"', "log out and in again"
    libvirt.refuses("this user may not use libvirt", *hints, script="setup/libvirt.sh")


def test_libvirt_on_another_distribution(libvirt: Machine) -> None:
    libvirt.without("dpkg-query")
    libvirt.refuses("this is no Debian or Ubuntu", script="setup/libvirt.sh", ROOT="1")


def test_two_setups_install_packages_one_after_the_other(libvirt: Machine) -> None:
    """Else the second one finds apt's index locked, and no package in the old one."""
    libvirt.stub("dpkg-query")
    libvirt.stub("apt-get", "sleep 0.1")
    libvirt.without("mmdebstrap")
    with ThreadPoolExecutor() as pool:
        vm = pool.submit(libvirt.run, "setup/libvirt.sh", ROOT="1")
        own = pool.submit(libvirt.run)
    assert (vm.result().code, own.result().code) == (0, 0)
    assert "Another setup is installing packages" in vm.result().err + own.result().err
    called = [call.split("--")[0].split()[-1] for call in libvirt.calls("apt-get")]
    assert called == ["update", "install"] * 2


# --- CI ---


@pytest.mark.parametrize("code", [0, 2])
def test_ci_run_is_make_test_with_its_exit_code(machine: Machine, code: int) -> None:
    shutil.copytree(REPO / ".ci", machine.root / "repo/.ci")
    machine.stub("make", f"exit {code}")
    result = machine.run(".ci/run")
    assert result.code == code
    assert machine.calls("make") == ["make test"]
    assert re.search(rf"^ci: make test exited {code} after 0 min \d s$", result.out, re.M)


def test_ci_run_that_is_terminated_removes_its_vm(machine: Machine) -> None:
    shutil.copytree(REPO / ".ci", machine.root / "repo/.ci")
    machine.stub("make", "kill $PPID; exec sleep 20")
    machine.stub("faultlab", 'echo "$FAULTLAB_VM_NAME"')
    (machine.root / "repo/.venv/bin").mkdir(parents=True)
    (machine.root / "bin/faultlab").rename(machine.root / "repo/.venv/bin/faultlab")
    result = machine.run(".ci/run")
    assert result.code == 143
    assert re.fullmatch(r"faultlab-ci-[0-9a-f]{8}", result.out.splitlines()[-1])
    assert machine.calls("faultlab") == ["faultlab vm down"]


def test_a_test_run_that_is_terminated_ends_at_once(machine: Machine) -> None:
    """With the part that is running, and before that part would have ended."""
    (machine.root / "repo/tests").mkdir()
    shutil.copy(REPO / "tests/run.sh", machine.root / "repo/tests")
    (machine.root / "repo/.venv/bin").mkdir(parents=True)
    machine.stub("faultlab")
    (machine.root / "bin/faultlab").rename(machine.root / "repo/.venv/bin/faultlab")
    ends = 'trap "echo ended >>$STATE/calls; kill \\$!; exit" TERM; sleep 20 &'
    machine.stub("make", f'[ "$2" != lint ] || {{ {ends} sleep 0.3; kill $PPID; wait; }}')
    result = machine.run("tests/run.sh")
    assert result.code == 130
    assert machine.calls("ended") == ["ended"]


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck here")
def test_scripts_are_shellcheck_clean() -> None:
    scripts = [*(REPO / "setup").glob("*.sh"), REPO / ".ci/run"]
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert done.stdout == ""
