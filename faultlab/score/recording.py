"""Recording: the counters, sockets, logs, captures and SQL status of a lab, in one tar file.

It has a folder for each phase (healthy, faulty, fixed), and in it a folder for each machine: its
readings before and after the lab's own look, its logs, and the packets in between. Tools that read
files can be examined on it, and people can read it, where the lab itself cannot run.
"""

import base64
import gzip
import io
import json
import tarfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from faultlab.core import archive, lock, paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.naming import flat, stack_name
from faultlab.core.terminal import Step, Terminal
from faultlab.engine.contract import Machine
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs
from faultlab.lab.daemon import Daemon
from faultlab.run import placement
from faultlab.run.phase import PHASES
from faultlab.run.run import Run
from faultlab.run.stack_in_phase import stack_in_phase

SCHEMA = 1
KERNEL = "kernel"  # the folder of its log, beside those of the machines
_MANIFEST = "manifest.json"
_STACK = "record"
_PACKETS = 20_000
_BYTES = 128  # of each packet, enough for all headers
_PIECE = 1 << 20
_LARGEST = 500_000_000  # bytes of a bundle that is read

# tcpdump loses a packet that waits in the kernel for more when it ends, hence the immediate mode.
# $1: before or after. A source that a machine does not have is skipped.
_READ = """
d=/tmp/bundle/$1; mkdir -p $d; cd $d
nstat -asz > nstat; ss -tanm > ss; ss -ltn > listen; ip -s -d link > interfaces
tc -s qdisc > qdisc; iptables -w 5 -nvxL > rules; sysctl net > sysctl 2>/dev/null
cat /proc/stat > proc-stat; cat /proc/meminfo > meminfo; cat /proc/vmstat > vmstat
ps -eo pid,ppid,stat,pcpu,rss,comm > processes
{ conntrack -C; sysctl -n net.netfilter.nf_conntrack_max; } > conntrack 2>/dev/null
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
for log in %s; do
  [ -d $log ] && mkdir -p /tmp/bundle/log && cp -r $log /tmp/bundle/log/
done
cd /tmp/bundle && tar cz . | base64 -w 0; rm -rf /tmp/bundle
"""


@dataclass(frozen=True)
class Bundle:
    """A recorded lab: its manifest, and the files of each phase."""

    manifest: dict[str, Any]
    files: dict[str, dict[str, bytes]]

    def phase(self, name: str) -> bytes:
        """Return a tar file of a phase. Its only folder, `bundle`, names neither lab nor phase."""
        files = sorted(self.files[name].items())
        return archive.packed({f"bundle/{path}": content for path, content in files})


@dataclass(frozen=True)
class Recorded:
    """The file with the bundle of a lab."""

    file: str
    bytes: int
    lab: str


def record(term: Terminal, lab_id: str, out: str | None, wanted: str) -> Recorded:
    """Walk through a lab and write its bundle. Raises SaidNo, CannotRun, BadInput."""
    lab = labs.load(lab_id)
    file = paths.in_a_folder(out or f"{flat(lab.id)}.bundle.tar.gz")
    engine = placement.choose(term, lab, wanted)
    name = stack_name(_STACK)
    with lock.hold(name, f"record {lab.id}"), term.step("record", lab.id) as step:
        with stack_in_phase(engine, lab, name, collects=False) as run:
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
    for phase in PHASES:
        step.note(phase)
        run.enter(phase)
        files[phase] = span(run, partial(run.prove, phase))
    return files


def span(run: Run, look: Callable[[], object]) -> dict[str, bytes]:
    """Return the files of all machines, read before, during and after a look."""
    machines, facts = run.stack.machines, run.lab.services.facts
    daemons = {daemon: facts(daemon.name) for daemon in run.stack.values() if daemon.joins}
    logs = " ".join(sorted({its.log for its in daemons.values()}))
    log = _kernel_log(run.stack)
    found = _figures(daemons, "before")
    _on_all(machines, _READ.replace("$1", "before") + _CAPTURE)
    look()
    _on_all(machines, _READ.replace("$1", "after"))
    found |= _figures(daemons, "after")
    for machine, packed in zip(machines, _on_all(machines, _COLLECT % logs), strict=True):
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed)), mode="r:gz") as tar:
            said = {path.removeprefix("./"): content for path, content in _contents(tar)}
        found |= {f"{machine.name}/{path}": content for path, content in said.items()}
    new = _kernel_log(run.stack)[len(log) :]
    return found | ({f"{KERNEL}/log": new.encode()} if run.engine.owns_kernel else {})


def _figures(daemons: dict[Machine, Daemon], when: str) -> dict[str, bytes]:
    """Return what each daemon reports about itself, without those that do not respond."""
    found = {}
    for daemon, facts in daemons.items():
        for file, command in facts.status.items():
            with suppress(CannotRun):
                found[f"{daemon.joins}/{when}/{file}"] = daemon.must(command).encode()
    return found


def _on_all(machines: list[Machine], script: str) -> list[str]:
    with ThreadPoolExecutor(max_workers=len(machines)) as pool:
        return list(pool.map(lambda machine: machine.must(script, timeout=120), machines))


def _kernel_log(stack: Stack) -> str:
    """Return the kernel log of the lab VM; this machine's log is no part of a lab."""
    return stack.engine.kernel(stack.name).must("dmesg") if stack.engine.owns_kernel else ""


def _write(file: Path, bundle: Bundle) -> int:
    with paths.whole(file) as part, tarfile.open(part, "w:gz") as tar:
        archive.put(tar, _MANIFEST, json.dumps(bundle.manifest, indent=1).encode() + b"\n")
        for phase, files in bundle.files.items():
            for path, content in sorted(files.items()):
                archive.put(tar, f"{phase}/{path}", content)
    return file.stat().st_size


def read(file: Path) -> Bundle:
    """Read a bundle from its file. Raises BadInput: missing, damaged, or of another version."""
    try:
        with gzip.open(file) as whole, tarfile.open(fileobj=whole, mode="r:") as tar:
            if sum(member.size for member in tar) > _LARGEST:
                raise BadInput(f"{file} is too large for a bundle.", f"tar tzvf {file}")
            found = dict(_contents(tar))
            while whole.tell() < 2 * _LARGEST and whole.read(_PIECE):  # its checksum comes last
                pass
    except FileNotFoundError as error:
        raise BadInput(f"There is no file {file}.", "faultlab record mtu") from error
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        raise BadInput(f"{file} is not a bundle: {error}.", f"tar tzf {file}") from error
    try:
        manifest = json.loads(found.pop(_MANIFEST, b""))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file} is not a bundle: no {_MANIFEST}.", f"tar tzf {file}") from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise BadInput(f"{file} is a bundle of another version.", f"tar xzOf {file} {_MANIFEST}")
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
