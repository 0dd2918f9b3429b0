"""Flame: the picture of a lab under its own load, opened in a browser, and what is left of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.naming import stack_name
from faultlab.engine import stack
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.vm import libvirt
from faultlab.lab import release
from faultlab.probes.perf import PREEMPTED
from tests.live.commandline import finish, kill_9, spawn

pytestmark = pytest.mark.rotates(together=True, minutes=1.5)

LAB = "port-range"
_SVG = "{http://www.w3.org/2000/svg}"
_CALLS = re.compile(r"\bsrc=|href=|url\((?!#)|@import|fetch\(|XMLHttpRequest|import\(")
# What a browser is asked to do with the picture before it prints what has become of it.
_CLICKS = """<script><![CDATA[ window.addEventListener("load", function () {
  document.getElementsByClassName("func_g")[9].onclick(); search("inet_hash_connect"); });
]]></script></svg>"""


@pytest.fixture(scope="module")
def up() -> Iterator[None]:
    """The lab, as a learner has it."""
    LocalEngine().images.ensure(lambda _: None)
    code, said = finish(spawn("start", LAB, "--engine", "local"))
    assert code == 0, said
    yield
    assert finish(spawn("sweep"))[0] == 0


@pytest.fixture
def up_in_the_vm() -> Iterator[None]:
    """The same on the VM's kernel."""
    if libvirt.state() != "running":
        pytest.skip(f"the lab VM is {libvirt.state()}: make vm")
    code, said = finish(spawn("start", LAB, "--engine", "vm"))
    assert code == 0, said
    yield
    assert finish(spawn("down", LAB))[0] == 0


def flame(*options: str) -> dict[str, Any]:
    """Type the command and read what it says."""
    code, said = finish(spawn("flame", LAB, "--json", *options))
    assert code == 0, said
    told: dict[str, Any] = json.loads(said)
    return told


@pytest.fixture(scope="module")
def told(up: None) -> dict[str, Any]:
    """One recording, for all that look at it."""
    return flame()


def helpers() -> list[str]:
    """Containers of ours that are no part of the stack."""
    labelled = LocalEngine().containers(stack=stack_name(LAB))
    return [str(c.name) for c in labelled if "com.docker.compose.service" not in c.labels]


def share(folded: str, function: str) -> float:
    """The share of the samples with a function in the stack."""
    rows = [line.rsplit(" ", 1) for line in folded.splitlines()]
    hits = sum(int(count) for frames, count in rows if function in frames.split(";"))
    return hits / sum(int(count) for _, count in rows)


def test_one_file_with_everything_in_it(told: dict[str, Any]) -> None:
    """It is XML, and refers to nothing outside."""
    text = Path(told["file"]).read_text()
    drawn = ET.fromstring(text)
    assert drawn.tag == f"{_SVG}svg"
    assert len(drawn.findall(f".//{_SVG}rect")) > 50
    assert not _CALLS.search(text.replace("xmlns:xlink=", ""))


def test_it_shows_who_worked_and_on_what(told: dict[str, Any]) -> None:
    """Both daemons, down to the kernel's search for a port, which is this lab's fault."""
    folded = Path(told["folded"]).read_text()
    assert told["samples"] == sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines())
    assert told["samples"] >= 100 and told["lost"] <= told["samples"] / 10
    assert share(folded, "nginx") >= 0.2
    assert share(folded, "nginx") + share(folded, release.text("php-fpm8.2")) >= 0.9
    assert share(folded, "ngx_event_connect_peer") >= 0.05
    assert share(folded, "__inet_hash_connect_[k]") >= 0.01
    assert {"web", "client"} & {line.split(";")[0] for line in folded.splitlines()} == {"web"}
    top = told["functions"]
    assert len(top) == 10 and [row["own"] for row in top] == sorted(
        (row["own"] for row in top), reverse=True
    )
    assert all(0 <= row["own_share"] <= row["total_share"] <= 1 for row in top)


def test_a_browser_opens_it(told: dict[str, Any], tmp_path: Path) -> None:
    """Zoom and search work, and the console has nothing to say."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium here: apt-get install chromium")
    page = tmp_path / "clicked.svg"
    page.write_text(Path(told["file"]).read_text().replace("</svg>", _CLICKS))
    options = "headless no-sandbox disable-gpu no-first-run disable-background-networking"
    options += " disable-component-update disable-sync virtual-time-budget=2000 dump-dom"
    words = [f"--{option}" for option in options.split()]
    done = subprocess.run(
        [
            browser,
            *words,
            f"--user-data-dir={tmp_path}/profile",
            "--enable-logging=stderr",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    assert re.search(r'id="unzoom"[^>]*opacity: 1', done.stdout)
    assert 'fill="rgb(230,0,230)"' in done.stdout, "nothing was found by the search"


def test_where_it_waits(up: None) -> None:
    """Off the processor: what is waited for is on top, not the scheduler."""
    told = flame("--off-cpu", "--seconds", "1")
    assert Path(told["file"]).name == "flame-off.svg"
    assert told["microseconds"] > 100_000
    folded = Path(told["folded"]).read_text()
    tops = {line.rsplit(" ", 1)[0].rsplit(";", 1)[1] for line in folded.splitlines()}
    assert not [top for top in tops if top.startswith("schedule")]
    assert tops & {"do_epoll_wait_[k]", "ep_poll_[k]", "inet_csk_accept_[k]", PREEMPTED}


def test_it_leaves_nothing_behind(told: dict[str, Any]) -> None:
    """No helper, and no process of ours in the machine."""
    assert helpers() == []
    web = stack.Stack(LocalEngine(), stack_name(LAB))["web"]
    assert web.run("pgrep -a perf").code == 1


def test_killed_in_the_middle(up: None) -> None:
    """The helper is ours to sweep, and would end by itself."""
    process = spawn("flame", LAB, "--no-load", "--seconds", "60")
    deadline = time.monotonic() + 20
    while not helpers():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    kill_9(process)
    (name,) = helpers()
    facts = LocalEngine().client.containers.get(name).attrs
    assert facts["HostConfig"]["AutoRemove"]
    assert facts["Path"] == "sleep" and int(facts["Args"][0]) <= 600
    assert not facts["HostConfig"]["Privileged"]
    assert finish(spawn("sweep"))[0] == 0
    assert LocalEngine().stacks() == []


def test_of_a_lab_that_is_not_up() -> None:
    """Exit 3, and what to type."""
    code, said = finish(spawn("flame", "healthy", env={"FAULTLAB_NAMESPACE": f"n{os.getpid()}"}))
    assert code == 3 and "make lab-healthy" in said


@pytest.mark.rotates(turn=1)
def test_in_the_vm(up_in_the_vm: None) -> None:
    """One clock for the whole kernel: its threads are in the picture, Docker and the load not."""
    told = flame("--seconds", "12")  # without KVM one look is 200 samples
    folded = Path(told["folded"]).read_text()
    towers = {";".join(line.split(";")[:2]) for line in folded.splitlines()}
    assert told["engine"] == "vm" and told["samples"] >= 100
    assert share(folded, "nginx") + share(folded, release.text("php-fpm8.2")) >= 0.8
    # The search for a port is below it: 5% to 8% of 200 samples, the search itself 1% to 5%.
    assert share(folded, "tcp_v4_connect_[k]") >= 0.01
    assert {tower.split(";")[0] for tower in towers} == {"web", "kernel"}
    others = re.compile("dockerd|-proxy|containerd|wrk|perf|sshd")
    assert not list(filter(others.search, towers))
