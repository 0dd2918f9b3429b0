#!/usr/bin/env bash
# Purpose: how long a warm `make lab-mtu` takes to the proven symptom, against the same steps as a
#          shell script of bare docker commands, in pairs. The deliberate 3 s of curl's time-out
#          are in both and are taken off. Then the three commands that must be quick.
# Usage:   bench/start.sh [PAIRS]     (default 5; leaves nothing up)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C # a comma in EPOCHREALTIME is no number to awk
unset PYTHONDONTWRITEBYTECODE # without its cache, each command compiles all modules first

pairs=${1:-5}
setup/setup.sh
.venv/bin/faultlab images >/dev/null
tag() { .venv/bin/python -c "from faultlab.lab import images; print(images.tag('$1'))"; }
MACHINE=$(tag machine) NGINX=$(tag nginx) PHP=$(tag php-fpm)
export MACHINE NGINX PHP FAULTLAB_NAMESPACE=bench
trap 'bench/bare.sh down; .venv/bin/faultlab sweep >/dev/null' EXIT

seconds() {
    local begun=$EPOCHREALTIME
    "$@" >/dev/null || exit 1  # `set -e` does not reach into a command substitution
    awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a - 3 }'
}

echo "lab VM: $(.venv/bin/faultlab vm status)"
printf '%8s %8s %6s\n' ours bare ratio
for ((i = 0; i < pairs; i++)); do
    ours=$(seconds make -s lab-mtu)
    make -s down-mtu >/dev/null
    bare=$(seconds bench/bare.sh up 198.19.250.0/24)
    bench/bare.sh down
    awk -v a="$ours" -v b="$bare" 'BEGIN { printf "%8.2f %8.2f %6.2f\n", a, b, a / b }'
done | tee /dev/stderr | awk '{ print $3 }' | sort -n |
    awk '{ r[NR] = $1 } END { printf "median ratio %.2f of %d pairs\n", r[int((NR + 1) / 2)], NR }'

# quick WORDS...: the median of nine, in seconds.
quick() {
    local begun
    for _ in {1..9}; do
        begun=$EPOCHREALTIME
        .venv/bin/faultlab "$@" >/dev/null
        awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", b - a }'
    done | sort -n | awk -v what="$*" 'NR == 5 { printf "%-10s %s s\n", what, $1 }'
}

make -s lab-mtu >/dev/null
for words in --help list "hint mtu"; do
    # shellcheck disable=SC2086  # words of one command
    quick $words
done
