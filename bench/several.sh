#!/usr/bin/env bash
# Purpose: how long labs take to start one after the other, and side by side by one command.
# Usage:   bench/several.sh [LAB...]     (default: ten that run here; leaves nothing up)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

labs=("$@")
(($#)) || labs=(mtu iptables-drop somaxconn port-range gzip php-workers repeat-queries missing-index
    healthy tls-resumption)
setup/setup.sh
.venv/bin/faultlab images >/dev/null
export FAULTLAB_NAMESPACE=bench
trap '.venv/bin/faultlab sweep >/dev/null' EXIT

begun=$EPOCHREALTIME
for lab in "${labs[@]}"; do
    .venv/bin/faultlab start "$lab" >/dev/null || echo "$lab: exit code $?"
done
awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "one after the other %.1f s\n", b - a }'
.venv/bin/faultlab sweep >/dev/null
begun=$EPOCHREALTIME
.venv/bin/faultlab start "${labs[@]}" || true
awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "by one command      %.1f s\n", b - a }'
