#!/usr/bin/env bash
# Purpose: build the lab VM from Debian packages, with Docker images already
#          inside: a disk that boots by itself, kernel and initrd for booting
#          it directly, and the Vagrant box. Nothing changed: nothing built.
# Usage:   images/vm/build.sh [--images "NAME:TAG ..."] [--size GIB] [DIR]
#          DIR: .vm unless given. Needs root, and what setup/libvirt.sh installs.
# Makes:   in DIR: disk.qcow2 vmlinuz initrd.img cmdline ssh_key ssh_key.pub
#          faultlab.box box.json version digest. The newest is kept for other
#          checkouts of the same user, in ~/.cache/faultlab/box.
# Exit:    0 built or up to date, 1 the build failed, 2 wrong usage, 3 something
#          it needs is missing
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
images='' gib=8 out=.vm
PATH=$PATH:/usr/sbin:/sbin
# shellcheck source=setup/lib.sh source-path=SCRIPTDIR/../..
. "$here/../../setup/lib.sh"
usage() { sed -n '2,/^set /s/^# //p' "$0" >&2; exit 2; }
give_up() { say "vm image: $1"; exit 1; }

again=$(printf '%q ' sudo "$0" "$@")
while (($#)); do
    case $1 in
        --images) (($# > 1)) || usage; images=$2; shift ;;
        --size) [[ ${2-} =~ ^[1-9][0-9]*$ ]] || usage; gib=$2; shift ;;
        -*) usage ;;
        *) out=$1 ;;
    esac
    shift
done
for tool in mmdebstrap mke2fs qemu-img ssh-keygen; do
    has "$tool" || die "the VM's image cannot be built: $tool is missing" "setup/libvirt.sh"
done
for tool in docker dockerd; do
    has "$tool" || die "the VM's image cannot be built: $tool is missing" "apt-get install docker.io"
done
need_root() { [[ $(id -u) == 0 ]] || die "the VM's image cannot be built: that needs root" "$again"; }
# Under sudo the user who asked is to read the key of the VM, and to learn that it is up to date.
# Not what lies deeper: a killed build has left this machine's /dev mounted there.
give() { [[ -z ${SUDO_UID-} ]] || chown -h "$SUDO_UID:" "$out" "$out/.gitignore" "$out"/*; }

{ mkdir -p "$out" && [[ -w $out ]]; } 2>/dev/null || need_root
out=$(cd "$out" && pwd) work=$out/work tree=$out/work/tree
echo '*' >"$out/.gitignore"
exec 9>"$out/lock"
give # also where this build fails, or is interrupted
flock --nonblock 9 || { say "vm image: waiting for another build"; flock 9; }

read -ra names <<<"$images"
ids=$([[ -z $images ]] || docker image inspect --format '{{.Id}}' "${names[@]}") ||
    die "not all of these images are here: $images" "docker images"
digest=$({ cd "$here"; find . -type f -print0 | sort -z | xargs -0 sha256sum; echo "$ids $gib"; } |
    sha256sum | cut -c 1-64)
[[ $digest != "$(cat "$out/digest" 2>/dev/null)" ]] || { say "vm image: up to date in $out"; exit 0; }
need_root

# shellcheck source=keep.sh source-path=SCRIPTDIR
. "$here/keep.sh"
if [[ ! -e $out/ssh_key ]] && take_kept; then
    give
    say "vm image: taken from $kept, where another checkout has put it"
    exit 0
fi

# shellcheck source=step.sh source-path=SCRIPTDIR
. "$here/step.sh"
rm -f "$out/digest" # from here on an interrupted build counts as none
sweep               # what a killed build has left
mkdir -p "$work"

# The key stays: a VM from the box before must still answer, if only to be told to go.
cp -p "$out"/ssh_key "$out"/ssh_key.pub "$work/" 2>/dev/null || ssh-keygen -q -t ed25519 -N '' -C faultlab -f "$work/ssh_key"
packages=$(sed 's/#.*//' "$here/packages.txt" | xargs | tr ' ' ,)
# The permissions are not those of the checkout: after umask 077 no daemon could read its configuration.
copy="tar -C '$here/files' --mode=u=rwX,go=rX -cf - . | tar -C \"\$1\" --no-same-owner --no-overwrite-dir -xpf -"
step "installing Debian" mmdebstrap --mode=root --variant=minbase --include="$packages" \
    --aptopt='APT::Install-Recommends "false"' \
    --essential-hook="$copy" \
    --customize-hook="'$here/customize.sh' \"\$1\" '$work/ssh_key.pub'" bookworm "$tree"
echo "$digest" >"$tree/etc/faultlab-box"
[[ -z $images ]] || step "putting in ${#names[@]} Docker images" "$here/load-images.sh" "$tree" "${names[@]}"
step "making the disk" "$here/disk.sh" "$tree" "$work/disk.raw" "$gib"
step "packing the disk" qemu-img convert -c -O qcow2 -o compression_type=zstd "$work/disk.raw" "$work/box.img"
step "packing the box" "$here/box.sh" "$work" "$out" "$gib"

mv "$work/box.img" "$work/disk.qcow2"
cp "$tree"/boot/vmlinuz-* "$work/vmlinuz"
cp "$tree"/boot/initrd.img-* "$work/initrd.img"
cp "$here/cmdline" "$work/"
for file in "${files[@]}"; do
    mv -f "$work/$file" "$out/$file"
done
echo "$digest" >"$out/digest"
keep || say "vm image: not kept for other checkouts: $kept cannot be written"
give
say "vm image: built in $SECONDS s, $(du -h "$out/disk.qcow2" | cut -f 1), in $out"
