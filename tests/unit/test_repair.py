"""Repairs that people try: what a mistake in repairs.toml is told, and what they leave alone."""

from __future__ import annotations

import pytest

from faultlab.core.errors import BadInput
from faultlab.lab import loader as labs
from faultlab.lab.model import Limit
from faultlab.run import digest, inject
from faultlab.run.run import Run as Walk
from tests.unit.conftest import REPO, Project
from tests.unit.fake import FakeEngine, FakeMachine

FILE = "labs/mtu/repairs.toml"
GOOD = """\
[[repair]]
title    = "Clamp the MSS"
expected = "accept"
kind     = "public"
why      = "Clients then send segments that fit."
source   = "Clamp mss to pmtu, GitHub a/b PR 86"
steps    = [{ at = "web", run = "iptables -A OUTPUT -j TCPMSS --clamp-mss-to-pmtu" }]

[[repair]]
title    = "TCP probes for the MTU"
expected = "refuse"
kind     = "public"
why      = "Probing changes what web sends."
source   = "TCP MTU Path Discovery, example.org"
steps    = [
  { at = "web", run = "sysctl -w net.ipv4.tcp_mtu_probing=1" },
  { at = "nginx", limit = { pids = -1 } },
]
when     = { at = "web", run = "sysctl -n net.ipv4.tcp_mtu_probing | grep -qx 1" }
"""
SECOND = 'title    = "TCP probes for the MTU"'
MISTAKES = {
    "none": (GOOD, "", "repair: missing key"),
    "a kind": (
        'kind     = "public"\nwhy      = "Cl',
        'kind = "pubic"\nwhy = "Cl',
        "repair[0].kind",
    ),
    "a verdict": ('"accept"', '"pass"', "repair[0].expected: expected 'accept' or 'refuse'"),
    "no source": ('source   = "Clamp mss to pmtu, GitHub a/b PR 86"\n', "", "expected source if"),
    "a source of one's own": ('kind     = "public"', 'kind = "own"', "expected source if"),
    "twice": (SECOND, 'title = "Clamp the MSS"', "got two of 'Clamp the MSS'"),
    "no machine": ('at = "web", run = "ip', 'at = "wbe", run = "ip', "repair[0].steps[0].at"),
    "no daemon": ('at = "nginx"', 'at = "web"', "repair[1].steps[1].at: expected one of nginx, ph"),
    "a sign": ('when     = { at = "web"', 'when = { at = "app"', "repair[1].when.at"),
    "half of a right one": ('"refuse"', '"accept"', "repair[1]: when: expected only for kind"),
    "no process": ("pids = -1", "pids = 0", "pids: expected a number from 1 up, or -1"),
    "a key": ("title ", "number = 1\ntitle ", "repair[0].number: unknown key"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake(mistake: str, project: Project) -> None:
    old, new, text = MISTAKES[mistake]
    assert old in GOOD
    project.write(FILE, GOOD.replace(old, new, 1))
    with pytest.raises(BadInput) as found:
        labs.repairs(labs.load("mtu"))
    assert text in found.value.message and found.value.message.startswith(f"{FILE}: ")
    assert found.value.exit_code == 2
    assert found.value.hint == f"edit {FILE}; docs/adding-a-lab.md lists the keys"


def test_it_is_read(project: Project) -> None:
    project.write(FILE, GOOD)
    clamp, probing = labs.repairs(labs.load("mtu"))
    assert (clamp.expected, clamp.kind, clamp.when) == ("accept", "public", None)
    assert probing.when and probing.when.at == "web"


def test_a_lab_without_the_file_has_none(project: Project) -> None:
    (project.root / FILE).unlink(missing_ok=True)
    assert labs.repairs(labs.load("mtu")) == []


@pytest.mark.parametrize(
    "file", sorted(REPO.glob("labs/*/repairs.toml")), ids=lambda f: f.parent.name
)
def test_each_file_is_right(file: str) -> None:
    lab = labs.load_folder(REPO / "labs" / str(file).split("/")[-2])
    assert labs.repairs(lab)


def test_no_walk_depends_on_it(project: Project) -> None:
    lab = labs.load("mtu")
    (project.root / FILE).unlink(missing_ok=True)
    before = digest.walk("mtu"), digest.fault(lab)
    project.write(FILE, GOOD)
    assert (digest.walk("mtu"), digest.fault(lab)) == before


def test_its_own_digest(project: Project) -> None:
    """The words about a repair change nothing; its steps, the fault and the check do."""
    lab = labs.load("mtu")
    project.write(FILE, GOOD)
    of, each = digest.repairs(lab), labs.repairs(lab)
    assert of(each[0]) != of(each[1])
    other = each[0].model_copy(update={"why": "x", "title": "x"})
    assert of(other) == of(each[0])
    project.change("labs/mtu/lab.toml", "[[cheat]]\n", "[[cheat]]\n# another\n")
    assert digest.repairs(labs.load("mtu"))(each[0]) == of(each[0])
    project.change("labs/mtu/lab.toml", "mtu 100", "mtu 99")
    assert digest.repairs(labs.load("mtu"))(each[0]) != of(each[0])
    project.change("labs/mtu/lab.toml", "mtu 99", "mtu 100")
    project.change("checks/test_mtu.py", "at_least(100)", "at_least(99)")
    assert digest.repairs(lab)(each[0]) != of(each[0])


def test_a_limit_of_processes(project: Project) -> None:
    assert Limit(pids=300).flags == "--pids-limit 300"
    assert Limit(cpus=1, pids=-1).flags == "--cpus 1 --pids-limit -1"
    project.write(FILE, GOOD)
    run = Walk.begin(FakeEngine(), labs.load("mtu"), "faultlab-mtu")
    inject.apply(run.stack, labs.repairs(run.lab)[1].steps[1:])
    nginx = run.stack["nginx"]
    assert isinstance(nginx, FakeMachine) and nginx.limits == (None, None, -1)
    run.down()
