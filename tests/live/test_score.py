"""Score, on real stacks: blind tools, broken ones, an exam cut off, a lab recorded."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultlab.core.naming import stack_name
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs
from faultlab.run.phase import FAULTY, FIXED, HEALTHY, PHASES
from faultlab.run.run import Run
from faultlab.score import alone, recording, setups, trial
from faultlab.score.alone import Alone
from faultlab.score.tool import Tool
from tests.live.commandline import finish, spawn
from tests.live.sweep import make

pytestmark = pytest.mark.rotates


@pytest.fixture(scope="class")
def standing(engine: LocalEngine) -> Iterator[Run]:
    """A stack of mtu, faulty."""
    with setups.on_show(engine, labs.load("mtu"), FAULTY) as run:
        yield run


BROKEN = {
    "hangs": ("exit", "sleep 100", "it did not end in time"),
    "deaf": ("json", "trap '' TERM; while :; do sleep 1; done", "it did not end in time"),
    "crashes": ("exit", "echo help >&2; exit 7", "it ended with exit code 7 on client: help"),
    "missing": ("lines", "no-such-program", "it ended with exit code 127"),
    "floods": ("lines", "yes drops", "it printed more than 1000 kB"),
    "no-json": ("json", "echo '{'", "its last line is not a diagnosis"),
    "killed": ("exit", "kill -9 $PPID", "it was killed"),
    "eats": ("exit", "perl -e '$x = q(x) x 3e9; print length $x'; exit 3", "on client"),
    "serves-nothing": ("alerts", "sleep 100", "it served no alerts"),
    "ends": ("alerts", "exit 0", "it served no alerts"),
}
SERVED = "[alerts]\nurl = 'http://127.0.0.1:PORT/'\njq = '.alerts[] | .name'\n"
SERVER = (
    r"""while :; do printf 'HTTP/1.0 200 OK\r\n\r\n{"alerts": [{"name": "drops"}]}' """
    "| nc -l -p 9999 -q 1; done"
)
ALARM = "[[alarm]]\nmatch = 'drops'\ncauses = ['mtu']\n"


def written(folder: Path, name: str, output: str, command: str) -> Tool:
    """A tool that looks from client for four seconds."""
    return make(
        folder,
        name,
        f"at = [\"client\"]\nwindow = 4\noutput = \"{output}\"\ncommand = '''{command}'''\n"
        + (
            SERVED.replace("PORT", "9999" if command == SERVER else "9998")
            if output == "alerts"
            else ""
        )
        + ALARM,
    )


class TestOnOneStack:
    """Whatever a tool does to itself."""

    def test_a_broken_tool_has_no_verdict_and_the_others_have(
        self, standing: Run, tmp_path: Path
    ) -> None:
        """Hung, crashed, flooding, killed, mute: each says so, and none spoils another."""
        broken = [
            written(tmp_path, name, output, command)
            for name, (output, command, _) in BROKEN.items()
        ]
        well = [
            written(tmp_path, "well", "exit", "echo 3 drops; exit 2"),
            written(tmp_path, "served", "alerts", SERVER),
            written(tmp_path, "watches", "lines", "echo drops; sleep 100"),
        ]
        before = names_of(standing)
        began = time.monotonic()
        outcomes = trial.examine(standing.stack, standing.lab, [*broken, *well])
        assert time.monotonic() - began < 60  # the windows are 4 s: the hung ones delay no other
        for name, (_, _, why) in BROKEN.items():
            assert outcomes[name].kind == "unknown" and why in outcomes[name].reason, outcomes[name]
        for tool in well:
            told = outcomes[tool.id].diagnosis
            assert told is not None and told.alarm and told.causes == ["mtu"], outcomes[tool.id]
        assert names_of(standing) == before

    def test_a_tool_that_has_nothing_to_look_at(self, standing: Run, tmp_path: Path) -> None:
        """There is no db in this stack."""
        nowhere = make(
            tmp_path, "nowhere", 'at = ["db"]\nwindow = 4\noutput = "exit"\ncommand = "x"'
        )
        outcome = trial.examine(standing.stack, standing.lab, [nowhere])["nowhere"]
        assert (outcome.kind, outcome.reason) == ("absent", "no machine called db is there")

    def test_a_tool_has_no_way_out_and_nothing_of_the_host(
        self, standing: Run, tmp_path: Path
    ) -> None:
        """No route, no socket of Docker, no right to change anything, no file of the host."""
        caged = make(
            tmp_path,
            "caged",
            f"""at = ["web"]\nwindow = 8\noutput = "lines"\ncommand = '''
ip route show default | sed 's/^/ESCAPE /'
find / -xdev -name docker.sock | sed 's/^/ESCAPE /'
ip link set dev eth0 mtu 1400 2>/dev/null && echo ESCAPE
[ -e {Path(__file__)} ] && echo ESCAPE
true
'''\n[[alarm]]\nmatch = "ESCAPE"\n""",
        )
        outcome = trial.examine(standing.stack, standing.lab, [caged])["caged"]
        assert outcome.diagnosis is not None and outcome.diagnosis.evidence == [], outcome


def names_of(run: Run) -> set[str]:
    """Return the names of all containers of a stack."""
    return {str(each.name) for each in LocalEngine().containers(stack=run.stack.name)}


@pytest.mark.parametrize(
    ("way", "trials", "of"),
    [
        pytest.param("--crowd", 6, 3, marks=[pytest.mark.rotates(minutes=0.8), pytest.mark.beside]),
        # Alone it waits for a calm machine, so it is not marked as `beside`.
        pytest.param("--seed=0", 10, 5, marks=pytest.mark.rotates(minutes=1.5)),
    ],
)
def test_an_exam_that_was_cut_off_goes_on(way: str, trials: int, of: int, tmp_path: Path) -> None:
    """After Ctrl-C the same command makes what is missing, and only that; nothing is left.

    Alone there are two floors beside the three phases.
    """
    file = tmp_path / "score.json"
    words = ("score", "always-alarm", "--labs", "mtu", "--json", str(file), way)
    first = spawn(*words)
    deadline = time.monotonic() + 120
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGINT)
    code, said = finish(first)
    assert code == 3, said
    kept = {(t["tool"], t["phase"]): t["run"] for t in json.loads(file.read_text())["trials"]}
    assert 0 < len(kept) < trials, said
    assert LocalEngine().leftovers(stack_name("exam")) == []
    code, said = finish(spawn(*words))
    assert code == 0, said
    document = json.loads(file.read_text())
    now = {(t["tool"], t["phase"]): t["run"] for t in document["trials"]}
    assert len(now) == trials
    assert {key: now[key] for key in kept} == kept
    assert f"{of} of {of}" in said, said
    assert way != "--crowd" or "1 of 3" not in said, said  # alone a look itself can be continued
    alarms = {(t["tool"], t["phase"]): t["diagnosis"]["alarm"] for t in document["trials"]}
    for phase in {phase for _, phase in alarms}:
        assert alarms["always-alarm", phase] and not alarms["never-alarm", phase]


def test_a_tool_alone_has_another_processor_than_the_stack(tmp_path: Path) -> None:
    """And what it used is known: up to two seconds of CPU time, and some memory."""
    engine = LocalEngine()
    engine.cpus, cpus = alone.processors(engine.facts().cpus)
    if not cpus:
        pytest.skip("this machine has one processor")
    burns = make(
        tmp_path,
        "burns",
        """at = ["web"]\nwindow = 8\noutput = "lines"\ncommand = '''
grep Cpus_allowed_list /proc/self/status
timeout 2 sh -c "while :; do :; done"
true
'''\n[[alarm]]\nmatch = "Cpus"\n""",
    )
    with setups.on_show(engine, labs.load("mtu"), HEALTHY) as run:
        outcome = trial.examine(run.stack, run.lab, [burns], cpus)["burns"]
        on = {
            name: m.must("grep Cpus_allowed_list /proc/self/status")
            for name, m in run.stack.items()
        }
    assert {its.split()[-1] for its in on.values()} == {engine.cpus}, on
    assert outcome.diagnosis is not None, outcome.reason
    assert outcome.diagnosis.evidence[0].split()[-1] == cpus
    assert outcome.cpu is not None and 0.5 < outcome.cpu < 3  # on a busy machine it gets less
    assert outcome.memory is not None and outcome.memory > 100_000


@pytest.mark.beside
def test_the_floors(engine: LocalEngine) -> None:
    """The empty host has machines without daemons, the idle stack has both."""
    whole = next(look.lab for look in setups.order([], 1, 0, floors=True))
    with setups.on_show(engine, whole, setups.IDLE) as run:
        assert run.stack.stopped() == []
    with setups.on_show(engine, whole, setups.EMPTY) as run:
        whole_stack = Stack(engine, run.stack.name)
        assert {each.split()[0] for each in whole_stack.stopped()} == {*whole.daemons}
        assert {*run.stack} == {"client", "web", "app", "db", "cache"}
        assert run.stack["web"].must("pgrep -c nginx || true").strip() == "0"


def test_a_fault_that_ends_its_daemon_is_looked_at_alone(
    engine: LocalEngine, tmp_path: Path
) -> None:
    """By a tool that probes, with the pages of the users, and by one that reads the recording."""
    probes = make(
        tmp_path,
        "probes",
        """at = ["client"]\nwindow = 30\noutput = "exit"\ncommand = '''
[ -s /etc/urls ] || exit 3
while read -r url seconds; do
  curl -fsS -o /dev/null -m "$seconds" "$url" || { echo "$url does not come"; exit 2; }
done </etc/urls
'''\n""",
    )
    reads = make(
        tmp_path,
        "reads",
        'at = ["app"]\nwindow = 10\noutput = "lines"\ncommand = "true"\n'
        "replay = 'grep -L java app/after/processes; true'\n[[alarm]]\nmatch = 'processes'\n",
    )
    how = Alone(engine, "", lambda _: True, lambda _: None)
    for phase, alarm in ((HEALTHY, False), (FAULTY, True)):
        made = list(how.trials(setups.named("heap-oom", phase, 1), [probes, reads, probes]))
        assert [(t.tool, t.kind, t.alarm) for t in made] == [
            (name, "diagnosis", alarm) for name in ("reads", "probes", "probes")
        ], made
        assert len({t.run for t in made}) == 1


def test_nothing_in_a_stack_tells_its_phase_or_names_us(
    engine: LocalEngine, tmp_path: Path
) -> None:
    """The counters of web, the age of its daemons, the names of its volumes, the reverse DNS."""
    tells = make(
        tmp_path,
        "tells",
        """at = ["web"]\nwindow = 20\noutput = "lines"\ncommand = '''
nstat -asz TcpOutSegs | awk '/OutSegs/ { print "segments", $2 }'
echo age $(ps -o etimes= -p 1)
for at in /proc/[0-9]*; do grep -H faultlab $at/mountinfo; done 2>/dev/null | head -n 3
for ip in $(hostname -I); do timeout 5 getent hosts $ip; done
true
'''\n[[alarm]]\nmatch = "."\n""",
    )
    facts: dict[str, dict[str, float]] = {}
    for phase in PHASES:
        with setups.on_show(engine, labs.load("mtu"), phase) as run:
            outcome = trial.examine(run.stack, run.lab, [tells])["tells"]
        lines = [said.line for said in outcome.printed if said.stream == "out"]
        assert not [line for line in lines if "faultlab" in line], lines
        pairs = [line.split() for line in lines if line.startswith(("segments ", "age "))]
        facts[phase] = {name: float(value) for name, value in pairs}
    for name, most in (("segments", 0.15), ("age", 0.5)):
        values = [each[name] for each in facts.values()]
        assert max(values) - min(values) < most * max(values), facts


@pytest.mark.beside
def test_one_look_is_shown(tmp_path: Path) -> None:
    make(
        tmp_path,
        "mine",
        'at = ["client"]\nwindow = 9\noutput = "exit"\n'
        'command = "echo no page >&2; echo 7 drops; exit 2"\n'
        "[[alarm]]\nmatch = 'drops'\ncauses = ['mtu']\n",
    )
    code, said = finish(spawn("try", str(tmp_path / "mine"), "mtu"))
    assert code == 0, said
    assert "err no page" in said and "out 7 drops  <- [[alarm]] 1: mtu" in said, said
    assert "end exit code 2" in said and said.rstrip().endswith("caught and named."), said


@pytest.mark.beside
def test_a_recorded_lab_is_examined_like_a_live_one(engine: LocalEngine, tmp_path: Path) -> None:
    """The bundle shows the drops of the faulty phase only; a tool that reads files sees them."""
    file = tmp_path / "mtu.tar.gz"
    code, said = finish(spawn("record", "mtu", "--out", str(file)))
    assert code == 0, said
    recorded = recording.read(file)
    for phase in (HEALTHY, FAULTY, FIXED):
        its = recorded.files[phase]
        assert len(its["web/capture.pcap"]) > 24, "a header only"
        for name in ("nstat", "ss", "interfaces", "rules", "meminfo"):
            assert its[f"web/before/{name}"] and its[f"web/after/{name}"], name
    reader = make(
        tmp_path,
        "reader",
        """at = ["web"]\nwindow = 10\noutput = "lines"\ncommand = "true"\nreplay = '''
b=$(grep -A1 'RX:' web/before/interfaces | awk '!/RX/ && NF > 3 { n = $4 } END { print n }')
a=$(grep -A1 'RX:' web/after/interfaces | awk '!/RX/ && NF > 3 { n = $4 } END { print n }')
[ "$a" -gt "$b" ] && echo "drops: $b to $a"
true
'''\n[[alarm]]\nmatch = "drops"\ncauses = ["mtu"]\n""",
    )
    seen = {
        phase: trial.replay(engine, reader, recorded.phase(phase), stack_name("exam"))
        for phase in PHASES
    }
    alarms = {
        phase: outcome.diagnosis.alarm for phase, outcome in seen.items() if outcome.diagnosis
    }
    assert alarms == {HEALTHY: False, FAULTY: True, FIXED: False}, seen
