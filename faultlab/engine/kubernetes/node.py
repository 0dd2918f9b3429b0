"""Node: scripts for the node pod, which sees all processes of the node of a stack.

It is a pod with the process ids of the node, and with the rights to enter namespaces and to change
cgroups and networks. It has no network, and no process of a stack sees it. Of the node's own
namespaces, scripts enter only that of its cgroups, which decides how these are named.
"""

import shlex
from collections.abc import Mapping, Sequence

RIGHTS = ("SYS_ADMIN", "SYS_PTRACE", "SYS_CHROOT", "NET_ADMIN", "DAC_OVERRIDE")

# pid_of CONTAINER: a process of it. Its own namespaces must differ from those of the node.
_PID_OF = r"""
pid_of() {
  [ "$1" ] || { echo "the container does not run" >&2; return 1; }
  for file in /proc/[0-9]*/cgroup; do
    grep -q "$1" "$file" 2>/dev/null || continue
    pid=${file#/proc/} pid=${pid%/cgroup}
    for kind in net mnt; do
      its=$(readlink /proc/$pid/ns/$kind) || continue 2  # it has ended
      [ "$its" != "$(readlink /proc/1/ns/$kind)" ] || continue 2
    done
    echo "$pid"
    return
  done
  echo "no process of the container $1 is on this node" >&2
  return 1
}
"""
# /proc/sys is read-only in a container. This makes only /proc/sys/net writable there.
_OPEN = "mount --bind /proc/sys/net /proc/sys/net; mount -o remount,bind,rw /proc/sys/net"
# A pod keeps the routes to the other pods of its stack and loses all others. Docker gives a machine
# no IPv6 address; a pod can have one on its link, where no policy may hold.
_CLOSE = r"""
close() {
  pid=$(pid_of "$1"); shift
  nsenter -t "$pid" -n unshare -m sh -ec '
    mount --bind /proc/sys/net /proc/sys/net
    mount -o remount,bind,rw /proc/sys/net
    if [ -d /proc/sys/net/ipv6 ]; then  # a link that gets another MTU starts with the default
      sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.eth0.disable_ipv6=1
    fi
    for peer in $PEERS; do
      way=$(ip -4 -o route get "$peer" | sed -n "s/.* via \([0-9.]*\) dev \([^ ]*\) .*/\1 dev \2/p")
      if [ "$way" ]; then ip route replace "$peer/32" via $way onlink; fi
    done
    ip -4 route show default | while read -r route; do ip -4 route del $route; done
    if [ "$TRACKED" ]; then  # a kernel begins when a rule asks for the state of a connection
      iptables --wait -t nat -A OUTPUT -d 127.0.0.11 -m conntrack --ctstate NEW -j ACCEPT
    fi
    for setting; do sysctl -qw "$setting"; done
  ' close "$@"
}
"""
# limit CONTAINER FILE VALUE: in its cgroup and no other, so the path must have the container's id.
# Version 1 has a tree of cgroups for each controller.
_LIMIT = r"""
limit() {
  pid=$(pid_of "$1")
  if [ "$2" = memory.max ] && [ -d /proc/1/root/sys/fs/cgroup/memory ]; then
    set -- "$1" memory.limit_in_bytes "$3"
  fi
  groups=$(nsenter -t 1 -C cat "/proc/$pid/cgroup")
  way=$(echo "$groups" | sed -n "s/^[0-9]*:\(.*,\)*${2%%.*}\(,.*\)*://p")
  for place in "${2%%.*}$way" "$(echo "$groups" | sed -n 's/^0:://p')" "unified$way"; do
    file=/proc/1/root/sys/fs/cgroup/$place/$2
    case $place in *"$1"*) if [ -e "$file" ]; then echo "$3" >"$file"; return; fi ;; esac
  done
  echo "the cgroup of $1 has no $2" >&2
  return 1
}
"""


def pid(container: str) -> str:
    """Return a script that prints the id of a process of a container."""
    return f"{_PID_OF}\npid_of {shlex.quote(container)}"


def closing(
    containers: Mapping[str, Mapping[str, str]], peers: Sequence[str], tracked: bool = False
) -> str:
    """Return a script that closes the networks of pods to all but their peers.

    `containers`: one of each pod, with the sysctls that the pod starts with. `tracked`: each
    network has a table of its connections, as with Docker, whose resolver needs NAT there.
    """
    calls = [
        " ".join(["close", key, *(shlex.quote(f"{name}={value}") for name, value in its.items())])
        for key, its in containers.items()
    ]
    given = f"export PEERS='{' '.join(peers)}' TRACKED={'1' if tracked else ''}"
    return "\n".join([_PID_OF + _CLOSE, given, *calls])


def opening(containers: Sequence[str]) -> str:
    """Return a script that makes /proc/sys/net writable in containers."""
    calls = [f"nsenter -t $(pid_of {shlex.quote(key)}) -m sh -ec '{_OPEN}'" for key in containers]
    return _PID_OF + "\n".join(calls)


def sizing(container: str, folder: str, options: Mapping[str, str]) -> str:
    """Return a script that gives a folder in memory the size and number of files of Docker's."""
    text = ",".join(["remount", *(f"{key}={value}" for key, value in options.items())])
    mount = f"mount -t tmpfs -o {shlex.quote(text)} tmpfs {shlex.quote(folder)}"
    return f"{_PID_OF}\nnsenter -t $(pid_of {shlex.quote(container)}) -m -p {mount}"


def bounding(bounds: Sequence[tuple[str, str, str]]) -> str:
    """Return a script that writes limits: containers, files of their cgroups and values."""
    calls = [" ".join(["limit", *map(shlex.quote, bound)]) for bound in bounds]
    return f"{_PID_OF}{_LIMIT}\n" + "\n".join(calls)
