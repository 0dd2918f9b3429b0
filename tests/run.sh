#!/usr/bin/env bash
# Purpose: all tests: linters, unit tests, and the system on real engines. The lab
#          VM is built and booted during the first two.
# Usage:   tests/run.sh           make test and make test-all call it
# Reads:   FAULTLAB_QUICK=10      what is slow takes turns, commit by commit; each lab
#                                is walked once in ten commits
# Exit:    0 all passed; else that of the first part that did not
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The tests start hundreds of Python programs. Each would compile every module again.
unset PYTHONDONTWRITEBYTECODE

logs=$(mktemp --tmpdir --directory faultlab-tests.XXXXXX)
declare -A began=()

# later NAME COMMAND...: run a part in the background.
later() {
    "${@:2}" >"$logs/$1" 2>&1 &
    began[$1]=$!
}

# ended NAME: wait for it. A waiting person sees the last line of its log move.
ended() {
    local status=0
    while kill -0 "${began[$1]}" 2>/dev/null; do
        sleep 2
        tail -n 1 "$logs/$1"
    done
    wait "${began[$1]}" || status=$?
    unset "began[$1]"
    ((status == 0)) || cat "$logs/$1" >&2
    return "$status"
}

# took NAME COMMAND...: run a part, and say how long it took. It is waited for, because
# the shell would handle no signal before the end of a part in the foreground.
took() {
    local name=$1 from=$SECONDS status=0
    shift
    "$@" &
    began[$name]=$!
    wait "${began[$name]}" || status=$?
    unset "began[$name]"
    echo "$name: $((SECONDS - from)) s"
    return "$status"
}

# A background job of a script ignores Ctrl-C, so it has to be told. It is waited for,
# so that `vm down` can follow at once.
trap 'kill "${began[@]}" 2>/dev/null || true; wait || true; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM HUP

later vm .venv/bin/faultlab vm up
later lint make --no-print-directory lint
took unit make --no-print-directory unit
ended lint
ended vm
took beside .venv/bin/pytest -v -rs -n 4 --dist loadscope \
    --no-loadscope-reorder -m beside tests/live
took live .venv/bin/pytest -v -rs --durations=30 -m "not beside" tests/live
