"""Recording: what a lab left in counters, sockets, logs, captures and SQL status, in one tar file.

A folder for each phase (healthy, faulty, fixed) with a folder for each machine: its readings before
and after the lab's own look, its logs, and the packets in between. Tools that read files can be
examined on it, and people look at it, where the lab itself cannot run.
"""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faultlab.core import lock, paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Step, Terminal
from faultlab.engine.contract import Machine
from faultlab.engine.stack import Stack
from faultlab.lab import load as labs
from faultlab.run import placement
from faultlab.run.readings import FAULTY, FIXED, HEALTHY, PHASES
from faultlab.run.run import Run
from faultlab.run.standing import standing

SCHEMA = 1
_MANIFEST = "manifest.json"
_STACK = "record"
_PACKETS = 20_000
_BYTES = 128  # of each packet: all headers
_LARGEST = 500_000_000  # bytes of a bundle that is read

# A packet that waits in the kernel for others is lost when tcpdump ends, hence the immediate mode.
# $1: before or after. What a machine has not is left out.
_READ = """
d=/tmp/bundle/$1; mkdir -p $d; cd $d
nstat -asz > nstat; ss -tanm > ss; ss -ltn > listen; ip -s -d link > interfaces
tc -s qdisc > qdisc; iptables -w 5 -nvxL > rules; sysctl net > sysctl 2>/dev/null
cat /proc/stat > proc-stat; cat /proc/meminfo > meminfo; cat /proc/vmstat > vmstat
ps -eo pid,ppid,stat,pcpu,rss,comm > processes
{ conntrack -C; sysctl -n net.netfilter.nf_conntrack_max; } > conntrack 2>/dev/null
if [ -S /run/mysqld/mysqld.sock ]; then
  mysql -Ne 'SHOW GLOBAL STATUS' > status.tsv
  mysql -Ne 'SHOW GLOBAL VARIABLES' > variables.tsv
  mysql -e 'SELECT SCHEMA_NAME, DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT, SUM_ROWS_EXAMINED,
    SUM_ROWS_SENT, SUM_CREATED_TMP_DISK_TABLES, SUM_NO_INDEX_USED
    FROM performance_schema.events_statements_summary_by_digest' > statements.tsv
fi
true
"""
_CAPTURE = f"""
cd /tmp/bundle
setsid tcpdump -i eth0 -p -U --immediate-mode -s {_BYTES} -c {_PACKETS} -w capture.pcap \
  </dev/null >/dev/null 2>&1 &
echo $! > /tmp/bundle.pid
for _ in $(seq 50); do [ -s capture.pcap ] && break; sleep 0.1; done
"""
_COLLECT = """
kill "$(cat /tmp/bundle.pid)" 2>/dev/null; rm -f /tmp/bundle.pid
for log in nginx php tomcat10 mysql; do
  [ -d /var/log/$log ] && mkdir -p /tmp/bundle/log && cp -r /var/log/$log /tmp/bundle/log/
done
cd /tmp/bundle && tar cz . | base64 -w 0; rm -rf /tmp/bundle
"""


@dataclass(frozen=True)
class Bundle:
    """A recorded lab: its manifest, and the files of each phase."""

    manifest: dict[str, Any]
    files: dict[str, dict[str, bytes]]

    def phase(self, name: str) -> bytes:
        """A tar file of one phase, its only folder `bundle`; it says neither lab nor phase."""
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as tar:
            for path, content in sorted(self.files[name].items()):
                _put(tar, f"bundle/{path}", content)
        return made.getvalue()


@dataclass(frozen=True)
class Recorded:
    """The file with the bundle of a lab."""

    file: str
    bytes: int
    lab: str


def record(term: Terminal, lab_id: str, out: str | None, wanted: str) -> Recorded:
    """Walk through a lab and write its bundle. Raises SaidNo, CannotRun, BadInput."""
    lab = labs.load(lab_id)
    file = paths.in_a_folder(out or f"{lab.id}.bundle.tar.gz")
    engine = placement.choose(term, lab, wanted)
    name = stack_name(_STACK)
    with lock.hold(name, f"record {lab.id}"), term.step("record", lab.id) as step:
        with standing(engine, lab, name, meter=False) as run:
            files = _phases(run, step)
            facts = run.record.facts
            manifest = {
                "schema": SCHEMA,
                "lab": lab.id,
                "truth": lab.truth.model_dump(),
                **{key: facts[key] for key in ("started", "engine", "docker", "kernel", "images")},
                "run": run.record.id,
                "judged": facts["judged"],
            }
        size = _write(file, Bundle(manifest, files))
        step.done(f"{file}, {size / 1e6:.1f} MB")
    term.say(f"A tool that reads files: faultlab score TOOL --from {file}")
    return Recorded(str(file), size, lab.id)


