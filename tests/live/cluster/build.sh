#!/usr/bin/env bash
# Purpose: build what a cluster of one node needs, from package registries only: Kubernetes,
#          kube-router and skipper, an Ingress controller, from Go modules; etcd, the CNI plugins,
#          ipset and a registry from Debian's packages. It does only what is missing. The first
#          time takes about ten minutes of two processors and 4 GB of disk; about 600 MB of that
#          stay.
# Usage:   tests/live/cluster/build.sh DIR
# Exit:    0 built, 3 cannot build here
set -euo pipefail
DIR=$1
KUBERNETES=1.34.2
KUBE_ROUTER=v2.1.0
SKIPPER=v0.22.0
# The parts of Kubernetes that its main module wants replaced by their own modules.
STAGING="api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider
  cluster-bootstrap code-generator component-base component-helpers controller-manager cri-api
  cri-client cri-streaming csi-translation-lib dynamic-resource-allocation endpointslice externaljwt
  kms kube-aggregator kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics
  mount-utils pod-security-admission sample-apiserver sample-cli-plugin sample-controller"
PROGRAMS="kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl"
PACKAGES="etcd-server containernetworking-plugins ipset libipset13 docker-registry"
export GOCACHE=$DIR/gocache GOFLAGS=-mod=mod CGO_ENABLED=0 GOTOOLCHAIN=local

fail() { echo "cluster: $1; next: $2" >&2; exit 3; }

command -v go >/dev/null || fail "there is no Go" "apt-get install golang"
for program in containerd ctr runc iptables; do
    [[ -x $(command -v "$program") ]] || fail "there is no $program" "make setup"
done
mkdir -p "$DIR/bin" "$DIR/packages" "$DIR/src"

# module NAME VERSION PACKAGES...: a module of ours that needs these packages of others.
module() {
    local name=$1 path=$2 version=$3
    shift 3
    mkdir -p "$DIR/src/$name"
    cd "$DIR/src/$name"
    printf 'module %s\n\ngo 1.24.0\n\nrequire %s %s\n' "$name" "$path" "$version" >go.mod
    { printf '//go:build tools\n\npackage tools\n\nimport (\n'; printf '\t_ "%s"\n' "$@"; echo ")"; } >tools.go
}

if ! [[ -x $DIR/bin/kubectl ]]; then
    # shellcheck disable=SC2086,SC2046
    module kubernetes k8s.io/kubernetes "v$KUBERNETES" $(printf 'k8s.io/kubernetes/cmd/%s ' $PROGRAMS)
    for part in $STAGING; do
        echo "replace k8s.io/$part => k8s.io/$part v0.${KUBERNETES#1.}"
    done >>go.mod
    go mod tidy
    version=k8s.io/component-base/version
    for program in $PROGRAMS; do
        go build -o "$DIR/bin/$program" -ldflags "-s -w -X $version.gitVersion=v$KUBERNETES \
            -X $version.gitMajor=1 -X $version.gitMinor=34" "k8s.io/kubernetes/cmd/$program"
    done
fi
# program NAME MODULE VERSION: build the program of this name in a module.
program() {
    if [[ -x $DIR/bin/$1 ]]; then return; fi
    module "$1" "$2" "$3" "$2/cmd/$1"
    go mod tidy
    go build -o "$DIR/bin/$1" -ldflags "-s -w" "$2/cmd/$1"
}
program kube-router github.com/cloudnativelabs/kube-router/v2 $KUBE_ROUTER
program skipper github.com/zalando/skipper $SKIPPER
if ! [[ -x $DIR/bin/pause ]]; then
    cd "$(dirname "${BASH_SOURCE[0]}")"
    GOFLAGS='' GO111MODULE=off go build -o "$DIR/bin/pause" -ldflags "-s -w" pause.go
fi
if ! [[ -e $DIR/pause.tar ]]; then
    # An image as `docker save` writes it: a layer, its configuration and the list of both.
    work=$(mktemp --directory)
    tar --create --file "$work/layer.tar" --directory "$DIR/bin" pause
    digest=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
    cat >"$work/config.json" <<END
{"architecture": "$(go env GOARCH)", "os": "linux", "config": {"Entrypoint": ["/pause"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]}}
END
    echo '[{"Config": "config.json", "RepoTags": ["cluster/pause:1"], "Layers": ["layer.tar"]}]' >"$work/manifest.json"
    tar --create --file "$DIR/pause.tar" --directory "$work" layer.tar config.json manifest.json
    rm -r "$work"
fi
if ! [[ -x $DIR/packages/usr/bin/docker-registry ]]; then
    mkdir -p "$DIR/debs"
    cd "$DIR/debs"
    # shellcheck disable=SC2086
    apt-get download $PACKAGES 2>/dev/null || { apt-get update -qq && apt-get download $PACKAGES; }
    for package in *.deb; do dpkg-deb --extract "$package" "$DIR/packages"; done
fi
rm -rf "$GOCACHE" "$DIR/src" "$DIR/debs"
