"""Launch: start the containers of a stack with Compose, on a free subnet."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from faultlab.core import naming
from faultlab.core.errors import CannotRun
from faultlab.core.naming import LAB_LABEL, OWNER_LABEL, RUN_LABEL, SLOT_LABEL, STACK_LABEL
from faultlab.engine.contract import Machine
from faultlab.engine.docker import compose, subnet
from faultlab.engine.docker.connection import Docker
from faultlab.lab.model import Lab

# Docker mounts /proc/sys read-only. This makes only /proc/sys/net writable, in the mount namespace
# of each process id. So `sysctl -w net.*` works in a machine as on a host, and `kernel.*` and
# `vm.*` stay closed. Some versions of Docker give machines on an internal network a default route.
# Without that route their kernel refuses packets to the outside.
_ISOLATE = """
links=$(mktemp)
for pid in {pids}; do
  # A process id can be used again, and the host's own namespaces must not be entered. The first
  # process of a container has others than its parent; no other process has.
  parent=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$pid/status)
  for ns in net mnt; do
    own=$(readlink /proc/$pid/ns/$ns) && above=$(readlink /proc/$parent/ns/$ns)
    [ "$own" != "$above" ]
  done
  nsenter -t "$pid" -n ip route flush default
  nsenter -t "$pid" -n ip -o link show dev eth0 >>"$links"
  nsenter -t "$pid" -m sh -ec \
    'mount --bind /proc/sys/net /proc/sys/net; mount -o remount,bind,rw /proc/sys/net'
done
"""
# A bridge learns where each address is, and a machine can send from any: an entry of the host's
# memory for each, for five minutes. The addresses of the machines are known. So they are told to
# the bridge, and with an `ageing_time` of 0 it learns no other (br_fdb_update in the kernel's
# net/bridge/br_fdb.c). `static`: without it, the host itself would have the address.
_KNOW = """
sed -n 's/.*@if\\([0-9]*\\): .* link.ether \\([0-9a-f:]*\\) .*/\\1 \\2/p' "$links" |
while read -r index address; do
  port=$(ip -o link show | sed -n "s/^$index: \\([^@:]*\\)[@:].*/\\1/p")
  [ -z "$port" ] || echo "fdb replace $address dev $port master static"
done >"$links.known"
bridge -batch "$links.known"
rm "$links" "$links.known"
for bridge in {bridges}; do
  ip link set dev $bridge type bridge ageing_time 0
  ip -d link show dev $bridge | grep -q ' ageing_time 0 ' ||
    {{ echo "the bridge $bridge goes on learning addresses" >&2; exit 1; }}
done
"""
# The host has an end of its bridge to a lab's network and listens there: IPv6 gives it an address
# on every link, and broadcasts reach it as well. So this end must neither receive nor send. A
# filter drops what arrives at it (`1,6 0 0 2` is classic BPF for "return TC_ACT_SHOT"). Frames
# between the machines do not pass it. If a kernel has no such filter, the settings alone must do.
_CLOSE = """
unshare -m sh -ec '
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,rw /proc/sys/net
cd /proc/sys/net
for bridge in {bridges}; do
  echo 1 >ipv4/conf/$bridge/rp_filter
  echo 8 >ipv4/conf/$bridge/arp_ignore
  if [ -d ipv6/conf/$bridge ]; then echo 1 >ipv6/conf/$bridge/disable_ipv6; fi
  if tc qdisc add dev $bridge clsact 2>/dev/null; then
    for way in ingress egress; do
      tc filter add dev $bridge $way bpf da bytecode "1,6 0 0 2," 2>/dev/null || :
    done
  fi
  tc filter show dev $bridge ingress | grep -q "direct-action" ||
    [ "$(cat ipv4/conf/all/rp_filter)" -lt 2 ] ||
    {{ echo "rp_filter of all is 2, and the kernel has no cls_bpf" >&2; exit 1; }}
done'
"""


def launch(
    on: Docker,
    lab: Lab,
    stack: str,
    run_id: str,
    folder: Path,
    *,
    parent: str = "",
    cpus: str = "",
    slot: str = "",
) -> None:
    """Start the containers of the lab's stack, without waiting until they are ready.

    The compose files are stored in `folder`. `parent`: the cgroup of all containers; empty for
    Docker's own. `cpus`: those that they can use; empty for all. `slot`: the same, if they are a
    slot. Raises CannotRun.
    """
    labels = {STACK_LABEL: stack, LAB_LABEL: lab.alias, RUN_LABEL: run_id}
    labels |= {OWNER_LABEL: naming.owner(), **({SLOT_LABEL: slot} if slot else {})}
    named = naming.neutral(stack) if lab.blind and lab.blind.examined else ""
    with on.errors():
        taken = subnet.of_networks(on.client.networks.list()) + subnet.host_routes()
    for candidate in subnet.free(taken):
        files = []
        documents = lab.services.documents(
            stack,
            lab.daemons,
            str(candidate),
            labels,
            parent=parent,
            cpus=slot or cpus,
            named=named,
        )
        for i, document in enumerate(documents):
            file = folder / ("compose.yaml", "overlay.yaml", f"overlay-{i}.yaml")[min(i, 2)]
            file.write_text(yaml.safe_dump(document, sort_keys=False))
            files.append(file)
        try:
            compose.up(stack, files, on.env)
        except compose.PoolOverlap:
            continue  # another stack took it between our check and Docker's
        return
    raise CannotRun(f"No free /24 is left in {subnet.POOL}.", "faultlab sweep")


def isolating(machines: Sequence[Machine], bridges: Sequence[str]) -> str:
    """Return the script that turns containers into machines, for a place that sees all processes.

    `bridges`: those of the stack, whose end on the host is closed.
    """
    pids = " ".join(machine.pid for machine in machines)
    close = _CLOSE.format(bridges=" ".join(bridges))
    return _ISOLATE.format(pids=pids) + knowing(bridges) + close


def knowing(bridges: Sequence[str]) -> str:
    """Return the part of it that tells bridges the addresses of the machines: `$links`."""
    return _KNOW.format(bridges=" ".join(bridges))
