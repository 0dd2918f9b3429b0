#!/usr/bin/env bash
# Purpose: make the VM's disk from a file tree, without mounting anything: a
#          partition table, GRUB, ext4, and a swap area that nothing switches on.
# Usage:   images/vm/disk.sh TREE RAW_FILE SIZE_GIB       (build.sh calls it)
set -euo pipefail
tree=$1 raw=$2 gib=$3
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
per_gib=$((1024 * 1024 * 2))                 # all counts are in sectors of 512 bytes
first=2048                                   # where the root partition begins; GRUB lives before it
swap=$((2 * per_gib)) swap_first=$((gib * per_gib - swap))
sectors=$((swap_first - first))

le32() { printf '%08x' "$1" | sed -E 's/(..)(..)(..)(..)/\\x\4\\x\3\\x\2\\x\1/'; }
put() { dd of="$raw" bs=1 seek="$1" conv=notrunc status=none; }

mkdir -p "$tree/boot/grub"
cat > "$tree/boot/grub/grub.cfg" <<EOF
linux /vmlinuz $(cat "$here/cmdline")
initrd /initrd.img
boot
EOF
chroot "$tree" grub-mkimage --format i386-pc --output /boot/grub/core.img --prefix '(hd0,msdos1)/boot/grub' \
    biosdisk part_msdos ext2 linux normal

rm -f "$raw"
truncate -s "${gib}G" "$raw"
dd if="$tree/usr/lib/grub/i386-pc/boot.img" bs=440 count=1 status=none | put 0
# Two partitions: active or not, any geometry, type 83 (Linux) or 82 (swap), first sector, length; then the
# boot signature.
# shellcheck disable=SC2059  # the format is the data
printf "\x80\xfe\xff\xff\x83\xfe\xff\xff$(le32 $first)$(le32 $sectors)" | put 446
# shellcheck disable=SC2059
printf "\x00\xfe\xff\xff\x82\xfe\xff\xff$(le32 $swap_first)$(le32 $swap)" | put 462
printf '\x55\xaa' | put 510
dd if="$tree/boot/grub/core.img" of="$raw" bs=512 seek=1 conv=notrunc status=none
# The file is new, so it reads as zeros: saying so spares the VM from writing them at its first boot.
mke2fs -q -F -t ext4 -L lab -m 0 -E "offset=$((first * 512)),assume_storage_prezeroed=1" \
    -d "$tree" "$raw" "$((sectors / 2))k"
# A swap area is its first page; mkswap writes it only to something that is as long as the area.
truncate -s $((swap * 512)) "$raw.swap"
mkswap -q "$raw.swap"
dd if="$raw.swap" of="$raw" bs=4096 count=1 seek=$((swap_first / 8)) conv=notrunc status=none
rm "$raw.swap"
