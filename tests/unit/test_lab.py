"""A lab folder: what a mistake in it is told, with file, key and what was expected."""

from __future__ import annotations

import shutil

import pytest

from faultlab.cli.main import VERBS
from faultlab.lab import collection, model, services
from faultlab.lab import loader as labs
from tests.unit.conftest import Project, Run, said

FILE = "labs/mtu/lab.toml"
EDIT = f"edit {FILE}; docs/adding-a-lab.md lists the keys"
PLACES = "client, nginx, php-fpm, web"
DAEMONS = ", ".join(sorted(services.read(collection.ours()).daemons))
INJECT = 'run = "ip link set dev eth0 mtu 100"'
FIX = '[[fix]]\nat  = "web"\nrun = "ip link set dev eth0 mtu 1500"\n'
MINUTES = "minutes    = 15"

LAB = """\
title      = "The port answers, the page never comes"
origin     = "packet-drop case, stage 3"
tier       = "web"
track       = "packets"
daemons    = ["nginx", "php-fpm"]
scope      = "machine"
minutes    = 15
difficulty = 2

[truth]
component = "web"
resource  = "network"
cause     = "mtu"

[[inject]]
at  = "web"
run = "ip link set dev eth0 mtu 100"

[[fix]]
at  = "web"
run = "ip link set dev eth0 mtu 1500"

[[alternative]]
why   = "The announced segment size is made honest."
steps = [{ at = "web", run = "sysctl -w net.ipv4.route.min_adv_mss=40" }]

[[cheat]]
why   = "nginx is well."
steps = [{ at = "nginx", restart = true }]

[[hint]]
cost = 1
text = "Does the request arrive?"
"""
ALONE = [lab_id for lab_id in labs.ids() if lab_id != "mtu" and not labs.load(lab_id).of]
MISTAKES = {
    "unknown key": (MINUTES, f"{MINUTES}\nminuts = 3", "minuts: unknown key"),
    "unknown key of a step": (INJECT, f'{INJECT}\nwhy = "x"', "inject[0].why: unknown key"),
    "text for a number": (
        MINUTES,
        'minutes = "15"',
        "minutes: expected a valid integer, got '15'",
    ),
    "text for a list": (
        'daemons    = ["nginx", "php-fpm"]',
        'daemons = "nginx"',
        "daemons: expected a valid list, got 'nginx'",
    ),
    "number in a list": ('"php-fpm"', "5", "daemons[1]: expected a valid string, got 5"),
    "no such tier": (
        'tier       = "web"',
        'tier = "wbe"',
        "tier: expected one of app, control, data, web, got 'wbe'",
    ),
    "too difficult": (
        "difficulty = 2",
        "difficulty = 9",
        "difficulty: expected less than or equal to 5, got 9",
    ),
    "missing key": (f"{MINUTES}\n", "", "minutes: missing key"),
    "missing key of a table": ('cause     = "mtu"\n', "", "truth.cause: missing key"),
    "one fault of its own": (
        INJECT,
        f"{INJECT}\n[[fault]]\nid = 'mtu'",
        "inject: unknown key (each [[fault]] has its own)",
    ),
    "an unknown fault": (
        MINUTES,
        f'{MINUTES}\nof = ["gzip", "mtv"]',
        f"of[1]: expected one of {', '.join(ALONE)}, got 'mtv'",
    ),
    "a hint for no fault": (
        'text = "Does the request arrive?"',
        'text = "Does it?"\nfault = "gzip"',
        "hint: fault: this lab has one fault, got 'gzip'",
    ),
    "hints for half repairs alone": (
        'text = "Does the request arrive?"',
        'text = "Does it?"\nwhen = { at = "web", run = "true" }'
        '\nhalf = [{ at = "web", run = "true" }]',
        "hint: expected one without when, or one for each fault",
    ),
    "a sign on no machine": (
        'text = "Does the request arrive?"',
        'text = "Does it?"\n[[hint]]\ncost = 1\ntext = "?"\nwhen = { at = "app", run = "true" }'
        '\nhalf = [{ at = "web", run = "true" }]',
        f"hint[1].when.at: expected one of {PLACES}, got 'app'",
    ),
    "half a repair on no machine": (
        'text = "Does the request arrive?"',
        'text = "Does it?"\n[[hint]]\ncost = 1\ntext = "?"\nwhen = { at = "web", run = "true" }'
        '\nhalf = [{ at = "app", run = "true" }]',
        f"hint[1].half[0].at: expected one of {PLACES}, got 'app'",
    ),
    "a sign that no half repair shows": (
        'text = "Does the request arrive?"',
        'text = "Does it?"\nwhen = { at = "web", run = "true" }',
        "hint[0]: expected when and half together",
    ),
    "no cheat": ("[[cheat]]", "[[alternative]]", "cheat: missing key"),
    "bad at": ('at  = "web"', 'at = "wbe"', f"inject[0].at: expected one of {PLACES}, got 'wbe'"),
    "the kernel in a machine's lab": (
        'at  = "web"',
        'at = "kernel"',
        f"inject[0].at: expected one of {PLACES}, got 'kernel'",
    ),
    "bad at of an alternative": (
        '{ at = "web", run = "sysctl',
        '{ at = "app", run = "sysctl',
        f"alternative[0].steps[0].at: expected one of {PLACES}, got 'app'",
    ),
    "bad daemon": (
        '"php-fpm"',
        '"php-fmp"',
        f"daemons[1]: expected one of {DAEMONS}, got 'php-fmp'",
    ),
    "bad ability": (
        MINUTES,
        f'{MINUTES}\nrequires = ["netm"]',
        "requires[0]: expected one of iptables-hashlimit, iptables-statistic, net-sysctl, netem,"
        " tbf, got 'netm'",
    ),
    "two actions in a step": (
        INJECT,
        f"{INJECT}\nrestart = true",
        "inject[0]: expected exactly one of run, restart, limit",
    ),
    "no action in a step": (
        INJECT,
        "",
        "inject[0]: expected exactly one of run, restart, limit",
    ),
    "no limit below zero": (
        INJECT,
        "limit = { cpus = -1 }",
        "inject[0].limit.cpus: expected greater than 0, got -1",
    ),
    "a limit that limits nothing": (
        INJECT,
        "limit = {}",
        "inject[0].limit: expected cpus, memory or pids",
    ),
    "a fault without a fix": (
        FIX,
        "",
        "expected [[inject]] and [[fix]] (only a control has none)",
    ),
    "TOML": (
        "[truth]",
        "[truth",
        "not valid TOML: Expected ']' at the end of a table declaration (at line 10, column 7)",
    ),
    "an id": ("title ", 'id = "mtu"\ntitle ', "id: unknown key (the folder's name is the id)"),
    "a key of a lab that was put together": (
        "title ",
        "folders = []\ntitle ",
        "folders: unknown key",
    ),
    "a key of a lab with decoys": ("title ", "decoys = []\ntitle ", "decoys: unknown key"),
}


