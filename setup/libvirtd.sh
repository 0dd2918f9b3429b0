#!/usr/bin/env bash
# Purpose: start libvirt's daemons by hand, where no service manager does it.
# Usage:   setup/libvirtd.sh     as root; setup/libvirt.sh calls it. Returns when
#          they are started, not when they answer.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

# A daemon must not keep what its starter has open: a lock held by flock(1) would never be free again.
for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    [ "$fd" -le 2 ] || [ "$fd" -eq 255 ] || eval "exec $fd>&-"
done

mkdir -p /run/libvirt
pgrep -x virtlogd >/dev/null || virtlogd --daemon

# Without udev /dev/kvm belongs to root alone. libvirt's trial start of QEMU gets at it all the same, but the check
# of the result, made as QEMU's user, does not: libvirt throws the result away and tries again, 4 to 8 seconds at
# every call, and "vagrant up" lost two minutes so. With a /dev/kvm that libvirtd alone sees, and nobody can open,
# both say the same.
if [ -e /dev/kvm ] && ! setpriv --reuid libvirt-qemu --regid kvm --init-groups test -w /dev/kvm; then
    install -m 000 /dev/null /run/libvirt/no-kvm
    # Private first, so that nothing of it reaches the machine; then shared with its own children: libvirt hands
    # QEMU its devices by mounts that have to reach QEMU's namespace.
    exec unshare --mount --propagation private sh -c '
        mount --make-rshared / && mount --bind /run/libvirt/no-kvm /dev/kvm && exec libvirtd --daemon'
fi
exec libvirtd --daemon
