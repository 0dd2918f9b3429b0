#!/usr/bin/env bash
# Purpose: find out how a VM can run on this machine: boot a kernel with KVM and
#          wait until it is up. That /dev/kvm exists or can be opened proves
#          nothing, because on some machines a guest then hangs.
# Usage:   setup/accel.sh [KERNEL]      any Linux kernel, default .vm/vmlinuz
#          FAULTLAB_ACCEL_SECONDS=5     how long the guest can take
#          Prints "kvm" or "tcg", and the reason on standard error.
# Exit:    0 found out, 2 wrong usage, 3 cannot find out here
set -euo pipefail
kernel=${1:-.vm/vmlinuz}
seconds=${FAULTLAB_ACCEL_SECONDS:-5}

if [ $# -gt 1 ] || [[ $kernel == -* ]]; then sed -n '2,/^set /s/^# //p' "$0" >&2; exit 2; fi
answer() { echo "$1"; echo "accel: $1: $2" >&2; exit 0; }

command -v qemu-system-x86_64 >/dev/null || { echo "accel: no qemu here; next: setup/libvirt.sh" >&2; exit 3; }
[ -e /dev/kvm ] || answer tcg "this machine has no /dev/kvm"
if ! [ -r /dev/kvm ] || ! [ -w /dev/kvm ]; then
    answer tcg "$(id -un) cannot open /dev/kvm; next: add yourself to the group kvm"
fi
[ -f "$kernel" ] || { echo "accel: no kernel at $kernel to try with; next: images/vm/build.sh" >&2; exit 3; }

log=$(mktemp)
trap 'rm -f "$log" "$log.qemu"' EXIT
# The guest has no disk: it boots, finds no root file system and panics;
# "panic=-1" and -no-reboot then end QEMU.
status=0
{ timeout --kill-after=1 "$seconds" qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -display none \
    -accel kvm -cpu host -m 256 -serial "file:$log" -kernel "$kernel" -append 'console=ttyS0 panic=-1' \
    </dev/null; } >"$log.qemu" 2>&1 || status=$?

if grep -q 'VFS: Unable to mount root' "$log"; then
    # It is not enough that this user can open /dev/kvm: libvirt runs QEMU as another user.
    ! timeout 10 virsh -c qemu:///system list >/dev/null 2>&1 ||
        timeout 10 virsh -c qemu:///system domcapabilities --virttype kvm >/dev/null 2>&1 ||
        answer tcg "a guest boots with KVM, but libvirt offers none: its QEMU cannot open /dev/kvm"
    answer kvm "a guest booted with it"
elif [ "$status" = 124 ] || [ "$status" = 137 ]; then
    answer tcg "a guest with KVM was not up within $seconds s; its console: $(tail -1 "$log" | cut -c1-80)"
else
    why=$(head -1 "$log.qemu" | cut -c1-150)
    answer tcg "QEMU with KVM ended at once${why:+: $why}"
fi
