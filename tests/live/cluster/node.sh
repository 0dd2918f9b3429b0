#!/usr/bin/env bash
# Purpose: the first process of the namespaces of a cluster: it starts all parts of it.
# Usage:   cluster.sh calls it: node.sh DIR NODE_IP API_IP API_PORT REGISTRY_PORT INGRESS_PORT
set -euo pipefail
DIR=$1 NODE_IP=$2 API_IP=$3 API=$4 REGISTRY=$5 INGRESS=$6
cd "$DIR"
HERE=$(dirname "${BASH_SOURCE[0]}")
export PATH=$DIR/bin:$DIR/packages/usr/bin:$DIR/packages/usr/sbin:$DIR/packages/sbin:$PATH:/usr/sbin:/sbin

# What the parts write outside DIR is seen in here only.
mount --make-rshared /
for folder in /run /var/log /var/lib; do mount -t tmpfs tmpfs "$folder"; done
mount --make-rshared /run
# The kubelet wants these values. Here it finds them in files, so that it writes nothing to the kernel.
wanted() {
    echo "$2" >"run/$(basename "$1")"
    mount --bind "run/$(basename "$1")" "/proc/sys/$1"
}
wanted vm/overcommit_memory 1
wanted kernel/panic 10
wanted kernel/panic_on_oops 1

ip link set lo up
ip link add node0 type bridge
ip addr add "$NODE_IP/32" dev node0
ip link set node0 up
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
sysctl -qw net.bridge.bridge-nf-call-iptables=1
# Instead of kube-proxy: the only service here is the API.
iptables -t nat -A PREROUTING -d "$API_IP" -p tcp --dport 443 -j DNAT --to-destination "$NODE_IP:$API"

# part NAME COMMAND...: start a part of the cluster, with its log.
part() {
    local name=$1
    shift
    "$@" >"log/$name.log" 2>&1 &
}
# kept NAME COMMAND...: start a part again each time it ends, as the init of a node does.
kept() {
    local name=$1
    shift
    while true; do
        "$@" &
        echo $! >"run/$name.pid"
        wait $! || true
        sleep 0.5
    done >"log/$name.log" 2>&1 &
}
# until_ready FILE: wait for a socket or file of a part.
until_ready() {
    local _
    for _ in $(seq 300); do
        if [[ -e $1 ]]; then return; fi
        sleep 0.1
    done
    echo "$1 did not appear"
    exit 1
}

part forward python3 "$HERE/forward.py" forward "$API" "$REGISTRY" "$INGRESS"
part etcd etcd --data-dir data/etcd --unsafe-no-fsync \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
    --initial-cluster default=http://127.0.0.1:2380
part registry docker-registry serve conf/registry.yaml
part containerd containerd --config conf/containerd.toml
# Debian's etcd is too old for watches that begin with a list. A client that asks for one, and tries
# again, would see changes up to half a minute late.
part apiserver kube-apiserver --feature-gates=WatchList=false \
    --etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 \
    --advertise-address="$NODE_IP" --secure-port="$API" --endpoint-reconciler-type=none \
    --tls-cert-file=pki/api.crt --tls-private-key-file=pki/api.key --client-ca-file=pki/ca.crt \
    --kubelet-client-certificate=pki/admin.crt --kubelet-client-key=pki/admin.key \
    --kubelet-certificate-authority=pki/ca.crt --kubelet-preferred-address-types=InternalIP \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=pki/sa.pub \
    --service-account-signing-key-file=pki/sa.key --service-cluster-ip-range=198.19.32.0/24 \
    --authorization-mode=Node,RBAC --allow-privileged=true --profiling=false
admin=conf/admin.kubeconfig
part controller-manager kube-controller-manager --kubeconfig=$admin --authentication-kubeconfig=$admin \
    --authorization-kubeconfig=$admin --bind-address=127.0.0.1 --leader-elect=false \
    --service-account-private-key-file=pki/sa.key --root-ca-file=pki/ca.crt \
    --kube-api-qps=200 --kube-api-burst=400 --concurrent-namespace-syncs=50
part scheduler kube-scheduler --kubeconfig=$admin --authentication-kubeconfig=$admin \
    --authorization-kubeconfig=$admin --bind-address=127.0.0.1 --leader-elect=false \
    --kube-api-qps=200 --kube-api-burst=400
until_ready run/containerd.sock
ctr --address run/containerd.sock --namespace k8s.io images import pause.tar
kept kubelet kubelet --config=conf/kubelet.yaml --kubeconfig=conf/node.kubeconfig \
    --hostname-override=node --node-ip="$NODE_IP" --root-dir="$DIR/data/kubelet" \
    --cert-dir="$DIR/data/kubelet/pki" --v=2
part kube-router bash -c "export LD_LIBRARY_PATH=\$(echo $DIR/packages/usr/lib/*-linux-gnu)
    until kube-router --run-router=false --run-firewall=true --run-service-proxy=false \
        --kubeconfig=$admin --hostname-override=node --health-port=0 --v=1; do sleep 0.5; done"
# It logs in through kubectl. It reaches pods by their addresses, which no certificate names.
kept proxy kubectl --kubeconfig=$admin proxy --port=8001
kept skipper skipper -kubernetes -kubernetes-url=http://127.0.0.1:8001 -kubernetes-enable-tls \
    -address="127.0.0.1:$INGRESS" -support-listener=127.0.0.1:9911 \
    -insecure -proxy-preserve-host -experimental-upgrade
wait
