#!/usr/bin/env bash
# Purpose: all tests: linters, unit tests, and the system on real engines. What
#          needs no quiet machine goes on meanwhile: the lab VM is built and
#          booted, and the labs are walked that judge no speed.
# Usage:   tests/run.sh           make test and make test-all call it
# Reads:   FAULTLAB_QUICK=1       what is slow takes turns, commit by commit
# Exit:    0 all passed; else that of the first part that did not
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

logs=$(mktemp --directory --tmpdir faultlab-tests.XXXXXX)
.venv/bin/faultlab vm up >"$logs/vm" 2>&1 &
vm=$!
.venv/bin/python -m tests.live.test_labs >"$logs/labs" 2>&1 &
labs=$!
# A background job of a script ignores Ctrl-C, so it has to be told.
trap 'kill "$vm" "$labs" 2>/dev/null || true; wait; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM HUP

# took NAME COMMAND...: run a part, and say how long it took.
took() {
    local name=$1 began=$SECONDS status=0
    shift
    "$@" || status=$?
    echo "$name: $((SECONDS - began)) s"
    return "$status"
}

# ready NAME PID: wait for a job of the background; a waiting person sees the
# last line of its log move.
ready() {
    local log=$logs/$1 job=$2 status=0
    while kill -0 "$job" 2>/dev/null; do
        sleep 2
        tail -n 1 "$log"
    done
    wait "$job" || status=$?
    ((status == 0)) || cat "$log" >&2
    return "$status"
}

took lint make --no-print-directory lint
took unit make --no-print-directory unit
took labs ready labs "$labs" || true # what came of them is told by their tests
grep -E '^(pass|fail|unknown|skip) ' "$logs/labs" || true
took vm ready vm "$vm"
FAULTLAB_WALKED=1 took live .venv/bin/pytest -v -rs --durations=30 tests/live
