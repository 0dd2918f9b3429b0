"""Untracked: the host keeps no entry for the connections of a lab.

While `bridge-nf-call-iptables` is 1, which Docker sets, a bridge hands its packets to the packet
filter of the host. That has one table of connections for all, so a machine could fill it: the
machine can send from any address. So the bridges of our stacks are in a group of interfaces, and a
table of our own says that no packet of this group is tracked. The table is there before packets are
put together from fragments, so they cost no memory either. Docker's own rules do not ask for the
state of a connection within a network. Sources: nft(8), ip-link(8), bridge_nf_call_iptables in the
kernel's ip-sysctl page, net/ipv4/netfilter/nf_defrag_ipv4.c.
"""

from collections.abc import Sequence

GROUP = 19818  # of interfaces, and in the name of cgroups: a number that only we use
TABLE = "inet faultlab"
_RULE = f"iifgroup {GROUP} notrack"
_SETTINGS = "/proc/sys/net/bridge/bridge-nf-call"
# The transaction leaves no moment without the rule, and can be repeated.
_MAKE = f"""
untrack() {{
  cat {_SETTINGS}-iptables {_SETTINGS}-ip6tables 2>/dev/null | grep -q 1 || return 0
  nft -f - <<'_end_' && nft list table {TABLE} | grep -q '{_RULE}' && return
add table {TABLE}
add chain {TABLE} untracked {{ type filter hook prerouting priority -450; }}
flush chain {TABLE} untracked
add rule {TABLE} untracked {_RULE}
_end_
  echo "the host tracks the packets of labs: nft cannot exempt them" >&2
  exit 1
}}
"""
# Another command can start a stack meanwhile. It puts its bridge into the group before it makes the
# table. So a look after the removal finds the bridge, or that command finds no table and makes it.
REMOVE = f"""{_MAKE}
used() {{ ip -o link show group {GROUP} | grep -q .; }}
if ! used && nft list table {TABLE} >/dev/null 2>&1; then
  nft delete table {TABLE} 2>/dev/null && echo "table {TABLE} of the packet filter" || :
  if used; then untrack; fi
fi
"""


def beginning(bridges: Sequence[str]) -> str:
    """Return the script that exempts the packets on these bridges, for the host's network."""
    mark = f"for bridge in {' '.join(bridges)}; do ip link set dev $bridge group {GROUP}; done\n"
    return f"{_MAKE}{mark}untrack\n"
