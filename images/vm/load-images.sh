#!/usr/bin/env bash
# Purpose: put Docker images into a VM's file tree, natively: a second dockerd,
#          which shares nothing with the machine's own, unpacks them into
#          TREE/var/lib/docker. Loading them inside a VM without KVM takes minutes.
# Usage:   images/vm/load-images.sh TREE IMAGE...         (build.sh calls it)
set -euo pipefail
tree=$1
shift
# Sockets need short paths (107 bytes), so they lie neither in the build folder nor in a TMPDIR.
run=$(mktemp -d /tmp/faultlab.XXXXXX)
pid=

stop() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    [ -z "$pid" ] || wait "$pid" 2>/dev/null || true
    rm -rf "$run"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

# In a network namespace of its own: with --bridge=none Docker deletes the docker0 that it finds.
unshare --net dockerd --host "unix://$run/docker.sock" --data-root "$tree/var/lib/docker" --exec-root "$run/exec" \
    --pidfile "$run/pid" --storage-driver overlay2 --bridge=none --iptables=false --ip6tables=false \
    --ip-forward=false --ip-masq=false >"$run/log" 2>&1 &
pid=$!

until=$((SECONDS + 30))
until docker --host "unix://$run/docker.sock" version >/dev/null 2>&1; do
    if ! kill -0 "$pid" 2>/dev/null || [ "$SECONDS" -ge "$until" ]; then
        tail -5 "$run/log" >&2
        echo "load-images: the second dockerd does not answer" >&2
        exit 1
    fi
    sleep 0.2
done
docker save "$@" | docker --host "unix://$run/docker.sock" load
