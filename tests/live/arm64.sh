#!/usr/bin/env bash
# Purpose: try on ARM64 what needs no Docker: set-up's part that makes .venv, and
#          the unit tests of the probes. QEMU's user mode runs the programs, and
#          only a user namespace of its own knows about it.
# Usage:   tests/live/arm64.sh     as root; python -m tests.systems arm64 calls it
# Needs:   mmdebstrap, qemu-user-static (only its program), Linux 6.7 or newer
# Prints:  "=== STEP CODE SECONDS" for each step, and "~ NAME VALUE" for facts
set -euo pipefail

here=$(cd "$(dirname "$0")/../.." && pwd)
cache=${FAULTLAB_SYSTEMS:-/var/tmp/faultlab-systems}
qemu=$(command -v qemu-aarch64-static) || { echo "arm64: no QEMU; next: apt-get install qemu-user-static" >&2; exit 3; }

mkdir -p "$cache"
tree=$(mktemp -d "$cache/arm64-XXXXXX")
holder=
trap '[[ -z $holder ]] || kill "$holder"; rm -rf "$tree"' EXIT
# Unpacked and not configured, for that would need its programs to run already. So a few files are missing.
mmdebstrap --quiet --variant=extract --architectures=arm64 \
    --include=bash,coreutils,findutils,grep,sed,git,make,procps,python3-venv,util-linux,ca-certificates trixie "$tree"
git clone --quiet --no-hardlinks "$here" "$tree/srv/faultlab"
cp /etc/resolv.conf "$tree/etc/resolv.conf"
echo 'root:x:0:0:root:/srv:/bin/bash' >"$tree/etc/passwd"
cp "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" "$tree/etc/ssl/certs/ca-certificates.crt"

cat >"$tree/srv/steps" <<'STEPS'
cd /srv/faultlab
step() {
    local name=$1 began=$SECONDS code=0
    shift
    "$@" || code=$?
    echo "=== $name $code $((SECONDS - began))"
}
make_venv() {
    bash -euc 'ROOT=$PWD LOG=/tmp/log AGAIN="make setup"; . setup/lib.sh; . setup/venv.sh; venv_ensure'
}
step venv make_venv
step probes .venv/bin/python -m pytest -q tests/unit/test_probes.py tests/unit/test_data_probes.py
. /etc/os-release
echo "~ system $PRETTY_NAME"
echo "~ machine $(uname -m)"
echo "~ python $(.venv/bin/python -c 'import platform; print(platform.python_version())')"
STEPS

# Its uid 0 is that of this machine, so that the files have their owners.
unshare --user sleep infinity &
holder=$!
while [[ $(readlink "/proc/$holder/ns/user") == "$(readlink /proc/self/ns/user)" ]]; do sleep 0.05; done
echo '0 0 4294967295' >"/proc/$holder/uid_map"
echo '0 0 4294967295' >"/proc/$holder/gid_map"
# The head of an ELF file for ARM64, and which of its bits count (QEMU's own binfmt entry). "F": the program is
# opened now, so it need not be in the tree.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
# shellcheck disable=SC2016  # the variables belong to the inner shell
nsenter --target "$holder" --user -- unshare --mount --pid --fork --kill-child bash -euc '
    cd "$0"
    mount -t proc proc proc
    mount --rbind /dev dev
    mount -t tmpfs tmpfs tmp
    mount -t binfmt_misc binfmt_misc proc/sys/fs/binfmt_misc
    printf "%s" "$1" >proc/sys/fs/binfmt_misc/register
    exec env -i PATH=/usr/sbin:/usr/bin HOME=/srv LANG=C.UTF-8 chroot . bash /srv/steps
' "$tree" ":arm64:M::$magic:$mask:$qemu:F" </dev/null