def test_a_lab_has_the_faults_of_other_labs() -> None:
    lab, parts = labs.load("packet-loss"), [*map(labs.load, labs.load("packet-loss").of)]
    assert [fault.id for fault in lab.faults] == ["netem-loss", "iptables-drop", "mtu"]
    assert lab.inject == [step for part in parts for step in part.inject]
    assert lab.fix == [step for part in parts for step in part.fix]
    assert lab.requires == ["netem", "iptables-statistic"]
    assert labs.truths(lab) == [lab.truth, *(part.truth for part in parts)]
    assert not labs.load("mtu").several and labs.load("mtu").faults[0].fix == labs.load("mtu").fix


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_lab_toml(name: str, project: Project, faultlab: Run) -> None:
    old, new, problem = MISTAKES[name]
    assert old in LAB
    project.write(FILE, LAB.replace(old, new, 1))
    assert faultlab("start", "mtu") == said(f"{FILE}: {problem}", EDIT)


@pytest.mark.parametrize("name", ["lab.toml", "ticket.md", "README.md"])
def test_a_missing_file(name: str, project: Project, faultlab: Run) -> None:
    (project.root / "labs/mtu" / name).unlink()
    assert faultlab("start", "mtu") == said(
        f"labs/mtu/{name}: missing file; a lab has lab.toml, ticket.md, README.md",
        "see docs/adding-a-lab.md",
    )


def test_a_file_that_is_no_text(project: Project, faultlab: Run) -> None:
    (project.root / "labs/mtu/README.md").write_bytes(b"\xff\xfe lesson")
    assert faultlab("debrief", "mtu") == said(
        "labs/mtu/README.md: not valid UTF-8", "edit labs/mtu/README.md"
    )


@pytest.mark.parametrize(
    ("typed", "problem", "hint"),
    [
        ("mut", "There is no lab called 'mut'; did you mean mtu?", "faultlab start mtu"),
        (
            "iptables",
            "There is no lab called 'iptables'; did you mean iptables-drop?",
            "faultlab start iptables-drop",
        ),
        ("xyzzy", "There is no lab called 'xyzzy'.", "faultlab list"),
        ("../labs/mtu", "There is no lab called '../labs/mtu'.", "faultlab list"),
    ],
)
def test_an_unknown_lab(typed: str, problem: str, hint: str, faultlab: Run) -> None:
    assert faultlab("start", typed) == said(problem, hint)


@pytest.mark.parametrize(
    "verb",
    [name for name in VERBS if any(p.name == "lab" and p.required for p in VERBS[name].params)],
)
def test_an_unknown_lab_is_told_first(verb: str, faultlab: Run) -> None:
    """A typing error is exit 2 whether or not Docker is up."""
    words = ["tshark", "xyzzy"] if verb == "try" else ["xyzzy"]
    assert faultlab(verb, *words) == said("There is no lab called 'xyzzy'.", "faultlab list")


def test_no_labs_at_all(project: Project, faultlab: Run) -> None:
    shutil.rmtree(project.root / "labs")
    assert faultlab("list") == said(
        f"There is no folder {project.root}/labs.", "cd to the project, or unset FAULTLAB_ROOT"
    )


def test_a_template_is_no_lab(project: Project) -> None:
    (project.root / "labs/_template").mkdir(exist_ok=True)
    (project.root / "labs/.git").mkdir()
    assert not [lab_id for lab_id in labs.ids() if lab_id[0] in "_."]


def test_a_kernel_lab_may_change_the_kernel(project: Project) -> None:
    kernel = LAB.replace('scope      = "machine"', 'scope = "kernel"')
    project.write(FILE, kernel.replace('at  = "web"', 'at = "kernel"', 1))
    assert labs.load("mtu").inject[0].at == model.KERNEL


def test_steps_are_listed_with_their_keys() -> None:
    """The keys in error messages come from here, so that no step escapes the check of places."""
    lab = labs.load("iptables-drop")
    keys = [key for key, _ in lab.steps()]
    assert keys[:6] == [
        "inject[0]",
        "inject[1]",
        "fix[0]",
        "fix[1]",
        "alternative[0].steps[0]",
        "alternative[0].steps[1]",
    ]
    last = len(lab.cheat) - 1
    assert f"cheat[{last}].steps[{len(lab.cheat[last].steps) - 1}]" in keys
    assert keys[-1] == "hint[1].half[1]"
