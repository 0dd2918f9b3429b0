"""Digests: what a walk depends on changes them, and nothing else does."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from faultlab.core import paths
from faultlab.lab import loader as labs
from faultlab.lab import services
from faultlab.run import digest
from tests.unit.conftest import Project


@pytest.mark.parametrize(
    ("lab_id", "file", "old", "new"),
    [
        ("mtu", "labs/stack.yaml", "hostname: web", "hostname: www"),
        ("mtu", "labs/mtu/lab.toml", "mtu 1500", "mtu 1400"),
        ("gzip", "labs/gzip/compose.yaml", "rate 10mbit", "rate 11mbit"),
        ("mtu", "checks/test_mtu.py", "at_least(100)", "at_least(99)"),
    ],
)
def test_what_makes_a_lab(lab_id: str, file: str, old: str, new: str, project: Project) -> None:
    before, of_program = digest.walk(lab_id), digest.program(lab_id)
    project.change(file, old, new)
    forget_services()
    assert digest.walk(lab_id) != before
    assert digest.program(lab_id) == of_program
    assert digest.walk("gzip") != digest.walk("mtu")


def forget_services() -> None:
    """Compose files are kept by their paths, as none changes while faultlab runs."""
    services._plan.cache_clear()
    services._read.cache_clear()


def test_a_daemon_that_it_does_not_have_makes_no_lab(project: Project) -> None:
    """A new daemon made every recorded walk stale."""
    before = digest.walk("mtu")
    file = project.root / "labs/stack.yaml"
    text = file.read_text().replace("services:\n", "services:  # of the stack\n", 1)
    daemon = "  again:\n    image: nginx\n    network_mode: service:web\n    volumes: [again:/x]\n"
    text = text.replace("\n  app:\n", f"\n{daemon}  app:\n", 1)
    file.write_text(text.replace("\nvolumes:\n", "\nvolumes:\n  again: {}\n", 1))
    forget_services()
    assert "again" in labs.load("mtu").services.daemons
    assert digest.walk("mtu") == before


def test_what_a_check_imports_from_its_folder_makes_a_lab(project: Project) -> None:
    text = (project.root / "checks/test_mtu.py").read_text()
    project.write("checks/test_mtu.py", f"{text}\nfrom helper import NUMBER\n")
    project.write("checks/helper.py", "NUMBER = 1")
    before = digest.walk("mtu")
    project.write("checks/helper.py", "NUMBER = 2")
    assert digest.walk("mtu") != before


def test_where_a_check_imports_from_makes_no_lab(project: Project) -> None:
    before = digest.walk("mtu"), digest.fault(labs.load("mtu"))
    text = (project.root / "checks/test_mtu.py").read_text()
    project.write("checks/test_mtu.py", f"{text}\nfrom faultlab.core import paths\n")
    assert (digest.walk("mtu"), digest.fault(labs.load("mtu"))) == before


def test_what_is_said_of_a_remedy_makes_no_lab(project: Project) -> None:
    before = digest.walk("mtu")
    project.change("labs/mtu/lab.toml", 'why   = "', 'why   = "In other words: ')
    assert digest.walk("mtu") == before


def test_the_images_make_a_lab(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest.walk("mtu")
    with monkeypatch.context() as now:
        now.setattr("faultlab.lab.images.tag", lambda name: f"another/{name}")
        assert digest.walk("mtu") != before


def test_the_program_that_walks_is_what_its_check_and_conftest_reach() -> None:
    mtu = {file.stem for file in digest.reached("mtu")}
    assert mtu >= {"contract", "run", "check", "stack", "cpu_interference", "connection"}
    assert mtu >= {"connect", "curl"}
    assert "cli" not in {file.parent.name for file in digest.reached("mtu")}
    assert not mtu & {"origins", "wrk", "reliability", "page", "server"}
    assert "wrk" in {file.stem for file in digest.reached("gzip")}


def test_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    program, lab = digest.program("mtu"), digest.walk("mtu")
    fewer = digest.reached("mtu")[1:]
    monkeypatch.setattr(digest, "reached", lambda _: fewer)
    assert digest.program("mtu") != program and digest.walk("mtu") == lab


def test_a_check_that_python_cannot_read_has_one_too(project: Project) -> None:
    before = digest.walk("mtu")
    project.write("checks/test_mtu.py", "def look(:\n")
    assert digest.walk("mtu") != before


def test_the_fault_that_tools_are_examined_on(project: Project) -> None:
    lab = labs.load("mtu")
    before = digest.fault(lab)
    project.write("labs/mtu/README.md", "# nothing")
    assert digest.fault(labs.load("mtu")) == before
    project.write("checks/test_mtu.py", "")
    assert digest.fault(labs.load("mtu")) != before


def test_walks_side_by_side_can_read_their_files() -> None:
    """Python 3.11 raises SystemError if another thread has its turn in the middle of a parse."""
    files = [file.read_text() for file in sorted(paths.checks().glob("test_*.py"))[:16]]
    before = gc.get_threshold()

    def let_others(*_: object) -> None:
        time.sleep(0)

    gc.callbacks.append(let_others)
    gc.set_threshold(5)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert len([*pool.map(digest._parsed, files)]) == len(files) == 16
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(let_others)
