"""Ways out of a container, tried from inside; docs/security.md lists them.

A test opens its own listeners on the host, and sends only to the lab's own network and to the
addresses that the host has on the lab's bridge. It proves a right, and changes nothing.
"""

from __future__ import annotations

import ipaddress
import json
import re
import select
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faultlab.core.errors import CannotRun
from faultlab.engine.docker import removal
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from faultlab.lab import images
from faultlab.observe import profiler
from tests.live.stacks import container, untouched

# Sends one Ethernet frame from eth0: argv is the destination's MAC, the EtherType and the rest.
_FRAME = r"""
perl -e 'use Socket; my ($to, $type, $rest) = @ARGV;
socket(my $s, 17, SOCK_RAW, 0x0300) or die "no raw socket: $!";
open(my $m, "<", "/sys/class/net/eth0/address"); my $own = <$m>; $own =~ s/[:\n]//g;
open(my $i, "<", "/sys/class/net/eth0/ifindex"); my $index = <$i>;
my $frame = pack("H*", "$to$own$type$rest");
send($s, $frame, 0, pack("SnlSCCa8", 17, hex $type, $index, 1, 0, 6, pack("H*", $to)))
  or die "not sent: $!";' """


class Listeners:
    """Listeners on every address of the host, IPv4 and IPv6, TCP and UDP, and what they heard."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.sockets = {
            f"{name} {kind}": self._open(family, of)
            for name, family in (("IPv4", socket.AF_INET), ("IPv6", socket.AF_INET6))
            for kind, of in (("TCP", socket.SOCK_STREAM), ("UDP", socket.SOCK_DGRAM))
        }
        self.ports = {name: one.getsockname()[1] for name, one in self.sockets.items()}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()

    @staticmethod
    def _open(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
        made = socket.socket(family, kind)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
        if kind == socket.SOCK_STREAM:
            made.listen()
        return made

    def _listen(self) -> None:
        names = {one: name for name, one in self.sockets.items()}
        while not self.ended.is_set():
            for one in select.select([*names], [], [], 0.1)[0]:
                if "TCP" in names[one]:
                    line, peer = one.accept()
                    line.close()
                else:
                    peer = one.recvfrom(2000)[1]
                self.heard.append(f"{names[one]} from {peer[0]}")

    def close(self) -> None:
        self.ended.set()
        self.thread.join()
        for one in self.sockets.values():
            one.close()


@contextmanager
def listeners() -> Iterator[Listeners]:
    made = Listeners()
    try:
        yield made
    finally:
        made.close()


def bridge_of(stack: Stack) -> str:
    assert isinstance(stack.engine, LocalEngine)
    (network,) = stack.engine.networks(stack.name)
    return f"br-{network.id[:12]}"


def link_of(bridge: str) -> dict[str, object]:
    out = subprocess.run(
        ["ip", "-json", "address", "show", bridge], capture_output=True, check=True
    )
    (link,) = json.loads(out.stdout)
    found: dict[str, object] = link
    return found


def link_local(mac: str) -> str:
    """Return the IPv6 address that a kernel gives an interface with this MAC. Source: RFC 4291."""
    first, *rest = bytes.fromhex(mac.replace(":", ""))
    eui = bytes([first ^ 2, *rest[:2], 0xFF, 0xFE, *rest[2:]])
    return str(ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + eui))


def checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def datagram(source: str, target: str, port: int) -> str:
    """Return an IPv4 datagram with eight bytes for a UDP port, in hexadecimal."""
    udp = struct.pack("!HHHH", 40000, port, 16, 0) + b"faultlab"
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0)
    head = head[:10] + struct.pack("!H", checksum(head + ends))
    return (head + ends + udp).hex()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with untouched("mtu", "security") as run:
        yield run.stack


@pytest.mark.beside
def test_nothing_of_the_host_answers_on_the_network_of_a_lab(stack: Stack) -> None:
    """TCP, UDP and frames made by hand, IPv4 and IPv6, from every machine."""
    link = link_of(bridge_of(stack))
    mac = str(link["address"])
    host, gateway = link_local(mac), _gateway(stack)
    with listeners() as ours:
        ports = ours.ports
        answers = []
        for name in ("client", "web"):
            machine = stack[name]
            own = machine.must("hostname -i").split()[0]
            machine.must(
                "sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.eth0.disable_ipv6=0"
            )
            time.sleep(2)  # until its own address is no longer tentative
            page = f"http://[{host}%25eth0]:{ports['IPv6 TCP']}/"
            tries = [
                f"curl -gs -m 2 '{page}'",
                f"echo x | nc -6 -u -w 1 {host}%eth0 {ports['IPv6 UDP']}",
                f"ping -6 -c 1 -W 1 {host}%eth0",
                f"arping -c 2 -w 2 -I eth0 {gateway} || false",
                f"ip neigh replace {gateway} lladdr {mac} dev eth0",
                f"curl -s -m 2 http://{gateway}:{ports['IPv4 TCP']}/",
                f"echo x | nc -u -w 1 {gateway} {ports['IPv4 UDP']}",
                f"ping -c 1 -W 1 {gateway}",
            ]
            for line in tries:
                done = machine.run(line)
                if line.startswith("ping") and done.code == 0:
                    answers.append(f"{name}: {line}")
            for target in ("255.255.255.255", "224.0.0.1", str(_broadcast(stack))):
                rest = datagram(own, target, ports["IPv4 UDP"])
                machine.must(f"{_FRAME} {mac.replace(':', '')} 0800 {rest}")
                machine.must(f"{_FRAME} ffffffffffff 0800 {rest}")
        time.sleep(1)
    assert (ours.heard, answers) == ([], [])


def _subnet(stack: Stack) -> ipaddress.IPv4Network:
    assert isinstance(stack.engine, LocalEngine)
    (network,) = stack.engine.networks(stack.name)
    return ipaddress.IPv4Network(network.attrs["IPAM"]["Config"][0]["Subnet"])


def _gateway(stack: Stack) -> str:
    return str(_subnet(stack)[1])


def _broadcast(stack: Stack) -> ipaddress.IPv4Address:
    return _subnet(stack).broadcast_address


@pytest.mark.beside
def test_the_host_has_no_address_on_the_network_of_a_lab(stack: Stack) -> None:
    assert link_of(bridge_of(stack))["addr_info"] == []


SYS_PTRACE = 1 << 19


def beyond(stack: Stack) -> list[str]:
    """Return the processes that a machine sees and that may do more than it may itself."""
    found = []
    for name, machine in stack.items():
        out = machine.run("cd /proc && grep -H -E 'CapBnd|CapPrm|Name' [1-9]*/status").out
        own = int(machine.must("sed -n 's/^CapBnd:[^0-9a-f]*//p' /proc/1/status"), 16)
        named = dict(re.findall(r"(\d+)/status:Name:\s+(.*)", out))
        for pid, kind, bits in re.findall(r"(\d+)/status:(Cap\w+):\s+(\w+)", out):
            if more := int(bits, 16) & ~(own | SYS_PTRACE):
                found.append(f"{name} sees {named.get(pid)} with {kind} {more:x} more")
    return found


@pytest.mark.beside
def test_no_helper_with_more_rights_can_be_seen(stack: Stack) -> None:
    """A process that is seen can have its files changed, by way of /proc/PID/root."""
    seen: list[str] = []
    for mode in ("on", "off"):
        recording = profiler.during(stack, lambda: seen.extend(beyond(stack)), mode)
        assert set(recording.machines) == {"web"}
    assert seen == []


@pytest.mark.beside
def test_a_machine_cannot_write_what_is_not_its_own(stack: Stack) -> None:
    """Settings of the whole kernel, the kernel's log, devices and other disks stay closed."""
    closed = [
        "sysctl -w vm.swappiness=$(sysctl -n vm.swappiness)",
        "sysctl -w kernel.panic=$(sysctl -n kernel.panic)",
        "mount -o remount,rw /proc/sys",
        "mount -t tmpfs none /mnt",
        "mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk",
        "dmesg",
        "find /sys/fs/cgroup -writable -name release_agent | grep .",
        "find /sys -type f -writable | grep -v ^/sys/fs/cgroup | grep .",
        "unshare -m true",
        "[ $(readlink /proc/1/ns/pid) != $(readlink /proc/self/ns/pid) ]",
    ]
    done = [
        f"{name}: {line}: {said.out[:80]}"
        for name, machine in stack.items()
        for line in closed
        if (said := machine.run(line)).code == 0
    ]
    assert done == []


