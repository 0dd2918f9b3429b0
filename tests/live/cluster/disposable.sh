#!/usr/bin/env bash
# Purpose: make this VM a node of the cluster whose kernel labs may change: containerd, kubelet and
#          kube-router from the disk that node_up of cluster.sh has attached. Run as root in the VM.
# Usage:   disposable.sh NODE_IP POD_SUBNET
set -euo pipefail
NODE_IP=$1 SUBNET=$2
DIR=/cluster
cd "$DIR"
PATH=$DIR/packages/usr/sbin:$PATH
libraries=$(echo packages/usr/lib/*-linux-gnu)

# Docker drops what a bridge forwards, and it is not needed here.
systemctl stop docker.socket docker containerd
iptables -P FORWARD ACCEPT
modprobe -a br_netfilter overlay ip_set
sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
sysctl -qw vm.overcommit_memory=1 kernel.panic=10 kernel.panic_on_oops=1 # the kubelet wants them

mkdir -p conf/cni run data
for file in containerd.toml kubelet.yaml 10-pods.conflist; do
    sed -i -e "s|@DIR@|$DIR|g" -e "s|@NODE_IP@|$NODE_IP|g" -e "s|@GROUP@||g" \
        -e "s|198.19.16.0/20|$SUBNET|g" "conf/$file"
done
mv conf/10-pods.conflist conf/cni/

# kept NAME COMMAND...: start a part again each time it ends.
kept() {
    systemd-run --quiet --unit "cluster-$1" -p Restart=always -p RestartSec=1 -p KillMode=process \
        -E "PATH=$PATH" -E "LD_LIBRARY_PATH=$DIR/$libraries" "${@:2}"
}

kept containerd containerd --config "$DIR/conf/containerd.toml"
until [[ -e run/containerd.sock ]]; do sleep 0.2; done
images=(ctr --address run/containerd.sock --namespace k8s.io images)
"${images[@]}" import pause.tar >/dev/null
"${images[@]}" import --digests=false images.tar >/dev/null
for image in $("${images[@]}" ls --quiet | grep faultlab/); do
    "${images[@]}" tag "$image" "127.0.0.1:16500/${image#docker.io/}" >/dev/null
done
kept kubelet "$DIR/bin/kubelet" --config="$DIR/conf/kubelet.yaml" \
    --kubeconfig="$DIR/conf/disposable.kubeconfig" --hostname-override=disposable \
    --node-ip="$NODE_IP" --root-dir="$DIR/data/kubelet" --cert-dir="$DIR/data/kubelet/pki" \
    --node-labels=faultlab.disposable=true --register-with-taints=faultlab.disposable=true:NoSchedule
kept kube-router "$DIR/bin/kube-router" --run-router=false --run-firewall=true \
    --run-service-proxy=false --kubeconfig="$DIR/conf/admin.kubeconfig" \
    --hostname-override=disposable --health-port=0 --v=1
