"""Kernel: what was noted is put back and read back, played through on a small kernel."""

from __future__ import annotations

import re

import pytest

from faultlab.core.errors import CannotRun
from faultlab.engine import kernel
from faultlab.engine.shell import Done, Shell


class Fake(Shell):
    """A kernel with sysctls, swap areas and a folder of notes."""

    name = "kernel"

    def __init__(self) -> None:
        self.sysctls = {"vm.swappiness": "60", "net.netfilter.nf_conntrack_max": "65536"}
        self.swaps: list[str] = []
        self.qdiscs = ["qdisc fq_codel 0: dev eth0 root", "qdisc noqueue 0: dev veth1 root"]
        self.rules = ["-t raw -P PREROUTING ACCEPT", "-t filter -P FORWARD DROP"]
        self.notes: dict[str, str] = {}
        self.stubborn = False

    def printed(self) -> str:
        sysctls = "".join(f"{k} = {v}\n" for k, v in self.sysctls.items())
        swaps = "".join(f"{area} partition 1 0 -2\n" for area in self.swaps)
        qdiscs = "".join(f"{line}\n" for line in self.qdiscs)
        rules = "".join(f"{rule}\n" for rule in self.rules)
        parts = [sysctls, f"Filename Type\n{swaps}", qdiscs, rules]
        return "-- next --\n".join(parts)

    def run(self, command: str, timeout: float = 30) -> Done:
        out = ""
        if command == kernel._READ:
            out = self.printed()
        elif command.startswith("ls "):
            out = "\n".join(name.rpartition("/")[2] for name in self.notes)
        elif found := re.match(r"cat (\S+)", command):
            out = self.notes.get(found[1], "")
        elif found := re.match(r"mkdir -p /run/faultlab; \[ -s (\S+) ]", command):
            self.notes.setdefault(found[1] + ".part", self.printed())
        elif found := re.match(r"\[ -s (\S+) ] \|\| mv", command):
            self.notes.setdefault(found[1], self.notes.pop(found[1] + ".part"))
        elif found := re.match(r"rm (\S+)", command):
            del self.notes[found[1]]
        elif found := re.match(r"swapoff (\S+)", command):
            self.swaps.remove(found[1])
        elif found := re.match(r"iptables (-t \S+) -D (.*)", command):
            self.rules.remove(f"{found[1]} -A {found[2]}")
        elif found := re.match(r"iptables (-t \S+) -X (.*)", command):
            self.rules.remove(f"{found[1]} -N {found[2]}")
        elif found := re.match(r"iptables ((-t \S+ -P \S+) .*)", command):
            self.rules = [rule for rule in self.rules if not rule.startswith(found[2])]
            self.rules.append(found[1])
        elif found := re.match(r"iptables (.*)", command):
            self.rules.append(found[1])
        elif (found := re.match(r"sysctl -w (\S+)='(.*)'", command)) and not self.stubborn:
            self.sysctls[found[1]] = found[2]
        return Done(command, 0, out, "", 0.0)


def test_what_a_lab_changed_is_put_back() -> None:
    fake = Fake()
    kernel.note(fake, "faultlab-swap")
    fake.sysctls["net.netfilter.nf_conntrack_max"] = "200"
    fake.sysctls["net.ipv4.conf.veth9.forwarding"] = "1"
    fake.swaps.append("/dev/vda2")
    kernel.put_back(fake, "faultlab-swap")
    assert fake.sysctls["net.netfilter.nf_conntrack_max"] == "65536"
    assert fake.swaps == []
    assert fake.notes == {}


def test_rules_of_the_packet_filter_are_put_back() -> None:
    """Those of Docker are left to Docker."""
    fake = Fake()
    before = [*fake.rules, "-t nat -A POSTROUTING -o eth0 -j MASQUERADE"]
    fake.rules = [*before]
    kernel.note(fake, "faultlab-conntrack")
    of_docker = "-t nat -A POSTROUTING -s 198.18.1.0/24 ! -o br-e1f2 -j MASQUERADE"
    fake.rules = [
        "-t raw -P PREROUTING DROP",
        "-t filter -P FORWARD DROP",
        "-t raw -N mine",
        "-t raw -A PREROUTING -p tcp -j mine",
        "-t raw -A mine -p tcp -m multiport --ports 80 -j CT --notrack",
        of_docker,
    ]
    kernel.put_back(fake, "faultlab-conntrack")
    assert sorted(fake.rules) == sorted([*before, of_docker])
    assert fake.notes == {}


def test_the_first_note_counts() -> None:
    fake = Fake()
    kernel.note(fake, "faultlab-swap")
    fake.sysctls["vm.swappiness"] = "1"
    kernel.note(fake, "faultlab-swap")  # the command before us was killed
    kernel.put_back(fake, "faultlab-swap")
    assert fake.sysctls["vm.swappiness"] == "60"


def test_without_a_note_nothing_is_touched() -> None:
    fake = Fake()
    fake.sysctls["vm.swappiness"] = "1"
    kernel.put_back(fake, "faultlab-swap")
    assert fake.sysctls["vm.swappiness"] == "1"


def test_what_stays_different_is_said_and_the_note_stays() -> None:
    fake = Fake()
    kernel.note(fake, "faultlab-swap")
    fake.sysctls["vm.swappiness"] = "1"
    fake.stubborn = True
    with pytest.raises(CannotRun, match=r"vm\.swappiness = 1 \(was 60\)") as caught:
        kernel.put_back(fake, "faultlab-swap")
    assert caught.value.hint == "faultlab vm reset"
    assert fake.notes


def test_differences() -> None:
    fake = Fake()
    before = kernel.read(fake)
    fake.swaps.append("/dev/vda2")
    fake.qdiscs.append("qdisc netem 8001: dev eth1 root loss 30%")
    fake.sysctls["net.new.from.a.module"] = "1"
    now = kernel.read(fake)
    assert kernel.differences(before, now) == [
        "swap /dev/vda2 is on",
        "new qdisc netem 8001: dev eth1 root loss 30%",
    ]
    assert kernel.differences(now, before) == ["swap /dev/vda2 is off"]
