#!/usr/bin/env bash
# Purpose: start libvirt's daemons directly, without a service manager.
# Usage:   setup/libvirtd.sh     as root; setup/libvirt.sh calls it. It returns
#          when they are started, not when they respond.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

# A daemon must not inherit open files: a lock of flock(1) would stay held until it ends.
for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    [ "$fd" -le 2 ] || [ "$fd" -eq 255 ] || eval "exec $fd>&-"
done

mkdir -p /run/libvirt
pgrep -x virtlogd >/dev/null || virtlogd --daemon

# Without udev only root can open /dev/kvm. libvirt's trial start of QEMU can open it too, but the check of the
# result runs as QEMU's user and cannot. So libvirt drops the result and tries again, for 4 to 8 seconds at every
# call; "vagrant up" took two minutes longer. Therefore libvirtd gets a private /dev/kvm that no user can open, and
# both agree.
if [ -e /dev/kvm ] && ! setpriv --reuid libvirt-qemu --regid kvm --init-groups test -w /dev/kvm; then
    install -m 000 /dev/null /run/libvirt/no-kvm
    # Private first, so that no mount reaches the machine. Then shared with its children, because libvirt gives
    # QEMU its devices by mounts that must reach QEMU's namespace.
    exec unshare --mount --propagation private sh -c '
        mount --make-rshared / && mount --bind /run/libvirt/no-kvm /dev/kvm && exec libvirtd --daemon'
fi
exec libvirtd --daemon
