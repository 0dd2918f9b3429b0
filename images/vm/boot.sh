#!/usr/bin/env bash
# Purpose: boot the built image with plain QEMU, without libvirt and Vagrant: to
#          test it, or where there is no libvirt. The kernel is loaded directly;
#          the disk is a throw-away layer, so each start is the boot state. The
#          VM reaches nothing; this machine reaches its ssh on 127.0.0.1.
# Usage:   images/vm/boot.sh [DIR] [QEMU_OPTION...]        DIR: default .vm
#          FAULTLAB_VM_PORT=2222 FAULTLAB_VM_CPUS=2 FAULTLAB_VM_MEMORY=1280
#          FAULTLAB_VM_ACCEL=tcg
#          then: ssh -i .vm/ssh_key -p 2222 vagrant@127.0.0.1; Ctrl-A X ends it
set -euo pipefail

dir=.vm
case ${1-} in -h | --help) sed -n '2,/^set /s/^# //p' "$0" >&2; exit 2 ;; esac
case ${1-} in '' | -*) ;; *) dir=$1; shift ;; esac
# A bundle brings the disk inside the box only.
if [[ ! -f $dir/disk.qcow2 && -f $dir/faultlab.box ]]; then
    tar -xOf "$dir/faultlab.box" box.img >"$dir/disk.qcow2.part"
    mv "$dir/disk.qcow2.part" "$dir/disk.qcow2"
fi
[[ -f $dir/disk.qcow2 ]] || { echo "vm: no image in $dir; next: images/vm/build.sh $dir" >&2; exit 3; }

# Without KVM the plainest processor is the fastest: programs choose no AVX code,
# which is slow to translate.
case ${FAULTLAB_VM_ACCEL:=tcg} in kvm) cpu=host ;; *) cpu=qemu64 ;; esac

exec qemu-system-x86_64 -nodefaults -no-user-config -snapshot \
    -accel "$FAULTLAB_VM_ACCEL" -cpu "$cpu" -smp "${FAULTLAB_VM_CPUS:-2}" -m "${FAULTLAB_VM_MEMORY:-1280}" \
    -kernel "$dir/vmlinuz" -initrd "$dir/initrd.img" -append "$(cat "$dir/cmdline")" \
    -drive "file=$dir/disk.qcow2,if=virtio" \
    -netdev "user,id=n0,net=198.19.253.0/24,restrict=on,hostfwd=tcp:127.0.0.1:${FAULTLAB_VM_PORT:-2222}-:22" \
    -device virtio-net-pci,netdev=n0,romfile= -device virtio-rng-pci \
    -display none -serial mon:stdio "$@"
