#!/usr/bin/env bash
# Purpose: a real Kubernetes cluster of one node, for the tests of that engine. All of it is in
#          network, mount and process namespaces of its own, which end with its first process. So
#          packet filter, interfaces, mounts and sysctls of this host stay as they are. From here it
#          is reached at 127.0.0.1 only: the API at port 16443, a registry at port 16500, and the
#          Ingress controller at port 16600.
# Usage:   tests/live/cluster/cluster.sh up | down | status | kill-kubelet | node-up | node-down
#          up builds what is missing (build.sh) and prints where its kubeconfig is
#          node-up adds a VM of its own as a node (disposable.sh), whose kernel labs may change
# Reads:   FAULTLAB_CLUSTER   its folder (~/.cache/faultlab/cluster)
# Exit:    0 done, 2 wrong usage, 3 cannot run here
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DIR=${FAULTLAB_CLUSTER:-$HOME/.cache/faultlab/cluster}
GROUP=faultlab-cluster
PORTS="16443 16500 16600"
NODE_IP=198.19.0.1
NODE_PODS=198.19.48.0/20 # of the node that is a VM
API_IP=198.19.32.1 # of the service `kubernetes`, the first one of the range
ROOT=$(cd "$HERE/../../.." && pwd)
DISK=/var/lib/libvirt/images/faultlab-node-cluster.img

say() { echo "cluster: $1" >&2; }

# The process that made the namespaces; empty if it is not there, or the number is another's by now.
first() {
    local pid
    pid=$(cat "$DIR/run/pid" 2>/dev/null) || return 0
    if tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "$HERE/node.sh $DIR"; then echo "$pid"; fi
}

# key NAME SUBJECT [EXTENSION]: a key and a certificate of the cluster's own authority.
key() {
    local curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30)
    if [[ $1 == ca ]]; then
        openssl req -x509 "${curve[@]}" -subj "$2" -keyout ca.key -out ca.crt 2>/dev/null
        return
    fi
    openssl req "${curve[@]}" -subj "$2" -keyout "$1.key" -out "$1.csr" 2>/dev/null
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$1.crt" \
        -extfile <(echo "${3:-basicConstraints=CA:FALSE}") 2>/dev/null
}

# kubeconfig NAME: the file with which the owner of this key talks to the API.
kubeconfig() {
    cat <<END
apiVersion: v1
kind: Config
current-context: faultlab-cluster
clusters: [{name: c, cluster: {server: "https://127.0.0.1:16443", certificate-authority: $DIR/pki/ca.crt}}]
users: [{name: u, user: {client-certificate: $DIR/pki/$1.crt, client-key: $DIR/pki/$1.key}}]
contexts: [{name: faultlab-cluster, context: {cluster: c, user: u}}]
END
}

configure() {
    rm -rf "$DIR/pki" "$DIR/conf" "$DIR/run" "$DIR/data" "$DIR/log"
    mkdir -p "$DIR"/{pki,conf/cni,run,data,log,registry}
    (
        cd "$DIR/pki"
        key ca /CN=faultlab-cluster
        key api /CN=api "subjectAltName=IP:127.0.0.1,IP:$API_IP,DNS:localhost,DNS:kubernetes.default.svc"
        key admin /O=system:masters/CN=admin
        key node /O=system:nodes/CN=system:node:node
        key kubelet /CN=node "subjectAltName=IP:$NODE_IP,DNS:node"
        openssl genrsa -out sa.key 2048 2>/dev/null
        openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
    )
    for who in admin node; do kubeconfig $who >"$DIR/conf/$who.kubeconfig"; done
    local file
    for file in containerd.toml kubelet.yaml 10-pods.conflist registry.yaml; do
        sed -e "s|@DIR@|$DIR|g" -e "s|@NODE_IP@|$NODE_IP|g" -e "s|@GROUP@|$GROUP|g" "$HERE/conf/$file" >"$DIR/conf/$file"
    done
    mv "$DIR/conf/10-pods.conflist" "$DIR/conf/cni/"
}

