"""The sweep: a tool that greps everything it can reach for the name of a lab."""

from __future__ import annotations

from pathlib import Path

from faultlab.core import naming
from faultlab.score import tool as tools
from faultlab.score.tool import Tool
from faultlab.score.trial import Outcome

# Looks for the id in whatever a tool can reach: its own and other processes' environment and words,
# names of hosts in both directions, mounts, and the names and (where it is no common word) the
# contents of files, also of the daemons' file systems. What Debian's packages are called is no
# hint: each machine of each lab has the same ones, conntrack among them. Nor is the kernel's own
# name for the limit of a tmpfs, nr_inodes, or Debian's folder for any CA, ca-certificates.
SWEEP = r"""
id=@ID@ common='s/nr_inodes=//; s/ca-certificates//'
say() { sed "s#^#LEAK $1: #" | head -n 3 | tee -a /tmp/leaks; }
env | grep -F -- "$id" | say environment
hostname -f 2>/dev/null | grep -F -- "$id" | say hostname
mine=$(head -n 1 /proc/self/cgroup)
for p in /proc/[0-9]*; do
  read -r its 2>/dev/null < $p/cgroup || continue
  [ "$its" = "$mine" ] && continue  # this script
  all="$all $p"
done
# One grep for all processes: without KVM each program takes its time to start.
of() { for p in $all; do echo $p/$1; done; }
named() { sed "$common" | grep -F -- "$id" | say "$1"; }
grep -azHF -- "$id" $(of environ) 2>/dev/null | tr '\0' '\n' | named environ
grep -aHF -- "$id" $(of cmdline) 2>/dev/null | tr '\0' ' ' | named cmdline
grep -HF -- "$id" $(of mountinfo) 2>/dev/null | named mountinfo
# Once for all processes of a container.
stat -Lc '%d:%i %n' $(of root/) 2>/dev/null | sort -u -k 1,1 | while read -r _ root; do
  find $root -xdev \
    \( -path '*/usr' -o -path '*/var/lib/dpkg' -o -path '*/var/cache/apt' \) -prune \
    -o -name "*$id*" -print 2>/dev/null | say "$root"
done
net=$(hostname -I | awk '{ sub(/[0-9]+$/, "", $1); print $1 }')
# Side by side: an address that does not answer takes the whole time.
for i in $(seq 1 9); do timeout 3 getent hosts "$net$i" & done |
  grep -F -- "$id" | say "reverse DNS"
for name in $id $id-web faultlab-$id faultlab-$id-web @NAMESPACE@$id-web @NAMESPACE@$id-db; do
  timeout 3 getent hosts "$name" &
done | say DNS
case $id in
  *-*) grep -rslF -- "$id" /etc /srv /root /tmp /var/www /var/log /var/lib/tomcat10 | say file ;;
esac
[ -s /tmp/leaks ] && exit 2
exit 0
"""


def make(folder: Path, name: str, text: str) -> Tool:
    """A tool in a folder of its own, as somebody outside would write it."""
    (folder / name).mkdir()
    (folder / name / "tool.toml").write_text(f'title = "{name}"\n{text}')
    return tools.load(str(folder / name))


def sweeper(folder: Path, lab_id: str) -> Tool:
    """Greps everything that it can reach for the id of a lab."""
    script = SWEEP.replace("@ID@", lab_id).replace("@NAMESPACE@", naming.prefix())
    assert "'''" not in script
    return make(
        folder,
        f"sweep-{lab_id}",
        f"at = ['servers', 'client']\nwindow = 120\noutput = 'exit'\n"
        f"capabilities = ['SYS_PTRACE']\ncommand = '''{script}'''\n"
        f"[[alarm]]\nmatch = '^LEAK'\n",
    )


def swept(outcome: Outcome) -> list[str]:
    """Return what was found; the sweep must have come to its end on every machine."""
    assert outcome.diagnosis is not None, outcome.reason
    return outcome.diagnosis.evidence
