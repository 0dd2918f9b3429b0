#!/usr/bin/env bash
# build.sh: builds the lab VM from Debian packages, with Docker images already inside: a disk that boots by itself,
# kernel and initrd for booting it directly, and the Vagrant box. Does nothing when nothing has changed.
#
# Usage: images/vm/build.sh [--images "NAME:TAG ..."] [--size GIB] [DIR]        (DIR: default .vm)
# Needs: root, mmdebstrap, mke2fs, qemu-img, ssh-keygen, docker   (setup/libvirt.sh installs them)
# Makes: DIR/disk.qcow2 vmlinuz initrd.img cmdline ssh_key ssh_key.pub faultlab.box version digest
# Exit:  0 built or up to date, 1 the build failed, 2 wrong usage, 3 something it needs is missing
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
images='' gib=8 out=.vm
PATH=$PATH:/usr/sbin:/sbin

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
die() { echo "vm image: $2" >&2; exit "$1"; }
while [ $# -gt 0 ]; do
  case $1 in
    --images) images=${2?}; shift ;;
    --size) gib=${2?}; shift ;;
    -*) usage ;;
    *) out=$1 ;;
  esac
  shift
done

for tool in mmdebstrap mke2fs qemu-img ssh-keygen docker dockerd; do
  command -v "$tool" >/dev/null || die 3 "$tool is missing; next: setup/libvirt.sh"
done
[ "$(id -u)" = 0 ] || die 3 "building needs root; next: sudo $0"

mkdir -p "$out"
out=$(cd "$out" && pwd) work=$out/work tree=$out/work/tree
echo '*' > "$out/.gitignore"
exec 9> "$out/lock"
flock --nonblock 9 || { echo "vm image: another build is under way, waiting for it" >&2; flock 9; }

# shellcheck disable=SC2086  # a list of image names, split on purpose
ids=$([ -z "$images" ] || docker image inspect --format '{{.Id}}' $images) ||
  die 3 "these images are not all here: $images; next: docker images"
digest=$({ cd "$here"; find . -type f -print0 | sort -z | xargs -0 sha256sum; echo "$ids $gib"; } |
         sha256sum | cut -c1-64)
if [ "$digest" = "$(cat "$out/digest" 2>/dev/null)" ]; then
  echo "vm image: up to date in $out" >&2
  exit 0
fi

# shellcheck source=step.sh source-path=SCRIPTDIR
. "$here/step.sh"
rm -f "$out/digest"                           # from here on an interrupted build counts as none
sweep                                         # what a killed build has left
mkdir -p "$work"

ssh-keygen -q -t ed25519 -N '' -C faultlab -f "$work/ssh_key"
packages=$(sed 's/#.*//' "$here/packages.txt" | xargs | tr ' ' ,)
step "installing Debian" mmdebstrap --mode=root --variant=minbase --include="$packages" \
  --aptopt='APT::Install-Recommends "false"' \
  --essential-hook="cp -r $here/files/etc/initramfs-tools \"\$1/etc/\"" \
  --essential-hook="cp -r $here/files/usr/share/initramfs-tools \"\$1/usr/share/\"" \
  --customize-hook="'$here/customize.sh' \"\$1\" '$work/ssh_key.pub'" \
  bookworm "$tree"
# shellcheck disable=SC2086
[ -z "$images" ] || step "putting the images in" "$here/load-images.sh" "$tree" $images
step "making the disk" "$here/disk.sh" "$tree" "$work/disk.raw" "$gib"
step "packing the disk" qemu-img convert -c -O qcow2 -o compression_type=zstd "$work/disk.raw" "$work/box.img"

cp "$tree"/boot/vmlinuz-* "$work/vmlinuz"
cp "$tree"/boot/initrd.img-* "$work/initrd.img"
cp "$here/cmdline" "$here/box/Vagrantfile" "$work/"
echo "0.$(date +%Y%m%d.%H%M%S)" > "$work/version"
printf '{"provider": "libvirt", "format": "qcow2", "virtual_size": %s}\n' "$gib" > "$work/metadata.json"
step "packing the box" tar -C "$work" -cf "$work/faultlab.box" metadata.json Vagrantfile box.img ssh_key
mv "$work/box.img" "$work/disk.qcow2"
for file in disk.qcow2 vmlinuz initrd.img cmdline ssh_key ssh_key.pub faultlab.box version; do
  mv -f "$work/$file" "$out/$file"
done
echo "$digest" > "$out/digest"
echo "vm image: built in ${SECONDS} s, $(du -h "$out/disk.qcow2" | cut -f1), in $out" >&2