# Sends UDP datagrams to web, each from a drawn address and port and a drawn MAC. Docker drops what
# comes from outside of the network. argv: MAC, address, count.
_DRAWN = r"""python3 - {} {} {} <<'_end_'
import os, socket, struct, sys
to, target = bytes.fromhex(sys.argv[1].replace(":", "")), socket.inet_aton(sys.argv[2])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("eth0", 0))
for number in range(int(sys.argv[3])):
    source = target[:3] + os.urandom(1)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 28, number & 0xFFFF, 0, 64, 17, 0) + source + target
    total = sum(struct.unpack("!10H", head))
    total = (total >> 16) + (total & 0xFFFF)
    head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    frame = to + b"\x02" + os.urandom(5) + b"\x08\x00" + head
    out.send(frame + os.urandom(2) + struct.pack("!HHH", number & 0xFFFF, 8, 0))
_end_"""
_MANY = 20_000
_TRACKED = Path("/proc/sys/net/netfilter/nf_conntrack_count")
# Threads are cheap: each costs the kernel a stack of 16 KB. argv: how many.
_BOMB = """python3 - {} <<'_end_'
import sys, threading
threading.stack_size(65536)
end = threading.Event()
made = 0
try:
    for made in range(int(sys.argv[1])):
        threading.Thread(target=end.wait, daemon=True).start()
except RuntimeError:
    print("refused after", made)
end.set()
_end_"""


