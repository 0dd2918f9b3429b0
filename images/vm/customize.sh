#!/usr/bin/env bash
# customize.sh: turns a plain Debian tree into the lab VM. mmdebstrap runs it when all packages are in place.
#
# Usage: customize.sh TREE PUBLIC_KEY_FILE
set -euo pipefail
tree=$1 key=$2
here=$(cd "$(dirname "$0")" && pwd)
inside() { chroot "$tree" "$@"; }

cp -r --no-preserve=ownership "$here/files/." "$tree/"
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
inside systemctl -q enable systemd-networkd docker ssh
# Nothing may wait for a network that leads nowhere, and no timer may stir while a lab measures.
inside systemctl -q mask systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer \
  dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-tmpfiles-clean.timer \
  getty@tty1.service
rm -rf "$tree"/usr/share/doc/* "$tree"/usr/share/man/* "$tree"/var/log/*.log
