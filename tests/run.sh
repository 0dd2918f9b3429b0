#!/usr/bin/env bash
# Purpose: all tests: linters, unit tests, and the system on real engines. Linters
#          and the boot of the lab VM run beside the first part of the latter, unit
#          tests beside the second part, in turns with its loads.
# Usage:   tests/run.sh           make test and make test-all call it
# Reads:   FAULTLAB_QUICK=10      what is slow takes turns, commit by commit; each lab
#                                is walked once in ten commits
# Exit:    0 all passed; else that of the first part that did not, which ends the others
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export FAULTLAB_TESTS=1
# The tests start hundreds of Python programs. Each would compile every module again.
unset PYTHONDONTWRITEBYTECODE

logs=$(mktemp --tmpdir --directory faultlab-tests.XXXXXX)
declare -A began=() since=()

# start NAME COMMAND...: run a part. The shell handles no signal while a part is in
# its foreground, so all run in the background.
start() {
    since[$1]=$SECONDS
    "${@:2}" &
    began[$1]=$!
}

# later NAME COMMAND...: run a part whose output is shown only if it fails.
later() { start "$@" >"$logs/$1" 2>&1; }

# pause NAME: a second in which a waiting person sees the last line of its log move.
pause() {
    sleep 1
    [[ ! -e $logs/$1 ]] || tail -n 1 "$logs/$1"
    look
}

# ended NAME: wait for a part.
ended() { while [[ ${began[$1]-} ]]; do pause "$1"; done; }

# look: say which parts have ended, and how long they took. One that failed ends all.
look() {
    local name status
    for name in "${!began[@]}"; do
        ! kill -0 "${began[$name]}" 2>/dev/null || continue
        status=0
        wait "${began[$name]}" || status=$?
        unset "began[$name]"
        echo "$name: $((SECONDS - since[$name])) s"
        ((status == 0)) && continue
        [[ ! -e $logs/$name ]] || cat "$logs/$name" >&2
        echo "run.sh: $name failed, exit code $status" >&2
        exit "$status"
    done
}

# A background job of a script ignores Ctrl-C, so it has to be told. It is waited for,
# so that `vm down` can follow at once.
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM HUP

later vm .venv/bin/faultlab vm up
# What only the tests use is installed while the VM boots.
start setup setup/setup.sh
ended setup
later lint nice -n 10 make --no-print-directory lint
# The tests compare the host with how it was before them, and the VM brings its network.
# It runs for a while before it has an address.
runs='is running|has no address'
while [[ ${began[vm]-} && ! $(.venv/bin/faultlab vm status 2>&1) =~ $runs ]]; do
    pause vm
done
# The VM needs its share of the processors: it takes one lab at a time, and no test waits longer.
start beside nice -n 15 .venv/bin/pytest -v -rs -n 7 --dist loadscope \
    --no-loadscope-reorder --durations=40 -m beside tests/live
for part in beside vm lint; do ended "$part"; done
# The first part leaves no processor idle. The second one does, between its loads.
later unit nice -n 5 .venv/bin/pytest -q -n 2 --dist worksteal \
    -p tests.unit.in_turns tests/unit
start live .venv/bin/pytest -v -rs -n 2 --dist loadscope --no-loadscope-reorder \
    --durations=30 -m "not beside" tests/live
for part in live unit; do ended "$part"; done
