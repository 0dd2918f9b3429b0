"""The wheel, installed by pip in a folder without a checkout: a lab from the ticket to the end."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from faultlab.core import naming
from tests.live.bare import wheel
from tests.live.commandline import ended

pytestmark = [
    pytest.mark.beside,
    pytest.mark.rotates(together=True, minutes=3),
]


@dataclass(frozen=True)
class Installed:
    """A virtual environment with faultlab, beside the home of its user and an empty folder."""

    venv: Path
    user: Path

    @property
    def share(self) -> Path:
        return next(self.venv.glob("lib/python*/site-packages/faultlab/share"))

    def run(self, *words: str) -> tuple[int, str]:
        """Type `faultlab` with these words in an empty folder: exit code and output."""
        ours = ("PYTHON", "FAULTLAB")
        env = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        return ended(
            ["faultlab", *words],
            cwd=self.user / "empty",
            env={
                **env,
                "PATH": f"{self.venv}/bin:{env['PATH']}",
                "FAULTLAB_NAMESPACE": f"{naming.namespace()}-wheel",
                "XDG_STATE_HOME": str(self.user / "state"),
                "XDG_CACHE_HOME": str(self.user / "cache"),
            },
            timeout=900,
        )

    def files(self) -> dict[str, str]:
        """Return a digest of each file of the package, without what Python compiles."""
        return {
            str(file): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in self.share.parent.rglob("*")
            if file.is_file() and "__pycache__" not in file.parts
        }


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """faultlab from its wheel, with the dependencies that pip chooses from its ranges."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "user/empty").mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    install = [str(folder / "venv/bin/pip"), "install", "--quiet"]
    subprocess.run([*install, f"{wheel(folder)}[verify]"], check=True)
    return Installed(folder / "venv", folder / "user")


def test_a_lab_without_a_checkout(installed: Installed) -> None:
    before = installed.files()
    try:
        code, said = installed.run("start", "mtu")
        assert code == 0, said
        assert "  faultlab check mtu " in said and "make " not in said
        code, said = installed.run("check", "mtu")
        assert (code, "mtu is not fixed yet.\n  next: faultlab hint mtu" in said) == (1, True), said
        assert installed.run("fix", "mtu")[0] == 0
        code, said = installed.run("check", "mtu")
        assert (code, "Next: faultlab debrief mtu" in said) == (0, True), said
        assert installed.run("debrief", "mtu")[0] == 0
    finally:
        code, said = installed.run("down", "mtu")
    assert code == 0, said
    code, said = installed.run("verify", "mtu", "--quick")
    assert code == 0, said
    assert installed.files() == before
    assert len(list((installed.user / "state/faultlab/runs").glob("*-mtu*/run.json"))) == 2
    assert list((installed.user / "empty").iterdir()) == []


def test_what_a_package_refuses_names_the_next_command(installed: Installed) -> None:
    for words in (("docs",), ("bundle",), ("page",), ("class", "start", "x.toml")):
        code, said = installed.run(*words)
        assert code in (2, 3), said
        assert said.startswith("faultlab: ") and said.count("\n") == 2, said
        assert "\n  next: " in said, said
