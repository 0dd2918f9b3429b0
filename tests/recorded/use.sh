#!/usr/bin/env bash
# Purpose: record what the probes of `faultlab use` print, healthy and faulty.
# Usage:   faultlab start healthy && tests/recorded/use.sh && faultlab reset healthy
# Then:    read `git diff tests/recorded` and set the expected values of the tests anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=tests/recorded/programs.sh
. ./programs.sh
page=http://web/index.php
# use NAME: both looks of `faultlab use` at web and at php-fpm, two seconds apart
use() {
    for at in "web:{**use.MACHINE, **use.HOST}" "php-fpm:{**use.CONTAINER, **use.OF_PROBE['fpm']}"; do
        keep "use/$1-${at%%:*}" "${at%%:*}" "$(../../.venv/bin/python -c "from faultlab.observe.use import sections, table as use; print(
            sections.script(${at#*:}, 2))")" &
    done
    wait
}

probe cgroup/v1 nginx COMMAND; link healthy; probe descriptors/web web COMMAND
probe host/cpu web CPU; probe host/memory web MEMORY; probe host/disks web DISKS; probe host/space web SPACE
probe fpm/fastcgi php-fpm COMMAND; probe conntrack/fill web COMMAND
back client "wrk -t1 -c20 -d15s $page"; sleep 2
probe sockets/healthy web COMMAND; use healthy
docker update --cpus 0.1 --memory 64m --memory-swap 64m "$stack-php-fpm" >/dev/null; sleep 1
probe cgroup/quota php-fpm COMMAND
docker update --cpus 2 --memory 1g --memory-swap 1g "$stack-php-fpm" >/dev/null; sleep 12
on web "tc qdisc add dev eth0 root tbf rate 1mbit burst 10kb latency 50ms"
back client "wrk -t1 -c20 -d6s http://web/"; sleep 2; link tbf
on web "tc qdisc del dev eth0 root; sysctl -qw net.core.somaxconn=10"; docker restart "$stack-nginx" >/dev/null; sleep 6
back client "timeout 10 ab -q -r -c 400 -t 8 -n 1000000 http://web/"; sleep 2; use somaxconn; sleep 6
on web 'sysctl -qw net.ipv4.ip_local_port_range="20000 20050" net.ipv4.tcp_tw_reuse=0'
back client "wrk -t1 -c200 -d9s $page"; sleep 2; probe sockets/port-range web COMMAND
use port-range; probe fpm/work php-fpm WORK