def _phases(run: Run, step: Step) -> dict[str, dict[str, bytes]]:
    """Walk through the phases of a run and return the files of each."""
    files: dict[str, dict[str, bytes]] = {}
    step.note(HEALTHY)
    files[HEALTHY] = _span(run, run.healthy)
    step.note(FAULTY)
    run.inject()
    files[FAULTY] = _span(run, lambda: run.gate(FAULTY))
    step.note(FIXED)
    run.apply("fix", run.lab.fix)
    files[FIXED] = _span(run, run.fixed)
    return files


def _span(run: Run, look: Callable[[], object]) -> dict[str, bytes]:
    """All that the machines of a stack can be asked, before, while and after somebody looks."""
    machines = run.stack.machines
    log = _kernel_log(run.stack)
    _on_all(machines, _READ.replace("$1", "before") + _CAPTURE)
    look()
    _on_all(machines, _READ.replace("$1", "after"))
    found: dict[str, bytes] = {}
    with ThreadPoolExecutor(max_workers=len(machines)) as pool:
        for machine, said in zip(machines, pool.map(_collected, machines), strict=True):
            found |= {f"{machine.name}/{path}": content for path, content in said}
    new = _kernel_log(run.stack)[len(log) :]
    return found | ({"kernel/log": new.encode()} if run.engine.owns_kernel else {})


def _on_all(machines: list[Machine], script: str) -> None:
    with ThreadPoolExecutor(max_workers=len(machines)) as pool:
        list(pool.map(lambda machine: machine.must(script, timeout=60), machines))


def _collected(machine: Machine) -> list[tuple[str, bytes]]:
    packed = base64.b64decode(machine.must(_COLLECT, timeout=120))
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
        return [(path.removeprefix("./"), content) for path, content in _contents(tar)]


def _kernel_log(place: Stack) -> str:
    """That of the lab VM; the log of this machine is no part of a lab."""
    return place.engine.kernel.must("dmesg") if place.engine.owns_kernel else ""


def _write(file: Path, bundle: Bundle) -> int:
    part = file.with_name(file.name + ".part")
    try:
        with tarfile.open(part, "w:gz") as tar:
            _put(tar, _MANIFEST, json.dumps(bundle.manifest, indent=1).encode() + b"\n")
            for phase, files in bundle.files.items():
                for path, content in sorted(files.items()):
                    _put(tar, f"{phase}/{path}", content)
        part.replace(file)
        return file.stat().st_size
    except OSError as error:
        raise CannotRun(f"{file} cannot be written: {error.strerror}.", "df -h") from error


def _put(tar: tarfile.TarFile, path: str, content: bytes) -> None:
    info = tarfile.TarInfo(path)
    info.size, info.mode = len(content), 0o644
    tar.addfile(info, io.BytesIO(content))


def read(file: Path) -> Bundle:
    """A bundle from its file. Raises BadInput: not there, damaged, or of another version."""
    try:
        with tarfile.open(file, "r:gz") as tar:
            if sum(member.size for member in tar) > _LARGEST:
                raise BadInput(f"{file} is too large for a bundle.", f"tar tzvf {file}")
            found = dict(_contents(tar))
    except FileNotFoundError as error:
        raise BadInput(f"There is no file {file}.", "faultlab record mtu") from error
    except (OSError, tarfile.TarError, EOFError) as error:
        raise BadInput(f"{file} is no bundle: {error}.", f"tar tzf {file}") from error
    try:
        manifest = json.loads(found.pop(_MANIFEST, b""))
    except ValueError as error:
        raise BadInput(f"{file} is no bundle: no {_MANIFEST}.", f"tar tzf {file}") from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise BadInput(f"{file} is of another version of bundles.", f"tar xzOf {file} {_MANIFEST}")
    files: dict[str, dict[str, bytes]] = {phase: {} for phase in PHASES}
    for path, content in found.items():
        phase, _, rest = path.partition("/")
        if phase in files and rest:
            files[phase][rest] = content
    lacking = [phase for phase, its in files.items() if not its]
    if lacking or not isinstance(manifest.get("lab"), str):
        what = f"nothing of {lacking[0]}" if lacking else "no lab in its manifest"
        raise BadInput(f"{file} is damaged: {what}.", f"tar tzf {file}")
    labs.known(manifest["lab"])
    return Bundle(manifest, files)


def _contents(tar: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in tar:
        content = tar.extractfile(member) if member.isfile() else None
        if content is not None:
            yield member.name, content.read()
