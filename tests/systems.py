"""Systems: try set-up and labs elsewhere, and write docs/systems.md from what was seen.

python -m tests.systems debian-13 [--user]  a bare root file system; as root, some minutes
python -m tests.systems debian-13 --package the same from the wheel, without a checkout
python -m tests.systems campaign FILE       take over what `faultlab verify --json FILE` saw
python -m tests.systems arm64               what needs no Docker, by QEMU's user mode
python -m tests.systems plugin              run a lab with Compose as a plugin of `docker`
python -m tests.systems page                write the page again
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE
from typing import Any

from tests.live.bare import RESOLVER, SYSTEMS, bare, shown, wheel, with_network
from tests.live.test_compose_plugin import VERSION

REPO = Path(__file__).resolve().parents[1]
PAGE = REPO / "docs/systems.md"
ROWS = REPO / "docs/systems.json"
LAB = (("lab-mtu", 0), ("check-mtu", 2), ("fix-mtu", 0), ("check-mtu", 0), ("down-mtu", 0))
# From the wheel there is nothing to start with until set-up has installed an Engine.
PACKAGE = (
    *(("pipx install", 0), ("faultlab start mtu", 3), ("faultlab setup", 0)),
    *(("faultlab start mtu", 0), ("faultlab check mtu", 1), ("faultlab fix mtu", 0)),
    *(("faultlab check mtu", 0), ("faultlab down mtu", 0)),
)
STEP = """
step() {
    local began=$SECONDS code=0
    "$@" || code=$?
    echo "=== $2 $code $((SECONDS - began))"
}
"""
FACTS = """
. /etc/os-release
echo "~ system $PRETTY_NAME"
echo "~ machine $(uname -m)"
echo "~ docker $(docker version --format '{{.Server.Version}}')"
echo "~ cgroup $(docker info --format '{{.CgroupVersion}}')"
echo "~ compose $(docker-compose version --short || docker compose version --short)"
echo "~ python $(${PYTHON:-.venv/bin/python} --version | cut -d " " -f 2)"
"""
ASKED = 'sudo usermod -aG docker "$USER"'  # what set-up tells a user to type, who then does

ABOUT = """\
# Systems it was tried on

Each row is a run. `.venv/bin/python -m tests.systems` makes the rows and this page; `systems.json`
also has the kernel, the commit and the minutes of each.

"""
VERSIONS = ("Docker", "Compose", "cgroup", "Python")
COLUMNS = ("system", "where", "user", *VERSIONS, "ran", "seen", "date")
NOT_TRIED = """
A **root file system** is a bare system from mmdebstrap, with `git`, `make`, `sudo` and a clean
clone. It has processes, mounts and a network of its own, and the kernel of its host. Set-up
installs and starts a Docker Engine of that system in it. Then `make` runs the targets in the table.
The first check must say no (`make` ends with 2), and the second yes.

The **user with sudo** is not in the group `docker`, and the path of their checkout has two spaces.
Set-up must stop at the group and say what to type. They type it, log in again and go on.

## What was not tried, or not to its end

