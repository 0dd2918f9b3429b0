"""An installed package: where its files are, what it writes, and what a person types there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from faultlab.core import extra, git, make, naming, paths
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal, typable
from faultlab.engine.vm import libvirt
from faultlab.lab import images
from tests.unit.conftest import REPO, Project, Run

SHARED = ("labs", "decoys", "images", "checks", "tools", "setup", "deploy")
DOCS = tuple(f"docs/{name}.json" for name in ("decoys", "judge", "together"))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """faultlab as pip installs it, in the home of a user with a repository of their own."""
    share = tmp_path / "venv/lib/python3.11/site-packages/faultlab/share"
    share.mkdir(parents=True)
    for name in [*SHARED, "Vagrantfile", "collection.toml"]:
        (share / name).symlink_to(REPO / name)
    monkeypatch.setattr(paths, "_PACKAGE", share.parent)
    monkeypatch.setenv("HOME", str(tmp_path))
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    commit = ["git", "-C", str(tmp_path), *who, "commit", "-qm", "x", "--allow-empty"]
    subprocess.run(commit, check=True)
    return share


def test_its_files_are_found_and_never_written(package: Path, tmp_path: Path) -> None:
    assert (paths.root(), paths.checkout(), paths.installed()) == (package, None, True)
    for folder in (paths.runs(), paths.classes(), paths.vm(), paths.vagrant(), paths.cache()):
        assert folder.is_relative_to(tmp_path) and not folder.is_relative_to(package)
    assert paths.state() == tmp_path / ".local/state/faultlab"
    assert paths.show(paths.labs() / "mtu") == str(package / "labs/mtu")
    env = libvirt._cwd()
    assert env["VAGRANT_CWD"] == str(package)
    assert (env["FAULTLAB_VM_DIR"], env["VAGRANT_DOTFILE_PATH"]) == (
        str(tmp_path / ".cache/faultlab/vm"),
        str(tmp_path / ".cache/faultlab/vagrant"),
    )


def test_a_state_of_ones_own(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTLAB_STATE", "mine")
    assert paths.state() == tmp_path / ".local/state/faultlab/mine"
    monkeypatch.setenv("FAULTLAB_STATE", "/srv/mine")
    assert paths.state() == Path("/srv/mine")
    monkeypatch.setenv("FAULTLAB_ROOT", str(REPO))
    assert (paths.root(), paths.installed()) == (REPO, False)


def test_a_checkout_is_as_it_was() -> None:
    assert (paths.root(), paths.checkout(), paths.home()) == (REPO, REPO, REPO)
    assert (paths.vm(), paths.vagrant()) == (REPO / ".vm", REPO / ".vagrant")
    assert make.plain("make check-mtu") == "make check-mtu"


@pytest.mark.usefixtures("package")
def test_the_repository_around_it_is_not_its_own() -> None:
    git.commits.cache_clear()
    assert (git.commits(), git.says("describe", "--always")) == (0, "")
    git.commits.cache_clear()


@pytest.mark.usefixtures("package")
def test_its_stacks_have_a_name_that_a_new_python_does_not_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FAULTLAB_NAMESPACE")
    before = naming.stack_name("mtu"), naming.owner()
    other = tmp_path / "venv/lib/python3.13/site-packages/faultlab"
    (other / "share").mkdir(parents=True)
    monkeypatch.setattr(paths, "_PACKAGE", other)
    assert (naming.stack_name("mtu"), naming.owner()) == before
    assert before[1].endswith(f" in {tmp_path}/.local/state/faultlab")


def test_the_program_of_a_folder(package: Path, tmp_path: Path) -> None:
    assert paths.program(package) == tmp_path / "venv/bin/faultlab"
    assert paths.program(REPO) == REPO / ".venv/bin/faultlab"


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("words", [("docs",), ("transcript", "mtu"), ("bundle",)])
def test_what_needs_a_checkout_says_so(words: tuple[str, ...], faultlab: Run) -> None:
    result = faultlab(*words)
    needs = f"faultlab: `faultlab {words[0]}` needs a checkout of the project"
    assert (result.code, result.err.startswith(needs), result.err.count("\n")) == (3, True, 2)
    assert f"next: cd to a checkout, then: .venv/bin/faultlab {words[0]}" in result.err


@pytest.mark.usefixtures("package")
def test_pages_name_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotRun, match="need starlette") as caught, extra.needed("page"):
        raise ModuleNotFoundError("x", name="starlette")
    assert caught.value.hint == f"{sys.executable} -m pip install 'faultlab[web]'"
    (tmp_path / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(CannotRun) as caught, extra.needed("page"):
        raise ModuleNotFoundError("x", name="starlette")
    assert caught.value.hint == "pipx inject faultlab 'faultlab[web]'"


def missing(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Let a package be one that is not installed."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else real(name)
    )
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize(
    ("words", "package", "of"),
    [(("plot", "bandwidth"), "matplotlib", "plot"), (("verify", "mtu"), "pytest", "verify")],
)
def test_what_few_verbs_need_is_an_extra(
    words: tuple[str, ...],
    package: str,
    of: str,
    *,
    project: Project,
    faultlab: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Matplotlib with what it needs is 133 MB of 165, and a learner draws and verifies nothing."""
    (recorded,) = (REPO / "tests/recorded/runs").glob("*-bandwidth-????")
    folder = project.root / "runs" / recorded.name
    shutil.copytree(recorded, folder)
    assert faultlab("report", folder.name).code == 0
    whole = (folder / "report.html").read_text()
    missing(monkeypatch, package)
    result = faultlab(*words)
    assert result.code == 3 and f"{package}, which is not installed." in result.err
    assert result.err.endswith(f"\n  next: {extra.installer(of)}\n")
    assert faultlab("report", folder.name).code == 0
    said = (folder / "report.html").read_text()
    assert ("sweep is not drawn" in said) == (package == "matplotlib")
    assert "sweep is not drawn" not in whole


