"""A release: what is refused before anything is built, and what the SBOM says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from faultlab import __version__
from release import sbom
from tests.unit.conftest import REPO

VERSION = "9.8.7"


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with what release.sh reads before it builds, tagged as it should be."""
    for name in ("release", "setup"):
        shutil.copytree(REPO / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "faultlab").mkdir()
    (tmp_path / "faultlab/__init__.py").write_text(f'__version__ = "{VERSION}"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION}\n\n- New.\n\n## 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "all")
    git(tmp_path, "tag", f"v{VERSION}")
    return tmp_path


def refused(checkout: Path, python3: str = "exit 1") -> str:
    """Run it with a Python that installs nothing, and return what it says."""
    (checkout / ".git/bin").mkdir()
    python = checkout / ".git/bin/python3"
    python.write_text(f"#!/bin/sh\n{python3}\n")
    python.chmod(0o755)
    done = subprocess.run(
        [checkout / "release/release.sh"],
        env={"PATH": f"{python.parent}:/usr/bin:/bin", "TMPDIR": str(checkout / ".git")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (checkout / "dist").exists()
    return f"{done.returncode} {done.stderr}"


def test_changes_are_refused(checkout: Path) -> None:
    (checkout / "new").touch()
    assert refused(checkout) == (
        "2 faultlab release: this checkout has changes\n  next: git status\n"
    )


@pytest.mark.parametrize("tag", ["", "v1.0.0", f"v{VERSION}.1"])
def test_a_tag_that_is_not_the_version_is_refused(tag: str, checkout: Path) -> None:
    git(checkout, "tag", "-d", f"v{VERSION}")
    if tag:
        git(checkout, "tag", tag)
    said = refused(checkout)
    assert said.startswith(f"2 faultlab release: this commit has no tag v{VERSION}")
    assert said.endswith(f"  next: git tag v{VERSION}\n")


def test_a_version_without_notes_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- x\n")
    git(checkout, "commit", "-qam", "none")
    git(checkout, "tag", "-f", f"v{VERSION}")
    assert refused(checkout) == (
        f"2 faultlab release: CHANGELOG.md has no section '## {VERSION}'\n"
        "  next: edit CHANGELOG.md\n"
    )


def test_tools_that_cannot_be_installed_are_told(checkout: Path) -> None:
    """It comes so far only if nothing above was refused."""
    said = refused(checkout)
    assert said.startswith("3 Installing the tools of a release.\n")
    assert "faultlab release: pip could not install them\n  next: less " in said


def test_a_log_is_kept_where_no_link_leads_elsewhere(checkout: Path) -> None:
    mine = checkout / ".git/mine"
    mine.write_text("mine")
    (checkout / ".git/faultlab-release.log").symlink_to(mine)
    assert "pip could not install them" in refused(checkout)
    assert mine.read_text() == "mine"


# A Python whose environment has tools that build nothing.
_TOOLS = """case "$*" in *"-m venv"*) for dir; do :; done
mkdir -p "$dir/bin"; cd "$dir/bin"; printf '#!/bin/sh\\n' | tee python cyclonedx-py >/dev/null
printf '#!/bin/sh\\nmkdir -p "$3"' >hatchling; chmod +x * ;;
esac"""


def test_images_that_are_not_known_end_it(checkout: Path) -> None:
    (checkout / ".git/info/exclude").write_text(".venv\n")
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/faultlab").write_text("#!/bin/sh\necho no engine >&2; exit 1\n")
    (checkout / ".venv/bin/faultlab").chmod(0o755)
    said = refused(checkout, _TOOLS)
    assert said.startswith("3 ")
    assert said.endswith("Listing what is in it.\nno engine\n")


def test_the_version_is_in_one_place() -> None:
    assert (REPO / "faultlab/__init__.py").read_text().endswith(f'__version__ = "{__version__}"\n')
    assert 'dynamic = ["version"]' in (REPO / "pyproject.toml").read_text()


# --- the SBOM ---


def test_a_debian_package_is_named_once_with_its_images() -> None:
    lines = "faultlab/a:1\tlibc6\t2.36-9+deb12u1\tamd64\nfaultlab/b:2\tlibc6\t2.36-9+deb12u1\tamd64"
    assert list(sbom.debian(lines)) == [
        {
            "type": "library",
            "bom-ref": "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?arch=amd64",
            "name": "libc6",
            "version": "2.36-9+deb12u1",
            "purl": "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?arch=amd64",
            "properties": [
                {"name": "faultlab:image", "value": "faultlab/a:1"},
                {"name": "faultlab:image", "value": "faultlab/b:2"},
            ],
        }
    ]


def test_every_copy_of_the_notice_is_in_it() -> None:
    notice = (REPO / "NOTICE").read_text()
    found = {part["purl"]: part for part in sbom.copies(notice)}
    assert len(found) == notice.count("\n  files ")
    assert found["pkg:npm/uplot@1.6.32"]["licenses"] == [{"license": {"id": "MIT"}}]
    assert "pkg:npm/%40xterm/xterm@6.0.0" in found


def test_a_copy_without_an_origin_is_refused() -> None:
    with pytest.raises(ValueError, match="where is this from"):
        list(sbom.copies("thing 1.0, MIT\n  files     faultlab/x.js\n"))


def test_the_document_is_about_faultlab() -> None:
    ours = sbom.component("pkg:deb/debian/x@1", "x", "1")
    theirs = {"bom-ref": "click", "name": "click", "type": "library"}
    bom = {
        "specVersion": "1.6",
        "metadata": {"tools": {}},
        "components": [theirs],
        "dependencies": [{"ref": "click"}, {"ref": "root-component"}],
    }
    whole = sbom.complete(bom, VERSION, [ours])
    assert whole["metadata"]["component"]["version"] == VERSION
    assert whole["components"] == [theirs, ours]
    assert whole["dependencies"] == [
        {"ref": f"pkg:pypi/faultlab@{VERSION}", "dependsOn": ["click", "pkg:deb/debian/x@1"]},
        {"ref": "click"},
        {"ref": "pkg:deb/debian/x@1"},
    ]
