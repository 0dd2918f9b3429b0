#!/usr/bin/env bash
# Purpose: record what the probes' programs print on the real machines, healthy and faulty.
# Usage:   tests/recorded/record.sh        (needs Docker; replaces tests/recorded/*/*.txt)
# Then:    read `git diff tests/recorded` and set the expected values of the tests anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=tests/recorded/programs.sh
. ./programs.sh
fl=../../.venv/bin/faultlab
page=http://web/index.php

show="cat /proc/net/route"
mkdir -p route && $show >route/host.txt
route vpn "ip route add default dev lo; ip route add 198.18.0.0/16 dev lo; ip route add 10.8.0.1 dev lo; $show"
route halves "ip route add 0.0.0.0/1 dev lo; ip route add 128.0.0.0/1 dev lo; $show"
"$fl" reset healthy >/dev/null
trap '"$fl" down healthy' EXIT
opens healthy web 80 5 0.1; opens closed web 81 3 0.1; syn unknown-host '80 -c 3 nowhere'
get healthy http://web/; get missing http://web/none; get refused http://web:81/
get unknown-host http://nowhere/; rules empty
mss healthy; state running "$stack-nginx"
wrk healthy "-c 20 -d 2s $page"; wrk refused "-c 4 -d 1s http://web:81/"; wrk unknown-host "-c 4 -d 1s http://nowhere/"
keep nstat/healthy web "nstat -j -saz"
back web 'nc -lk 8888'; sleep 1
get silent http://web:8888/; wrk silent "-c 4 -d 3s http://web:8888/"
on web "sysctl -qw net.ipv6.conf.all.disable_ipv6=0"
for port in $(seq 7001 7030); do back web "nc -4 -lk $port"; back web "nc -6 -lk 1$port"; done
sleep 2  # until the link-local address may be used
back web "nc -6 -lk \$(ip -6 -j address show dev eth0 | jq -r '.[].addr_info[].local')%eth0 7100"; sleep 1
probe sockets/many web COMMAND

on web "ip link set dev eth0 mtu 100"  # the lab mtu
get mtu http://web/; opens mtu web 80 5 0.1; mss mtu; link mtu; wrk mtu "-c 4 -d 3s http://web/"
on web "ip link set dev eth0 mtu 1500; tc qdisc add dev eth0 root tbf rate 1mbit burst 10kb latency 5ms"
wrk tbf "-c 20 -d 2s $page"
on web "tc qdisc del dev eth0 root; tc qdisc add dev eth0 root handle 1: htb default 1
    tc class add dev eth0 parent 1: classid 1:1 htb rate 1mbit
    tc qdisc add dev eth0 parent 1:1 handle 10: tbf rate 1mbit burst 2kb latency 5ms"
wrk htb "-c 20 -d 2s $page"; link htb
on web "tc qdisc del dev eth0 root; iptables -A INPUT -p tcp --dport 80
    iptables -A INPUT -p tcp --dport 80 -m statistic --mode random --probability 0.30 -j DROP
    iptables -A OUTPUT -p tcp --sport 80 -m statistic --mode random --probability 0.30 -j DROP
    iptables -N EXTRA; iptables -A FORWARD ! -i eth0 -j EXTRA; iptables -A EXTRA -p tcp --dport 81 -j REJECT"
opens lossy web 80 20 0.1; rules chains
on web "iptables -F; iptables -A INPUT -p tcp --dport 80 -j DROP; iptables -P FORWARD DROP"
opens dropped web 80 3 0.1; mss dropped; rules policy
on web "iptables -F"
on web "sysctl -qw net.core.somaxconn=10"
docker restart "$stack-nginx" >/dev/null
wrk somaxconn "-c 400 -d 3s -H 'Connection: close' http://web/"
keep nstat/somaxconn web "nstat -j -saz"
on web 'sysctl -qw net.ipv4.ip_local_port_range="20000 20050" net.ipv4.tcp_tw_reuse=0'
wrk port-range "-c 200 -d 2s $page"
docker stop "$stack-php-fpm" >/dev/null; get bad-gateway "$page"
docker kill "$stack-nginx" >/dev/null; state killed "$stack-nginx"
docker update --memory 8m --memory-swap 8m "$stack-php-fpm" >/dev/null
docker start "$stack-php-fpm" >/dev/null
timeout 5 docker exec "$stack-php-fpm" sh -c 'head -c 64m /dev/zero | tail -c 64m' || true
sleep 1; state memory "$stack-php-fpm"