def test_pages_in_a_checkout_are_one_make_away() -> None:
    with pytest.raises(CannotRun) as caught, extra.needed("page"):
        raise ModuleNotFoundError("x", name="starlette")
    assert caught.value.hint == "make page"


# --- what a person types ---


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("make check-mtu", "faultlab check mtu"),
        ("Next: make debrief-php-workers", "Next: faultlab debrief php-workers"),
        ("make shell-mtu AT=web", "faultlab shell mtu web"),
        ("make class CLASS=a.toml", "faultlab class start a.toml"),
        ("make reset-mtu fix-mtu", "faultlab reset mtu; faultlab fix mtu"),
        ("make down-mystery mystery", "faultlab down mystery; faultlab mystery"),
        ("make vm-down", "faultlab vm down"),
        ("make lab-ID. The next: make next", "faultlab start ID. The next: faultlab next"),
        ("make check-mystery, or x", "faultlab check mystery, or x"),
        ("  make check-mtu                 now", "  faultlab check mtu             now"),
        ("apply it (FAULT=1: one fault)", "apply it (add 1: one fault)"),
        ("they make it and make room", "they make it and make room"),
    ],
)
def test_make_is_said_where_it_is(said: str, typed: str) -> None:
    assert make.plain(said) == typed


def targets() -> dict[str, str]:
    """Return the recipe of each target of the Makefile that calls faultlab."""
    text = (REPO / "Makefile").read_text()
    found = re.findall(r"^([a-z%-]+):[^\n]*\n\t@\$\(FAULTLAB\) ([^\n$]+)", text, re.MULTILINE)
    recipes = {target: verb.strip() for target, verb in found}
    return recipes | {"setup": "setup"}  # it has two steps, and the verb takes both


@pytest.mark.usefixtures("package")
def test_what_is_typed_for_a_target_is_its_recipe() -> None:
    for target, recipe in targets().items():
        said = f"make {target.replace('%', 'mtu')}"
        if (typed := make.plain(said)) != said:
            verb = typed.removeprefix("faultlab ").removesuffix(" mtu").split()
            assert recipe.split()[: len(verb)] == verb, said


@pytest.mark.usefixtures("package")
def test_every_target_that_a_message_names_is_known() -> None:
    of_labs = "|".join(target[:-2] for target in targets() if "%" in target)
    others = "|".join(target for target in targets() if "%" not in target)
    named = re.compile(rf"[\"'`]make ((?:{of_labs})-[{{a-z]|(?:{others})\b)")
    for file in [*REPO.glob("faultlab/**/*.py"), *REPO.glob("labs/*/lab.toml")]:
        for line in file.read_text().splitlines():
            if named.search(line) and file.name != "make.py":
                assert "faultlab " in make.plain(re.sub(r"\{[^}]*\}", "mtu", line)), line


@pytest.mark.usefixtures("package")
def test_a_problem_names_the_installed_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/bin")
    beside = Path(sys.executable).parent
    Terminal(as_json=True).problem(CannotRun("No.", "make setup"))
    said = capsys.readouterr()
    assert json.loads(said.out)["next"] == "faultlab setup"
    assert said.err == f"faultlab: No.\n  next: {beside}/faultlab setup\n"
    assert typable("docker start x") == "docker start x"


# --- the wheel ---


def test_what_pip_compiles_is_no_part_of_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTLAB_ROOT", str(tmp_path))
    for name in ("base", "web"):
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "Dockerfile").write_text("FROM x\n")
    before = images.tag("web")
    images.tag.cache_clear()
    (tmp_path / "images/web/__pycache__").mkdir()
    (tmp_path / "images/web/__pycache__/look.cpython-311.pyc").write_bytes(b"x")
    assert images.tag("web") == before


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this checkout."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(build, cwd=REPO, env=env, check=True, capture_output=True)
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_the_wheel_has_all_that_git_has(wheel: zipfile.ZipFile) -> None:
    others = ("Vagrantfile", "collection.toml", *DOCS)  # links in release/share
    listed = ["git", "ls-files", "-z", "--", "faultlab", *others, *SHARED]
    done = subprocess.run(listed, cwd=REPO, capture_output=True, text=True, check=True)
    inside = {i.filename: i for i in wheel.infolist() if ".dist-info/" not in i.filename}
    wanted = [name for name in done.stdout.rstrip("\0").split("\0") if (REPO / name).exists()]
    found = {
        name: name if name.startswith("faultlab/") else f"faultlab/share/{name}" for name in wanted
    }
    assert set(inside) == set(found.values())
    for name, there in found.items():
        assert wheel.read(there) == (REPO / name).read_bytes()
        bits = inside[there].external_attr >> 16 & 0o111
        assert bool(bits) == bool((REPO / name).stat().st_mode & 0o111), name


def test_the_wheel_has_its_licences_and_ranges(wheel: zipfile.ZipFile) -> None:
    names = [name for name in wheel.namelist() if "/licenses/" in name]
    licences = {name.partition("/licenses/")[2] for name in names}
    assert {"LICENSE", "NOTICE", "faultlab/report/uplot.LICENSE"} <= licences
    metadata = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
    text = wheel.read(metadata).decode()
    assert "\nLicense-Expression: Apache-2.0\n" in text
    assert "\nRequires-Dist: click<9,>=8.5\n" in text and not re.search(r"[\w\]]==\d", text)
