#!/usr/bin/env bash
# Purpose: all tests: linters, unit tests, and the system on real engines. The lab
#          VM is built and booted meanwhile, for neither needs the whole machine.
# Usage:   tests/run.sh           make test and make test-all call it
# Reads:   FAULTLAB_QUICK=10      what is slow takes turns, commit by commit; each lab
#                                is walked once in ten commits
# Exit:    0 all passed; else that of the first part that did not
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

vm_log=$(mktemp --tmpdir faultlab-vm.XXXXXX)
.venv/bin/faultlab vm up >"$vm_log" 2>&1 &
vm=$!
# A background job of a script ignores Ctrl-C, so it has to be told. It is waited for,
# so that `vm down` can follow at once.
trap 'kill "$vm" 2>/dev/null || true; wait "$vm" || true; rm -f "$vm_log"' EXIT
trap 'exit 130' INT TERM HUP

# took NAME COMMAND...: run a part, and say how long it took.
took() {
    local name=$1 began=$SECONDS status=0
    shift
    "$@" || status=$?
    echo "$name: $((SECONDS - began)) s"
    return "$status"
}

# A waiting person sees the last line of its log move.
vm_ready() {
    local status=0
    while kill -0 "$vm" 2>/dev/null; do
        sleep 2
        tail -n 1 "$vm_log"
    done
    wait "$vm" || status=$?
    ((status == 0)) || cat "$vm_log" >&2
    return "$status"
}

took lint make --no-print-directory lint
took unit make --no-print-directory unit
took vm vm_ready
took live .venv/bin/pytest -v -rs --durations=30 tests/live
