#!/usr/bin/env bash
# Purpose: what `faultlab start mtu` does, with bare docker commands: the yardstick of start.sh.
# Usage:   bench/bare.sh up SUBNET | down   (images: those that `faultlab images` has built)
set -euo pipefail

name=faultlab-bench
label=(--label "faultlab.stack=$name")
image() { .venv/bin/python -c "from faultlab.lab import images; print(images.tag('$1'))"; }

up() {
    local machine=$MACHINE nginx=$NGINX php=$PHP subnet=$1 pids role
    docker network create "${label[@]}" --internal --subnet "$subnet" \
        -o com.docker.network.bridge.inhibit_ipv4=true "$name" >/dev/null
    local machine_flags=(-d --init --cap-add NET_ADMIN --cap-add NET_RAW --cap-add SYS_PTRACE
        --security-opt apparmor=unconfined "${label[@]}" --network "$name")
    local files=(-v "$name-etc:/etc/nginx" -v "$name-log:/var/log/nginx"
        -v "$name-php:/etc/php" -v "$name-run:/run/php")
    for role in etc log php run; do
        docker volume create "${label[@]}" "$name-$role" >/dev/null
    done
    docker run "${machine_flags[@]}" --name "$name-client" --hostname client \
        --sysctl net.ipv4.ip_local_port_range="1024 65535" --sysctl net.ipv4.tcp_tw_reuse=1 \
        --sysctl net.ipv4.tcp_max_tw_buckets=100 "$machine" >/dev/null
    docker run "${machine_flags[@]}" --name "$name-user" --hostname user "$machine" >/dev/null
    docker run "${machine_flags[@]}" --name "$name-web" --hostname web --network-alias web \
        "${files[@]}" "$machine" >/dev/null
    local joined=(-d "${label[@]}" --network "container:$name-web" --pid "container:$name-web"
        "${files[@]}")
    docker run "${joined[@]}" --name "$name-nginx" "$nginx" >/dev/null
    docker run "${joined[@]}" --name "$name-php-fpm" "$php" >/dev/null
    pids=$(docker inspect -f '{{.State.Pid}}' "$name-client" "$name-user" "$name-web")
    docker run --rm "${label[@]}" --network none --pid host --cap-add SYS_ADMIN \
        --cap-add SYS_PTRACE --cap-add NET_ADMIN --security-opt apparmor=unconfined "$machine" sh -ec "
        for pid in ${pids//$'\n'/ }; do
          nsenter -t \$pid -n ip route flush default
          nsenter -t \$pid -m sh -ec 'mount --bind /proc/sys/net /proc/sys/net
            mount -o remount,bind,rw /proc/sys/net'
        done"
    until docker exec "$name-nginx" curl -fsSo /dev/null http://127.0.0.1/health; do sleep 0.03; done
    until docker exec "$name-php-fpm" /usr/local/bin/health; do sleep 0.03; done
    look 0
    responses && responses && responses
    docker exec "$name-web" ip link set dev eth0 mtu 100
    look 28
}

# $1: the exit code that curl must have
look() {
    local code=0
    docker exec "$name-user" hping3 -S -p 80 -c 5 -i u100000 "$name-web" 2>&1 |
        grep ' 0% packet loss' >/dev/null
    docker exec "$name-user" curl -sSo /dev/null --max-time 3 "http://web/" 2>/dev/null || code=$?
    [[ $code == "$1" ]]
}

# Twenty users at once, each of whom must get the same page.
responses() {
    local pages
    # shellcheck disable=SC2016  # words of the shell there
    pages=$(docker exec "$name-user" sh -ec 'cd "$(mktemp -d)"
        curl -sfZ --parallel-immediate --max-time 3 -o "#1" "http://web/?visit=[1-20]" 2>/dev/null # -Z draws all the same
        sha256sum * | cut -c1-64 | sort | uniq -c')
    [[ $pages =~ ^\ *20\ [0-9a-f]+$ ]]
}

down() {
    docker ps -aq --filter "label=faultlab.stack=$name" | xargs -r docker rm -fv >/dev/null
    docker network ls -q --filter "label=faultlab.stack=$name" | xargs -r docker network rm >/dev/null
    docker volume ls -q --filter "label=faultlab.stack=$name" | xargs -r docker volume rm >/dev/null
}

case ${1-} in
    up) : "${MACHINE:=$(image machine)}" "${NGINX:=$(image nginx)}" "${PHP:=$(image php-fpm)}"
        up "${2:?a subnet of 198.18.0.0/15}" ;;
    down) down ;;
    *) echo "usage: bench/bare.sh up SUBNET | down" >&2 && exit 2 ;;
esac