| system | why |
|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One system, what was run on it, and what came of it."""

    system: str
    machine: str
    where: str
    user: str
    kernel: str
    docker: str
    compose: str
    cgroup: str
    python: str
    ran: str
    seen: str
    passed: bool
    minutes: float
    date: str
    commit: str

    def key(self) -> tuple[str, ...]:
        """Return what tells it from another row; a later run of the same replaces it."""
        return astuple(self)[:10]


def furnish(tree: Path) -> None:
    """Give the tree what a machine in this network has."""
    resolver = tree / "etc/resolv.conf"
    resolver.unlink(missing_ok=True)
    resolver.write_text(f"nameserver {RESOLVER}\n")
    (tree / "etc/hosts").write_text(f"127.0.0.1 localhost {platform.node()}\n")
    # Where a proxy reads along, pip has to know its certificate.
    if known := os.environ.get("PIP_CERT"):
        shutil.copyfile(known, tree / "srv/ca.crt")
        (tree / "etc/pip.conf").write_text("[global]\ncert = /srv/ca.crt\n")


def move_in(tree: Path, user: str, folder: str) -> None:
    """Give the tree a user with a clean clone."""
    within = ["chroot", str(tree)]
    if user != "root":
        add = ["useradd", "--create-home", "--shell=/bin/bash", "--groups=sudo", user]
        subprocess.run([*within, *add], check=True)
        (tree / "etc/sudoers.d/user").write_text(f"{user} ALL=(ALL) NOPASSWD: ALL\n")
    clone = ["git", "clone", "--quiet", "--no-hardlinks", str(REPO), f"{tree}{folder}"]
    subprocess.run(clone, check=True)
    if user != "root":
        subprocess.run([*within, "chown", "-R", f"{user}:", f"/home/{user}"], check=True)


def script_of(user: str, folder: str) -> tuple[str, list[tuple[str, int]]]:
    """Return what is run inside, and the steps with the exit codes that they must have."""
    there = f"cd {shlex.quote(folder)}\n"
    steps = STEP + "".join(f"step make {target}\n" for target, _ in LAB)
    if user == "root":
        return f"{there}{steps}{FACTS}", list(LAB)
    logins = [f"{there}{STEP}step make {LAB[0][0]}", ASKED, there + steps]
    as_user = "".join(f"su --login {user} --command {shlex.quote(text)}\n" for text in logins)
    return f"{as_user}{there}{FACTS}", [(LAB[0][0], 2), *LAB]


def try_system(name: str, user: str) -> Row:
    """Set a bare system up, run a lab in it, and return what was seen."""
    folder = "/srv/faultlab" if user == "root" else f"/home/{user}/my  labs/faultlab"
    script, wanted = script_of(user, folder)
    began = time.monotonic()
    with bare(name) as tree:
        furnish(tree)
        move_in(tree, user, folder)
        said = with_network(tree, script)
    asked = user == "root" or any(ASKED in line for line in said)
    return row(
        **seen(said, wanted, {"system", "docker", "compose"}, asked),
        where="root file system",
        user=user if user == "root" else "a user with sudo",
        ran="set-up, lab, check, fix, check, down",
        minutes=minutes_since(began),
    )


def try_package(name: str) -> Row:
    """Install the wheel on a bare system, run a lab from it, and return what was seen."""
    began = time.monotonic()
    steps = [line.replace("pipx install", "pipx install /srv/*.whl") for line, _ in PACKAGE]
    script = "\n".join(
        (
            "apt-get update -q && apt-get install -yq pipx",
            "mkdir /srv/empty && cd /srv/empty",
            "export PATH=$PATH:/srv/.local/bin",
            STEP,
            *(f"step {step}" for step in steps),
            "PYTHON=$(sed -n '1s/#!//p' /srv/.local/bin/faultlab)",
            FACTS,
        )
    )
    with bare(name) as tree:
        furnish(tree)
        wheel(tree / "srv")
        said = with_network(tree, script)
    return row(
        **seen(
            said,
            [(line.split()[1], code) for line, code in PACKAGE],
            {"system", "docker", "compose"},
        ),
        where="root file system",
        user="root",
        ran="`pipx install` of the wheel, `faultlab setup`, start, check, fix, check, down",
        minutes=minutes_since(began),
    )


def seen(
    said: list[str], wanted: list[tuple[str, int]], known: set[str], asked: bool = True
) -> dict[str, Any]:
    """Return the facts in the output of steps, and whether each step ended as wanted.

    `known`: facts that must be there. `asked`: set-up has said what it must.
    """
    facts = dict(line[2:].partition(" ")[::2] for line in said if line.startswith("~ "))
    ended = [line.split()[1:] for line in said if line.startswith("=== ")]
    codes = [(step, int(code)) for step, code, _ in ended]
    wrong = [f"{one[0]} ended with {one[1]}" for one in codes if one not in wanted]
    passed = codes == wanted and asked and {*facts} >= known
    verdict = "as it must" if passed else f"**not as it must** {', '.join(wrong)}"
    times = ", ".join(f"{step} {seconds} s" for step, _, seconds in ended)
    return {**facts, "passed": passed, "seen": f"{verdict}: {times}"}


def of_arm64() -> Row:
    """Run on ARM64 what needs no Docker."""
    began = time.monotonic()
    command = [REPO / "tests/live/arm64.sh"]
    # A session of its own, so that Ctrl-C ends what the script has started, too.
    with subprocess.Popen(command, stdout=PIPE, text=True, start_new_session=True) as program:
        try:
            said = shown(program.stdout)
        except BaseException:
            os.killpg(program.pid, signal.SIGTERM)
            raise
    return row(
        **seen(said, [("venv", 0), ("probes", 0)], {"system", "machine"}),
        where="QEMU user mode",
        user="root",
        **dict.fromkeys(("docker", "compose", "cgroup"), "none"),
        ran="`.venv` by set-up, unit tests of the probes",
        minutes=minutes_since(began),
    )


def minutes_since(began: float) -> float:
    """Return the minutes since a reading of the monotonic clock."""
    return round((time.monotonic() - began) / 60, 1)


def row(**known: Any) -> Row:
    """Return a row with the facts that are known, and today's."""
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=REPO)
    rest = {"kernel": platform.release(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    blank = {field.name: "?" for field in fields(Row)}
    return Row(**{**blank, **rest, "commit": commit.decode().strip(), **known})


def host_facts() -> dict[str, str]:
    """Return the versions of this machine."""
    done = subprocess.run(["bash", "-c", FACTS], capture_output=True, text=True, check=False)
    lines = [line[2:] for line in done.stdout.splitlines() if line.startswith("~ ")]
    here = dict(line.partition(" ")[::2] for line in lines)
    return {**here, "python": platform.python_version()}


def of_campaign(file: Path) -> Row:
    """Return what a campaign of verify saw, with the versions from the records of its walks."""
    document = json.loads(file.read_text())
    cases = document["cases"]
    quick = " --quick" if document["campaign"]["quick"] else ""
    which = f"{len(cases)} labs" if len(cases) > 1 else cases[0]["lab"]
    by_verdict: dict[str, list[str]] = {}
    for case in cases:
        by_verdict.setdefault(case["verdict"], []).append(case["lab"])
    seen = [f"{verdict} {len(its)}: {', '.join(its)}" for verdict, its in by_verdict.items()]
    names = [case["run"] for case in cases if case["run"]]
    runs = [json.loads((REPO / "runs" / name / "run.json").read_text()) for name in names]
    keys = ("system", "docker", "cgroup", "kernel", "engine")
    (facts,) = {tuple(run[key] for key in keys) for run in runs}
    known = dict(zip(keys, facts, strict=True))
    engine = known.pop("engine")
    return row(
        **{**host_facts(), **known},
        where="lab VM" if engine == "vm" else "this machine",
        user="root",
        ran=f"`faultlab verify{quick}` of {which}",
        seen="; ".join(seen),
        passed=all(case["verdict"] == "pass" for case in cases),
        minutes=round(sum(case["seconds"] for case in cases) / 60, 1),
        date=runs[0]["started"][:10],
        commit=runs[0]["commit"],
    )


def of_plugin() -> Row:
    """Run the test that builds Compose as a plugin and walks a lab with it."""
    test = "tests/live/test_compose_plugin.py"
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-rs", test]
    env = {**os.environ, "LONG": "1"}
    done = subprocess.run(command, cwd=REPO, env=env, capture_output=True, text=True, check=False)
    print(done.stdout)
    passed = done.returncode == 0 and " skipped" not in done.stdout
    return row(
        **{**host_facts(), "compose": f"{VERSION.lstrip('v')}, a plugin of `docker`"},
        where="this machine",
        user="root",
        ran=f"`{test}`: built from its module, start, fix, check, down",
        seen="as it must" if passed else "**not as it must**",
        passed=passed,
        minutes=minutes_since(began),
    )


def page() -> str:
    """Return docs/systems.md as the recorded rows make it."""
    document = json.loads(ROWS.read_text())
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for found in document["rows"]:
        cells = {**found, "system": f"{found['system']}, {found['machine']}"}
        lines.append(f"| {' | '.join(cells[name.lower()] for name in COLUMNS)} |")
    missing = [f"| {name} | {why} |" for name, why in document["not tried"].items()]
    return ABOUT + "\n".join(lines) + "\n" + NOT_TRIED + "\n".join(missing) + "\n"


def keep(new: Row) -> None:
    """Add a row, in place of an earlier one of the same, and write the page."""
    document = json.loads(ROWS.read_text())
    old = [Row(**found) for found in document["rows"]]
    rows = sorted([*(row for row in old if row.key() != new.key()), new], key=Row.key)
    ROWS.write_text(
        json.dumps({**document, "rows": [asdict(row) for row in rows]}, indent=1) + "\n"
    )


def main() -> int:
    """Try one system, record what was seen and write the page.

    Returns 1 if the system failed, 3 if the trial did not begin.
    """
    words = argparse.ArgumentParser(prog="python -m tests.systems")
    words.add_argument("what", choices=[*SYSTEMS, "arm64", "campaign", "plugin", "page"])
    words.add_argument("file", nargs="?", type=Path)
    words.add_argument("--user", action="store_true", help="as a user with sudo, not as root")
    words.add_argument("--package", action="store_true", help="from the wheel, as root")
    asked = words.parse_args()
    new = None
    if asked.what in SYSTEMS:
        user = "learner" if asked.user else "root"
        new = try_package(asked.what) if asked.package else try_system(asked.what, user)
    elif asked.what == "campaign":
        new = of_campaign(asked.file)
    elif asked.what == "arm64":
        new = of_arm64()
    elif asked.what == "plugin":
        new = of_plugin()
    if new and new.system == "?":
        print("nothing was tried: read the lines above", file=sys.stderr)
        return 3
    if new:
        keep(new)
    PAGE.write_text(page())
    return 0 if new is None or new.passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
