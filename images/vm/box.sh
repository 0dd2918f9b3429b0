#!/usr/bin/env bash
# Purpose: make the Vagrant box, and the list of its versions that Vagrant reads.
# Usage:   images/vm/box.sh WORK_DIR OUT_DIR SIZE_GIB     (build.sh calls it)
#          WORK_DIR holds box.img and ssh_key; the box will lie in OUT_DIR
set -euo pipefail
work=$1 out=$2 gib=$3
here=$(cd "$(dirname "$0")" && pwd)
version=0.$(date +%Y%m%d.%H%M%S)

echo "$version" >"$work/version"
cp "$here/box.Vagrantfile" "$work/Vagrantfile"
printf '{"provider": "libvirt", "format": "qcow2", "virtual_size": %s}\n' "$gib" >"$work/metadata.json"
cat >"$work/box.json" <<EOF
{
  "name": "faultlab",
  "versions": [
    {
      "version": "$version",
      "providers": [{ "name": "libvirt", "url": "file://${out// /%20}/faultlab.box" }]
    }
  ]
}
EOF
# Not compressed: the disk inside already is. With the key inside, it is for its owner only.
umask 077
tar -C "$work" -cf "$work/faultlab.box" metadata.json Vagrantfile box.img ssh_key
