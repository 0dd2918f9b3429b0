#!/usr/bin/env bash
# libvirt.sh: makes this machine able to build and run the lab VM: installs what is missing, starts libvirt's
# daemons, makes the default storage pool. Nothing else on the machine is changed. Does nothing, and needs no
# root, when nothing is missing.
#
# Usage: setup/libvirt.sh          (the pool's folder: FAULTLAB_POOL, default /var/lib/libvirt/images)
# Exit:  0 ready, 2 wrong usage, 3 cannot be made ready on this machine
set -euo pipefail

PACKAGES=(qemu-system-x86 qemu-utils libvirt-daemon-system libvirt-clients dnsmasq-base vagrant vagrant-libvirt
          mmdebstrap e2fsprogs openssh-client)
POOL=${FAULTLAB_POOL:-/var/lib/libvirt/images}
PATH=$PATH:/usr/sbin:/sbin

say() { echo "libvirt: $*" >&2; }
die() { say "$1"; say "next: $2"; exit 3; }
virsh_() { timeout 5 virsh --connect qemu:///system "$@"; }
answers() { virsh_ list >/dev/null 2>&1; }
root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

install_missing() {
  command -v dpkg-query >/dev/null || die "this is no Debian or Ubuntu system" "install by hand: ${PACKAGES[*]}"
  local have missing
  have=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${PACKAGES[@]}" 2>/dev/null |
         awk '$2 == "installed" { print $1 }' || true)
  missing=$(printf '%s\n' "${PACKAGES[@]}" | grep -vxF "$have" || true)
  [ -n "$missing" ] || return 0
  # shellcheck disable=SC2086  # a list of package names, split on purpose
  set -- $missing
  say "installing $*"
  root apt-get update -qq || die "the package lists could not be fetched" "apt-get update"
  root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2 ||
    die "apt-get could not install them" "apt-get install $*"
}

wait_for_answer() { # SECONDS
  local until=$((SECONDS + $1))
  while ! answers; do [ "$SECONDS" -lt "$until" ] || return 1; sleep 0.2; done
}

# For a machine without a service manager. Runs as root, in a shell of its own.
by_hand() {
  local fd
  # A daemon must not keep what its starter has open: a lock held by flock(1) would never be free again.
  for fd in /proc/self/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] || eval "exec $fd>&-"; done
  mkdir -p /run/libvirt
  pgrep -x virtlogd >/dev/null || virtlogd --daemon
  # Without udev /dev/kvm belongs to root alone. libvirt's probe of QEMU gets at it all the same, its own check of
  # the probe's result does not, so it throws the result away and probes again, 4 to 8 s at every call: vagrant
  # up lost two minutes so. A /dev/kvm that nobody can open, for libvirtd alone, makes both say the same.
  if [ -e /dev/kvm ] && ! setpriv --reuid libvirt-qemu --regid kvm --init-groups test -w /dev/kvm; then
    install -m 000 /dev/null /run/libvirt/no-kvm
    exec unshare --mount sh -c 'mount --bind /run/libvirt/no-kvm /dev/kvm && exec libvirtd --daemon'
  fi
  exec libvirtd --daemon
}

# Whether it worked is judged by virsh alone: a service manager that says "started" has been wrong before.
start_daemons() {
  local way
  for way in systemd service by-hand; do
    case $way in
      systemd) [ -d /run/systemd/system ] || continue
               root systemctl start virtlogd libvirtd || true ;;
      service) [ -x /etc/init.d/libvirtd ] || continue
               root service virtlogd start || true; root service libvirtd start || true ;;
      by-hand) root bash -c "$(declare -f by_hand); by_hand" || true ;;
    esac >&2
    say "starting libvirtd ($way)"
    wait_for_answer 15 && return 0
  done
  say "$(virsh_ uri 2>&1 | tail -1 || true)"
  die "libvirtd does not answer" "libvirtd --verbose   (as root, to read why)"
}

pool_running() { virsh_ pool-list --name 2>/dev/null | grep -qx 'default *'; }

make_pool() {
  pool_running && return 0
  say "making the storage pool 'default' in $POOL"
  virsh_ pool-info default >/dev/null 2>&1 || virsh_ pool-define-as default dir --target "$POOL" >&2
  virsh_ pool-build default >&2 || true      # the folder is there already
  virsh_ pool-start default >&2 || die "the pool does not start" "virsh -c qemu:///system pool-start default"
  virsh_ pool-autostart default >&2
}

[ $# = 0 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
install_missing
answers || start_daemons
make_pool