def _learned(bridge: str) -> int:
    """Return how many addresses the host keeps for a bridge."""
    out = subprocess.run(
        ["bridge", "fdb", "show", "br", bridge], capture_output=True, text=True, check=True
    )
    return len(out.stdout.splitlines())


@pytest.mark.beside
def test_a_machine_fills_no_table_of_the_host(stack: Stack) -> None:
    """Packets from drawn addresses and MACs: the host keeps no connection and no address."""
    if not _TRACKED.exists():
        pytest.skip("this kernel tracks no connections")
    bridge, web = bridge_of(stack), stack["web"]
    address, mac = web.link
    tracked, learned = int(_TRACKED.read_text()), _learned(bridge)
    stack["client"].must(_DRAWN.format(mac, address, _MANY), timeout=60)
    seen = web.must("cat /sys/class/net/eth0/statistics/rx_packets")
    assert int(seen) >= _MANY / 2  # they have come over the bridge
    assert int(_TRACKED.read_text()) - tracked < 1000
    assert _learned(bridge) - learned < 10


def test_a_machine_cannot_take_all_processes_of_the_host(stack: Stack) -> None:
    """A stack has limits as a whole, also outside a class and without one of a container."""
    most = stack.engine.most()
    assert {"mem_limit", "pids_limit"} <= most.keys()
    stack["web"].limit(None, None, -1)
    # On a busy machine it takes minutes to make so many.
    said = stack["web"].must(_BOMB.format(most["pids_limit"] + 1000), timeout=300)
    assert said.startswith("refused after"), said
    assert int(said.split()[-1]) <= most["pids_limit"]


def _kept(engine: LocalEngine) -> list[str]:
    """Return what the host has for stacks: our table of the packet filter, and our cgroups."""
    tables = engine.helpers.on_host("nft list tables", "faultlab-look", ("NET_ADMIN",), whole=True)
    every = ("stacks19818*", "*/stacks19818*")
    groups = [path for its in every for path in engine.bounds.cgroups.glob(its)]
    return [line for line in tables.splitlines() if "faultlab" in line] + list(map(str, groups))