# Its pods are in cgroups of its own. Version 1 has a tree of them for each controller.
trees() { find /sys/fs/cgroup -mindepth 1 -maxdepth 2 -type d -name "$GROUP"; }
make_trees() {
    local tree
    for tree in /sys/fs/cgroup /sys/fs/cgroup/*/; do
        tree=${tree%/}
        if [[ -L $tree || ! -e $tree/cgroup.procs ]]; then continue; fi
        mkdir -p "$tree/$GROUP"
        if [[ -e $tree/$GROUP/cpuset.mems ]]; then
            cat "$tree/cpuset.mems" >"$tree/$GROUP/cpuset.mems"
            cat "$tree/cpuset.cpus" >"$tree/$GROUP/cpuset.cpus"
        fi
    done
}

kubectl() { "$DIR/bin/kubectl" --kubeconfig "$DIR/conf/admin.kubeconfig" --request-timeout 5s "$@"; }

up() {
    "$HERE/build.sh" "$DIR"
    if [[ $(first) ]]; then
        say "it is up already"
    else
        down
        configure
        make_trees
        # shellcheck disable=SC2086
        setsid python3 "$HERE/forward.py" listen $PORTS -- \
            unshare --net --mount --pid --fork --kill-child --mount-proc "$HERE/node.sh" "$DIR" "$NODE_IP" "$API_IP" $PORTS \
            >"$DIR/log/node.log" 2>&1 &
        echo $! >"$DIR/run/pid"
    fi
    local deadline=$((SECONDS + 90))
    until kubectl wait --for=condition=Ready node/node --timeout=1s >/dev/null 2>&1; do
        if ! [[ $(first) ]] || ((SECONDS > deadline)); then
            say "it did not come up: $(tail -n 1 "$DIR/log/node.log")"
            down
            exit 3
        fi
        sleep 0.2
    done
    echo "export KUBECONFIG=$DIR/conf/admin.kubeconfig FAULTLAB_REGISTRY=127.0.0.1:16500"
}

# Works after a crash too: the namespaces end with their first process, and only the cgroups stay.
down() {
    local pid deadline=$((SECONDS + 30)) group
    pid=$(first)
    if [[ $pid ]]; then kill -KILL "$pid"; fi
    while [[ $(first) ]]; do sleep 0.1; done
    for group in $(trees); do
        until find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; do
            if ((SECONDS > deadline)); then say "$group could not be removed"; exit 3; fi
            sleep 0.1
        done
    done
    rm -rf "$DIR/run" "$DIR/data"
}

# The kubelet starts again by itself (node.sh). The file has its id inside the node's namespace.
kill_kubelet() {
    local node
    node=$(pgrep -P "$(first)")
    nsenter --target "$node" --pid --mount kill -KILL "$(cat "$DIR/run/kubelet.pid")"
}

ours() { (cd "$ROOT" && .venv/bin/python -c "$@"); }

# The VM reaches the API and the registry, and the API reaches its kubelet, through one ssh
# connection. Pods of a stack are on one node, so no network joins the pods of both nodes.
node_up() {
    export FAULTLAB_VM_NAME=faultlab-node FAULTLAB_VM_MEMORY=2560
    node_down
    "$ROOT/.venv/bin/faultlab" vm up
    local ip stage=$DIR/stage tags ssh in_node
    ip=$(ours "from faultlab.engine.vm import libvirt; print(libvirt.address())")
    mapfile -t ssh < <(ours "from faultlab.engine.vm.ssh import ssh_command; print(*ssh_command(), sep='\n')")
    tags=$(ours "from faultlab.lab.images import BASE, names, tag
print(*(tag(name) for name in names() if name != BASE))")
    say "making the disk of the node"
    rm -rf "$stage"
    mkdir -p "$stage"/{bin,pki,conf}
    (
        cd "$DIR/pki"
        key disposable /O=system:nodes/CN=system:node:disposable
        key disposable-kubelet /CN=disposable "subjectAltName=IP:$ip,DNS:disposable"
        kubeconfig disposable >"$DIR/conf/disposable.kubeconfig"
        cp ca.crt admin.* disposable.* "$stage/pki/"
        for end in crt key; do cp "disposable-kubelet.$end" "$stage/pki/kubelet.$end"; done
    )
    for who in admin disposable; do
        sed "s|$DIR|/cluster|g" "$DIR/conf/$who.kubeconfig" >"$stage/conf/$who.kubeconfig"
    done
    cp "$HERE"/conf/{containerd.toml,kubelet.yaml,10-pods.conflist} "$stage/conf/"
    cp "$DIR"/bin/{kubelet,kube-router} "$stage/bin/"
    cp -r "$DIR/packages" "$stage/packages"
    cp "$DIR/pause.tar" "$HERE/disposable.sh" "$stage/"
    # shellcheck disable=SC2086
    docker save -o "$stage/images.tar" $tags
    truncate -s 10G "$DISK"
    mkfs.ext4 -q -E assume_storage_prezeroed=1 -d "$stage" "$DISK"
    rm -rf "$stage"
    virsh --connect qemu:///system attach-disk "$FAULTLAB_VM_NAME" "$DISK" vdb --driver qemu \
        --subdriver raw --cache unsafe >/dev/null
    setsid "${ssh[@]:0:${#ssh[@]}-1}" -N -o ExitOnForwardFailure=yes -o StreamLocalBindUnlink=yes \
        -R 16443:127.0.0.1:16443 -R 16500:127.0.0.1:16500 \
        -L "$DIR/run/disposable.sock:$ip:10250" "${ssh[-1]}" >"$DIR/log/ssh.log" 2>&1 &
    echo $! >"$DIR/run/disposable.pid"
    # A second one finds the address taken, and the first one goes on with the new socket.
    in_node=(nsenter --target "$(pgrep -P "$(first)")" --net --mount --pid)
    "${in_node[@]}" ip addr replace "$ip/32" dev node0
    setsid "${in_node[@]}" python3 "$HERE/forward.py" reach "$ip" 10250 "$DIR/run/disposable.sock" \
        >"$DIR/log/reach.log" 2>&1 &
    say "the VM starts its containerd and kubelet"
    "${ssh[@]}" "sudo sh -c 'mkdir -p /cluster && mount /dev/vdb /cluster && /cluster/disposable.sh $ip $NODE_PODS'"
    local deadline=$((SECONDS + 240))
    until kubectl wait --for=condition=Ready node/disposable --timeout=2s >/dev/null 2>&1; do
        if ((SECONDS > deadline)); then
            say "the node did not become ready"
            exit 3
        fi
        sleep 1
    done
}

node_down() {
    export FAULTLAB_VM_NAME=faultlab-node
    local pid
    pid=$(cat "$DIR/run/disposable.pid" 2>/dev/null || true)
    if [[ $pid ]] && grep -qaF disposable.sock "/proc/$pid/cmdline" 2>/dev/null; then kill "$pid"; fi
    rm -f "$DIR/run/disposable.pid"
    if [[ $(first) ]]; then kubectl delete node disposable --ignore-not-found >/dev/null; fi
    "$ROOT/.venv/bin/faultlab" vm down >/dev/null
    rm -f "$DISK"
}

case ${1-} in
    up) up ;;
    node-up) node_up ;;
    node-down) node_down ;;
    down)
        if [[ -e $DISK ]]; then node_down; fi
        down
        ;;
    kill-kubelet) kill_kubelet ;;
    status) if [[ $(first) ]]; then kubectl get nodes,pods -A; else say "it is not up"; fi ;;
    *) sed -n '2,/^set /s/^# //p' "$0" >&2; exit 2 ;;
esac
