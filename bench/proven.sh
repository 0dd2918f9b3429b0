#!/usr/bin/env bash
# Purpose: how long each lab takes from `make lab-ID` until its fault is in place and proven, one
#          after the other on a calm machine; rows of a Markdown table.
# Usage:   bench/proven.sh LAB...     (leaves nothing up)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C # a comma in EPOCHREALTIME is no number to awk

setup/setup.sh >&2
.venv/bin/faultlab images >/dev/null
export FAULTLAB_NAMESPACE=bench
trap '.venv/bin/faultlab sweep >/dev/null' EXIT

for lab in "$@"; do
    begun=$EPOCHREALTIME
    status=0
    make -s "lab-$lab" >/dev/null || status=$?
    awk -v lab="$lab" -v a="$begun" -v b="$EPOCHREALTIME" -v status="$status" \
        'BEGIN { printf "| %s | %s |\n", lab, status ? "exit code " status : sprintf("%.1f s", b - a) }'
    .venv/bin/faultlab down "$lab" >/dev/null
done