@pytest.mark.rotates(minutes=0.5)
@pytest.mark.alone
def test_what_the_host_has_for_stacks_goes_with_the_last_one() -> None:
    """Its table and its cgroups: by `down`, and after a kill in the middle of it by `sweep`."""
    with untouched("mtu", "kept") as run:
        engine, name = run.stack.engine, run.stack.name
        assert isinstance(engine, LocalEngine)
        assert any("table inet faultlab" in each for each in _kept(engine))
        assert any(each.endswith("/stacks19818") for each in _kept(engine))
        engine.tidy()
        assert any("table inet faultlab" in each for each in _kept(engine)), "it is in use"
        if {each.name.removesuffix("_default") for each in engine.networks()} != {name}:
            pytest.skip("another stack is up")
        while engine.leftovers(name):  # as `down` does, which is killed then
            removal._remove(engine, name)
        assert _kept(engine)
        assert "table inet faultlab of the packet filter" in engine.tidy()
        assert _kept(engine) == [] and engine.tidy() == []
    with untouched("mtu", "kept"):
        pass
    assert _kept(engine) == []


LOAD_OF_HEALTHY = ("good requests", "requests that fail")
INSTRUMENTS = "wrk curl hping3 ab mysql mysqlslap memcaslap tcpdump ping openssl"


@pytest.mark.rotates(minutes=0.4)
def test_no_verdict_depends_on_the_programs_of_client() -> None:
    """They are the learner's. All of them say yes to everything, and so do wrk's scripts."""
    with untouched("healthy", "instruments") as run:
        run.healthy()
        client = run.stack["client"]
        client.must(f"for p in {INSTRUMENTS}; do ln -sf /bin/true $(command -v $p); done")
        client.must("for s in /usr/local/share/wrk/*.lua; do echo >$s; done")
        run.measure("check")
        assert [found.words for found in run.good("check") if not found.holds] == []
        run.stack["php-fpm"].must("echo '<?php http_response_code(500);' >/var/www/html/index.php")
        run.measure("check")
        names = {found.name for found in run.good("check") if not found.holds}
        asks = {"http://web/index.php: right answers", "the page is of now: right answers"}
        assert names == {*asks, *LOAD_OF_HEALTHY}


@pytest.mark.beside
def test_the_files_of_a_user_cannot_be_changed_or_seen(stack: Stack) -> None:
    """A check looks from there: no process of client sees it, and its root is read-only."""
    user, client = stack.user(), stack["client"]
    assert user.run("echo x >/usr/bin/wrk").code != 0
    user.must("sleep 300 >/dev/null 2>&1 &")
    assert "sleep 300" not in client.must("ps -eo args")
    with pytest.raises(CannotRun):
        stack["client-user"]


@pytest.mark.beside
def test_a_name_outside_is_asked_nowhere(stack: Stack) -> None:
    """Docker's resolver forwards what it does not know, some versions to the host's resolver."""
    for machine in stack.machines:
        out = machine.must("cat /etc/resolv.conf")
        assert re.findall(r"^nameserver (.*)$", out, re.MULTILINE) == ["127.0.0.11"]
        assert container(machine).attrs["HostConfig"]["Dns"] == ["192.0.2.1"]


@pytest.mark.beside
def test_a_tool_from_elsewhere_is_built_without_a_network(tmp_path: Path) -> None:
    """RUN lines of a stranger's tool, which could send what they find or fetch what they want."""
    alone = 'FROM ${BASE}\nRUN test "$(ls /sys/class/net)" = lo\n'
    (tmp_path / "Dockerfile").write_text(f"ARG BASE\n{alone}")
    engine = LocalEngine()
    engine.images.ensure(lambda _: None, {str(tmp_path)})
    engine.client.images.remove(images.tag(str(tmp_path)), force=True)
    (tmp_path / "Dockerfile").write_text(f"ARG BASE\n# anew\n{alone}")
    images.tag.cache_clear()
    with pytest.raises(CannotRun, match="Building the image "):
        engine.images.ensure(lambda _: None, {str(tmp_path)}, network=True)
    (tmp_path / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nRUN false\n")
    images.tag.cache_clear()
    with pytest.raises(CannotRun) as caught:
        engine.images.ensure(lambda _: None, {str(tmp_path)})
    assert "--network" in caught.value.hint
