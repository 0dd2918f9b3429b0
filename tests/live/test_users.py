"""Several people on one server, each with a user id of their own, at the same lab at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import faultlab
from faultlab.core import paths

pytestmark = [pytest.mark.rotates(together=True, minutes=2), pytest.mark.beside]
SOCKET = Path("/var/run/docker.sock")
CLASS = """
title = "A class of one"
seats = ["Ada"]
labs  = ["mtu"]
"""


# The environment's own Python can be in a home that no other user can read.
PYTHON = [f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}", "-m", "faultlab"]
PATHS = os.pathsep.join([str(paths.root()), *(path for path in sys.path if "-packages" in path)])


class User:
    """A user id without a name, with a home, who may use Docker and not write in the checkout."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.home = Path(tempfile.mkdtemp(prefix=f"faultlab-home-{uid}-"))
        os.chown(self.home, uid, uid)

    def spawn(self, *arguments: str) -> subprocess.Popen[str]:
        return self.process(*PYTHON, *arguments)

    def process(self, *words: str) -> subprocess.Popen[str]:
        group = str(SOCKET.stat().st_gid)
        become = ["setpriv", "--reuid", str(self.uid), "--regid", group, "--clear-groups"]
        become += ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
        return subprocess.Popen(
            [*become, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"], "PYTHONPATH": PATHS},
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.spawn(*arguments)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def reads(self) -> bool:
        """Return whether Python can read its packages and this checkout as this user."""
        script = "import click, sys; open(sys.argv[1]).read()"
        process = self.process(PYTHON[0], "-c", script, faultlab.__file__)
        process.communicate(timeout=60)
        return process.returncode == 0

    def stacks(self) -> dict[str, str]:
        """Return what status says of each stack that it lists."""
        out = self.run("status", "--json")[1]
        return {row["stack"]: row["state"] for row in json.loads(out)["stacks"]}

    def states(self) -> list[str]:
        """Return the states of the seats of a class."""
        code, out, _ = self.run("class", "status", "math.toml", "--json")
        return [turn["state"] for turn in json.loads(out)["turns"]] if code == 0 else []


def at_once(users: list[User], *arguments: str) -> list[tuple[int, str, str]]:
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda user: user.run(*arguments), users))


@pytest.fixture(scope="module")
def users() -> Iterator[list[User]]:
    """Three users; in the end nothing of theirs is left."""
    if os.getuid() != 0:
        pytest.skip("only root can act for other users")
    made = [User(uid) for uid in (64201, 64202, 64203)]
    try:
        if not made[0].reads():
            pytest.skip("other users cannot read this checkout, or its Python")
        assert made[0].run("--version")[0] == 0
        yield made
    finally:
        at_once(made, "sweep")
        for user in made:
            shutil.rmtree(user.home)
            shutil.rmtree(Path("/tmp", f"faultlab-{user.uid}"), ignore_errors=True)


def own(user: User) -> str:
    """Return how the names of a user's stacks begin."""
    return f"faultlab-{user.uid}-"


def test_the_same_lab_at_once(users: list[User]) -> None:
    """Three users start the same lab at once: each has a stack and a record of their own."""
    started = at_once(users, "start", "mtu")
    assert [code for code, _, _ in started] == [0, 0, 0], started
    ada, *others = users
    there = ada.stacks()
    assert all(any(name.startswith(own(user)) for name in there) for user in users)
    assert [state for name, state in there.items() if "; of 64202 in " in state]
    assert [code for code, _, _ in at_once(users, "check", "mtu")] == [1, 1, 1]
    assert ada.run("fix", "mtu")[0] == 0
    assert [code for code, _, _ in at_once(users, "check", "mtu")] == [0, 1, 1]
    assert all(list((user.home / ".local/state/faultlab/runs").glob("*-mtu-*")) for user in users)
    assert not [run for run in paths.runs().glob("*-mtu-*") if run.stat().st_uid != os.getuid()]

    code, out, _ = ada.run("sweep", "--json")
    assert code == 3 and any("belongs to 64202" in line for line in json.loads(out)["held"])
    left = {name for name in ada.stacks() if name.startswith(tuple(own(user) for user in users))}
    assert len(left) == 2 and not any(name.startswith(own(ada)) for name in left)
    assert [code for code, _, _ in at_once(others, "down", "mtu")] == [0, 0]


def test_a_class_of_the_same_name_at_once(users: list[User]) -> None:
    """Three classes of the same name at once: the end of one is not the end of another."""
    servers = []
    for user in users:
        file = user.home / "math.toml"
        file.write_text(CLASS)
        os.chown(file, user.uid, user.uid)
        servers.append(user.spawn("class", "start", "math.toml", "--port", "0", "--json"))
    try:
        deadline = time.monotonic() + 120
        for user, server in zip(users, servers, strict=True):
            while (states := user.states()) != ["red"]:
                assert server.poll() is None and time.monotonic() < deadline, states
                time.sleep(1)
        code, out, _ = users[0].run("sweep", "--json")
        assert code == 3 and any("class-" in line for line in json.loads(out)["held"])
        assert users[0].run("class", "end", "math.toml")[0] == 0
        left = users[1].stacks()
        assert [any(name.startswith(own(user)) for name in left) for user in users] == [
            False,
            True,
            True,
        ]
    finally:
        at_once(users, "class", "end", "math.toml")
        for server in servers:
            server.communicate(timeout=60)
