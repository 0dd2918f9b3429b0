"""Agents on real stacks: what they reach, what they do not reach, and how a session is lost."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import pytest

from faultlab.agents import exam, remote, session
from faultlab.agents.builtin import BuiltIn
from faultlab.agents.command import MOST, Output
from faultlab.agents.session import Session
from faultlab.core import naming
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.docker.local import LocalEngine
from faultlab.lab import loader as labs
from faultlab.run.phase import FAULTY, HEALTHY
from faultlab.run.record import Record
from faultlab.score.results import Results
from tests.live.commandline import finish, spawn
from tests.live.stacks import container, engine_for
from tests.live.sweep import SWEEP

pytestmark = pytest.mark.rotates(minutes=0.5)

# A tool looks from a container of its own; an agent is on the machine itself. So no process is left
# out, and the word that is looked for is not in the command.
_SKIPPED = '  [ "$its" = "$mine" ] && continue'


def sweep(lab_id: str) -> str:
    """Return the script that looks for the id of a lab in all that a shell can reach."""
    lines = [line for line in SWEEP.splitlines() if not line.startswith(_SKIPPED)]
    assert len(lines) == len(SWEEP.splitlines()) - 1
    hidden = base64.b64encode(lab_id.encode()).decode()
    script = "\n".join(lines).replace("@NAMESPACE@", naming.prefix())
    return script.replace("id=@ID@", f"id=$(echo {hidden} | base64 -d)")


@pytest.fixture(scope="module")
def kept(engine: LocalEngine) -> Iterator[Session]:
    """A session at mtu, faulty, for tests that break nothing."""
    with session.open(engine, labs.load("mtu"), FAULTY, 99, 0) as opened:
        yield opened


@pytest.fixture
def its(engine: LocalEngine) -> Iterator[Session]:
    """A session at mtu, faulty."""
    with session.open(engine, labs.load("mtu"), FAULTY, 3, 0) as opened:
        yield opened


@pytest.mark.beside
@pytest.mark.rotates(minutes=0.8)
@pytest.mark.parametrize("lab_id", ["mtu", "heap-oom", "metadata-lock", "pool-leak"])
def test_nothing_in_reach_names_the_lab(lab_id: str) -> None:
    """Whatever an agent greps on the machines and in the daemons, while the users are there."""
    lab = labs.load(lab_id)
    with session.open(engine_for(lab), lab, FAULTY, 5, 0) as its:
        told = [its.case, *its.machines, its.run("host", "docker ps").out]
        assert lab_id not in " ".join(told)
        for name in its.machines:
            if name == "host" or its.run(name, "true").code:  # heap-oom has ended its daemon
                continue
            done = its.run(name, sweep(lab_id), 300)
            assert (done.code, done.out) == (0, ""), (name, done)


@pytest.mark.beside
def test_the_sweep_finds_what_is_there(kept: Session) -> None:
    """A file and a process; else the check above could not fail."""
    kept.run("web", "touch /srv/of-mtu; (exec -a mtu-process sleep 100) >/dev/null 2>&1 &")
    said = kept.run("web", sweep("mtu"), 300).out
    assert "/srv/of-mtu" in said and "/cmdline:mtu-process" in said, said


@pytest.mark.beside
def test_the_verifier_is_out_of_reach(kept: Session) -> None:
    """Its container cannot be named, entered or seen, nor can Docker, the host or our files."""
    user = kept._run.stack.user()
    user.must("touch /tmp/of-the-verifier; (sleep 314159 >/dev/null 2>&1 &)")
    for name in ("client-user", "faultlab", "127.0.0.1"):
        with pytest.raises(BadInput):
            kept.run(name, "true")
    for name in kept.machines:
        if name == "host":
            continue
        look = f"""
for of in "" /proc/[0-9]*/root; do
  find $of/. -xdev \\( -name of-the-verifier -o -name docker.sock \\)
