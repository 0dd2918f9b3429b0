"""Names: each user and each checkout has stacks of its own without asking for it."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from faultlab.core import naming


@pytest.fixture(autouse=True)
def unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No namespace is set; there is a home with the usual checkout."""
    monkeypatch.delenv("FAULTLAB_NAMESPACE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FAULTLAB_ROOT", str(tmp_path / "faultlab"))
    monkeypatch.setattr(getpass, "getuser", lambda: "Anna.B")


def test_the_usual_checkout_has_the_name_of_its_user() -> None:
    assert naming.stack_name("mtu") == "faultlab-anna-b-mtu"
    assert naming.verify_namespace() == "anna-b-verify"
    assert naming.judge_namespace() == "anna-b-judge"


def test_another_checkout_and_another_user_have_other_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usual = naming.stack_name("mtu")
    monkeypatch.setenv("FAULTLAB_ROOT", str(tmp_path / "another"))
    another = naming.stack_name("mtu")
    monkeypatch.setattr(getpass, "getuser", lambda: "bob")
    assert len({usual, another, naming.stack_name("mtu")}) == 3
    assert another.startswith("faultlab-anna-b-") and another.endswith("-mtu")


def test_a_namespace_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert naming.prefix_of_all() == "faultlab-"
    monkeypatch.setenv("FAULTLAB_NAMESPACE", "mine")
    assert naming.stack_name("mtu") == "faultlab-mine-mtu"
    assert naming.prefix_of_all() == naming.prefix() == "faultlab-mine-"
    monkeypatch.setenv("FAULTLAB_NAMESPACE", "")
    assert naming.stack_name("mtu") == "faultlab-mtu"


@pytest.mark.parametrize("error", [KeyError("uid not found"), OSError("no name")])
def test_a_user_without_a_name(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", nobody)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert naming.stack_name("mtu") == "faultlab-4711-mtu"
