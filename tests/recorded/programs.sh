# Purpose: the programs that the probes run, each into a file of its own.
# Usage:   . ./programs.sh        (record.sh does; it is in tests/recorded)
# shellcheck shell=bash
set -euo pipefail

stack=$(../../.venv/bin/python -c "from faultlab.core import naming; print(naming.stack_name('healthy'))")
on() { docker exec "$stack-$1" sh -c "$2"; }
back() { docker exec -d "$stack-$1" sh -c "$2"; }
# keep PROBE/NAME MACHINE COMMAND: its standard output, whatever its exit code
keep() { mkdir -p "${1%/*}" && { on "$2" "$3" 2>/dev/null || true; } >"$1.txt"; }
# probe PROBE/NAME MACHINE CONSTANT: what the command in this constant of the probe prints
probe() {
    keep "$1" "$2" "$(../../.venv/bin/python -c "from faultlab.probes import ${1%/*} as probe; print(probe.$3)")"
}
link() { probe "interface/$1" web COMMAND; }
# opens NAME HOST PORT COUNT GAP: how quickly connections open
opens() {
    keep "connect/$1" client "$(../../.venv/bin/python -c "from faultlab.probes import connect; print(connect.command('$2', $3, $4, $5))")"
}
get() { keep "curl/$1" client "curl -sS -o /dev/null --max-time 3 -w '%{json}' $2"; }
wrk() { keep "wrk/$1" client "wrk -t2 -s /usr/local/share/wrk/json.lua --timeout 1s $2 2>&1"; }
rules() { keep "iptables/$1" web "iptables -w 5 -nvxL"; }
state() { mkdir -p container && docker inspect -f '{{json .State}}' "$2" >"container/$1.txt"; }
route() { mkdir -p route && unshare -rn sh -ec "ip link set lo up; $2" >"route/$1.txt"; }
mss() {
    back client 'sleep 1; hping3 -S -p 80 -c 3 -i u100000 web'
    keep "capture/$1" client "timeout 3 tcpdump --immediate-mode -nn -i eth0 -c 1 \
        'src host web and tcp[tcpflags] == (tcp-syn|tcp-ack)'"
}