done 2>/dev/null
grep -la 314159 /proc/[0-9]*/cmdline 2>/dev/null
env | grep -i faultlab
ip route show default
[ -e {quote(str(Path(__file__)))} ] && echo our files
mount -o remount,rw / 2>/dev/null && unshare -m true 2>/dev/null && echo new namespaces
true"""
        found = kept.run(
            name, f"echo {quote(base64.b64encode(look.encode()).decode())} | base64 -d | bash", 120
        )
        assert (found.code, found.out) == (0, ""), (name, found)
    for command in ("docker exec nginx id", "docker restart client-user", "cat /etc/passwd", "sh"):
        assert kept.run("host", command).code == 127


@pytest.mark.alone
def test_commands_have_limits(kept: Session) -> None:
    """In time, in bytes; and a process in the background holds nothing up."""
    began = time.monotonic()
    late = kept.run("web", "echo well; trap '' TERM; while :; do sleep 1; done", 1)
    assert (late.code, late.out) == (124, "well\n") or late.code == 137, late
    assert time.monotonic() - began < 8
    many = kept.run("web", "yes; true", 3)
    assert len(many.out) == 1 << 20
    assert kept.run("web", "head -c 5000000 /dev/zero | tr '\\0' x; exit 5").code == 5
    began = time.monotonic()
    assert kept.run("web", "sleep 100 & echo at once", 30).out == "at once\n"
    assert time.monotonic() - began < 8
    assert kept.run("nginx", "echo $0; echo bad >&2; false") == Output(1, "bash\n", "bad\n")


@pytest.mark.beside
def test_files(kept: Session) -> None:
    """They are written and read as they are, also in a folder that the daemons share."""
    content = bytes(range(256)) * 2000
    shared = "/etc/nginx/conf.d/some file.conf.off"
    for path in (shared, "/srv/new/folder/x"):
        kept.write_file("web", path, content)
        assert remote.read(kept, "web", path, MOST) == content
    assert remote.read(kept, "nginx", shared, MOST) == content
    with pytest.raises(FileNotFoundError):
        remote.read(kept, "web", "/srv/nothing", MOST)
    with pytest.raises(OSError, match="more than"):
        kept.run("web", "head -c 3000000 /dev/zero >/srv/large")
        remote.read(kept, "web", "/srv/large", MOST)
    with pytest.raises(OSError, match="directory"):
        kept.write_file("web", "/etc/passwd/x", b"")


@pytest.mark.beside
@pytest.mark.parametrize(
    "name",
    [
        "web",
        pytest.param("nginx", marks=pytest.mark.rotates(minutes=1.7)),
        "client",
        "client-user",
    ],
)
def test_a_killed_container_serves_nobody(its: Session, name: str) -> None:
    """Also in the middle of a command. A machine ends the session, and users are beyond reach."""
    stack = its._run.stack
    (machine,) = (each for each in stack.engine.machines(stack.name) if each.name == name)
    kill = threading.Timer(1, lambda: container(machine).kill())
    kill.start()
    done = its.run("web" if name == "client-user" else name, "sleep 5", timeout=6)
    kill.join()
    if name == "client-user":
        with pytest.raises(CannotRun):
            its.finish()
        return
    assert (done.code, done.out) == (126, "")
    verdict = its.finish()
    assert not verdict.repaired
    assert verdict.aborted == ("" if name == "nginx" else "by the agent")


@pytest.mark.beside
@pytest.mark.parametrize("name", ["client", "web"])
def test_an_agent_that_ends_a_machine_has_failed(engine: LocalEngine, name: str) -> None:
    """It would drop what it fails and have 100%. The case counts, and says who ended it."""

    def aborts(its: Session, _phase: str, _number: int) -> None:
        its.run("web", "ip link set dev eth0 mtu 1500")
        its.run(name, "kill -TERM 1; sleep 5", timeout=6)

    case = exam.Case(BuiltIn("aborts", "x", aborts), labs.load("mtu"), FAULTY, 1)
    made = exam._trial(engine, case, 6, ("a", "b"))
    assert made.kind == "diagnosis" and made.agent is not None
    assert (made.agent["repaired"], made.agent["aborted"]) == (False, "by the agent")


@pytest.mark.beside
def test_a_repair_that_an_agent_takes_back_is_none(engine: LocalEngine) -> None:
    """The users come meanwhile, and what waits is named."""

    def soon(its: Session, _phase: str, _number: int) -> None:
        undo = "sh -c 'sleep 600; ip link set dev eth0 mtu 100'"
        its.run("web", f"ip link set dev eth0 mtu 1500; {undo} >/dev/null 2>&1 </dev/null &")

    case = exam.Case(BuiltIn("soon", "x", soon), labs.load("mtu"), FAULTY, 1)
    made = exam._trial(engine, case, 6, ("a", "b"), later=0.05)
    assert made.agent is not None
    assert (made.agent["repaired"], made.agent["later"]) == (False, 0.05)
    record = Record.read(made.run)
    [waits] = [each for each in record.facts["readings"]["later"]["left"] if each["waits"]]
    assert (waits["machine"], waits["command"][:17]) == ("web", "sh -c sleep 600; ")


@pytest.mark.beside
def test_a_killed_container_is_no_trial(engine: LocalEngine, tmp_path: Path) -> None:
    """The exam says so, counts an error and goes on; nothing is left."""

    def dies(its: Session, _phase: str, _number: int) -> None:
        container(its._run.stack["web"]).kill()

    def works(its: Session, _phase: str, _number: int) -> None:
        assert its.run("web", "true").code == 0

    mtu = labs.load("mtu")
    both = [BuiltIn("dies", "x", dies), BuiltIn("works", "x", works)]
    kept = Results(tmp_path / "agents.json")
    every = [exam.Case(one, mtu, HEALTHY, 1) for one in both]
    before = engine.stacks()  # of other tests
    troubles = exam._all(Terminal(), {"mtu": engine}, every, kept)
    assert len(troubles) == 1 and troubles[0].startswith("dies, mtu healthy 1: "), troubles
    kinds = {trial.tool: trial.kind for trial in kept.trials.values()}
    assert kinds == {"dies": "unknown", "works": "diagnosis"}
    assert engine.stacks() == before


CHEATS = [n + 1 for n in range(len(labs.load("mtu").cheat))]
# Each verdict on a cheat would be measured three times on a busy machine, and delay the others.
ALONE = pytest.mark.rotates(minutes=1.2)


@pytest.mark.parametrize(
    ("name", "amiss", "causes"),
    [
        pytest.param("oracle", [], ["mtu"], id="mtu-oracle", marks=pytest.mark.beside),
        pytest.param("nop", [1], [], id="mtu-nop", marks=pytest.mark.beside),
        pytest.param("cheater", CHEATS, [], id="mtu-cheater", marks=ALONE),
    ],
)
def test_the_baselines(name: str, amiss: list[int], causes: list[str], tmp_path: Path) -> None:
    """By the command line: the oracle repairs, nop and each cheat do not; and it goes on."""
    file = tmp_path / "agents.json"
    words = ("agent", name, "--labs", "mtu", "--later", "0", "--json", str(file))
    code, said = finish(spawn(*words))
    assert code == 0, said
    trials = json.loads(file.read_text())["trials"]
    left = [t for t in trials if not t["agent"]["repaired"]]
    assert [(t["phase"], t["number"]) for t in left] == [(FAULTY, n) for n in amiss]
    named = {t["phase"]: t["diagnosis"]["causes"] for t in trials}
    assert named[FAULTY] == causes and not named.get(HEALTHY)
    code, said = finish(spawn(*words))
    assert code == 0, said
    assert json.loads(file.read_text())["trials"] == trials  # none was made again


@pytest.mark.beside
def test_the_checklist_repairs(tmp_path: Path) -> None:
    """A program of the host, through its socket."""
    file = tmp_path / "agents.json"
    code, said = finish(
        spawn("agent", "checklist", "--labs", "mtu", "--later", "0.05", "--json", str(file))
    )
    assert code == 0, said
    for trial in json.loads(file.read_text())["trials"]:
        assert trial["agent"]["repaired"], trial
        assert trial["diagnosis"]["causes"] == (["mtu"] if trial["phase"] == FAULTY else []), trial
