#!/usr/bin/env bash
# Purpose: turn a plain Debian tree into the lab VM. mmdebstrap runs it when all
#          packages are in place.
# Usage:   images/vm/customize.sh TREE PUBLIC_KEY_FILE    (build.sh passes it on)
set -euo pipefail
tree=$1 key=$2
inside() { chroot "$tree" "$@"; }

chmod 440 "$tree/etc/sudoers.d/vagrant"
echo faultlab > "$tree/etc/hostname"
echo '127.0.0.1 localhost faultlab' > "$tree/etc/hosts"

# A password of "*" can never be typed, and unlike "!" does not lock the account for ssh keys.
inside useradd --create-home --shell /bin/bash --groups sudo,docker,adm --password '*' vagrant
install -d -m 700 "$tree/home/vagrant/.ssh"
install -m 600 "$key" "$tree/home/vagrant/.ssh/authorized_keys"
inside chown -R vagrant:vagrant /home/vagrant

# An empty machine id makes the first boot a special, slow one.
inside systemd-machine-id-setup >/dev/null 2>&1
inside systemctl -q enable systemd-networkd docker ssh ssh-untracked always-on
# Nothing may wait for a network that leads nowhere, no timer may stir while a lab measures, and what nobody here
# uses may not cost boot time. AppArmor's own profiles are for programs of a desktop; Docker loads its profile itself.
inside systemctl -q mask systemd-networkd-wait-online.service apparmor.service sysstat.service \
    systemd-binfmt.service sys-fs-fuse-connections.mount systemd-pstore.service getty@tty1.service \
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer systemd-tmpfiles-clean.timer

# bcc's tools are compiled when they start, against the kernel's headers; as packages those would bring gcc along.
release=$(ls "$tree/lib/modules")
inside sh -ec "cd /tmp; apt-get -qq download linux-headers-$release linux-headers-${release%-cloud-amd64}-common
    for package in linux-headers-*.deb; do
        dpkg-deb --fsys-tarfile \$package | tar -x --keep-directory-symlink -C /; rm \$package
    done"

rm -rf "$tree"/usr/share/doc/* "$tree"/usr/share/man/* "$tree"/var/log/*.log
