#!/usr/bin/env bash
# Purpose: prepare this machine to build and run the lab VM: install missing
#          packages, start libvirt's daemons, make the default storage pool.
#          It changes nothing else. If nothing is missing it does nothing,
#          needs no root, and takes 0.1 s.
# Usage:   setup/libvirt.sh      the pool's folder: FAULTLAB_POOL, default
#                                /var/lib/libvirt/images
# Exit:    0 ready, 2 wrong usage, 3 cannot be prepared on this machine
set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
PACKAGES=(qemu-system-x86 qemu-utils libvirt-daemon-system libvirt-clients
    dnsmasq-base vagrant vagrant-libvirt mmdebstrap e2fsprogs openssh-client)
POOL=${FAULTLAB_POOL:-/var/lib/libvirt/images}
PATH=$PATH:/usr/sbin:/sbin
# shellcheck source=setup/lib.sh
. "$HERE/lib.sh"
(($# == 0)) || { sed -n '2,/^set /s/^# //p' "$0" >&2; exit 2; }

LOG=$(mktemp)
trap 'rm -f "$LOG"' EXIT
virsh_() { timeout 20 virsh --connect qemu:///system "$@"; }

missing() {
    local all
    mapfile -t all < <(wrap "${PACKAGES[*]}")
    has dpkg-query || die "this is no Debian or Ubuntu" "install by hand:" "${all[@]}"
    comm -23 <(printf '%s\n' "${PACKAGES[@]}" | sort) \
        <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${PACKAGES[@]}" 2>/dev/null |
            sed -n 's/^installed //p' | sort)
}

install_missing() {
    local list names
    list=$(missing) # not < <(missing), which would go on where that ends with an error
    [[ $list ]] || return 0
    mapfile -t names <<<"$list"
    local next="apt-get install --no-install-recommends ${names[*]}"
    can_root || die "packages are missing, and there is neither root nor sudo" "$next"
    lock_packages
    say "Installing what the lab VM needs:"
    fold -s -w 76 <<<"${names[*]}" | sed 's/^/  /' >&2
    apt_run update || say "  apt's index had errors; going on with what apt knows"
    apt_run install --no-install-recommends --no-remove "${names[@]}" ||
        { show_end "$LOG"; die "apt-get could not install them" "$next"; }
    unlock_packages
}

# Only virsh decides whether it worked: service managers can report "started" wrongly.
answers() { virsh_ list >/dev/null 2>&1; }
answers_within() {
    local end=$((SECONDS + $1))
    until answers; do ((SECONDS < end)) || return 1; sleep 0.2; done
}

by_systemd() { as_root systemctl start virtlogd libvirtd; }
by_service() { as_root service virtlogd start && as_root service libvirtd start; }
by_hand() { as_root "$HERE/libvirtd.sh"; }

# It answers, but not this user.
refuse_stranger() {
    [[ $(id -u) != 0 ]] && has sudo || return 0
    ! sudo -n timeout 20 virsh --connect qemu:///system list >/dev/null 2>&1 ||
        die "this user may not use libvirt" "sudo usermod -aG libvirt \"\$USER\"" \
            "then log out and in again"
}

start_daemons() {
    local way ways=(by_hand)
    refuse_stranger
    can_root || die "libvirt does not answer, and there is neither root nor sudo" "systemctl start libvirtd"
    [[ ! -x /etc/init.d/libvirtd ]] || ways=(by_service "${ways[@]}")
    [[ ! -d /run/systemd/system ]] || ways=(by_systemd "${ways[@]}")
    for way in "${ways[@]}"; do
        say "Starting libvirt, ${way/_/ }"
        "$way" >>"$LOG" 2>&1 && answers_within 15 && return 0
        refuse_stranger
    done
    show_end "$LOG"
    die "libvirtd does not answer" "libvirtd --verbose   (as root: it prints why)"
}

# No pipe: grep would end at the first match, and virsh would fail to write to it.
has_pool() { [[ " $(virsh_ pool-list --name 2>/dev/null | xargs) " == *" default "* ]]; }

make_pool() {
    ! has_pool || return 0
    say "Making libvirt's storage pool 'default' in $POOL"
    {
        virsh_ pool-info default || virsh_ pool-define-as default dir --target "$POOL"
        virsh_ pool-build default # fails if the folder exists
        virsh_ pool-start default
        virsh_ pool-autostart default
    } >>"$LOG" 2>&1 || true
    has_pool ||
        { show_end "$LOG"; die "the storage pool does not start" "virsh -c qemu:///system pool-start default"; }
}

install_missing
answers || start_daemons
make_pool
