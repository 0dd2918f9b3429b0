# shellcheck shell=bash
# shellcheck disable=SC2154  # work, out: set by build.sh
# Purpose: build.sh's long steps, so that a person sees them move, and so that
#          nothing is left behind however the build ends.
# Usage:   sourced by build.sh, after setup/lib.sh: step NAME COMMAND...

step_pid='' ticker_pid=''

step() {
    local name=$1 began=$SECONDS status=0
    shift
    say "vm image: $name"
    : >"$work/log"
    set -m # a process group of its own, so that it can be ended whole
    # It ends with build.sh, also if that is killed. TERM, so that it removes what it has mounted.
    setpriv --pdeathsig TERM -- "$@" </dev/null >"$work/log" 2>&1 9<&- &
    step_pid=$!
    set +m
    ticker "$work/log" 9<&- &
    ticker_pid=$!
    wait "$step_pid" || status=$?
    stop
    ((status == 0)) || { mv "$work/log" "$out/log"; show_end "$out/log"; give_up "$name failed (exit $status)"; }
    say "  $((SECONDS - began)) s"
}

stop() {
    [[ -z $step_pid ]] || { kill -TERM -- "-$step_pid" && wait "$step_pid"; } 2>/dev/null || true
    [[ -z $ticker_pid ]] || { kill "$ticker_pid" && wait "$ticker_pid"; } 2>/dev/null || true
    step_pid='' ticker_pid=''
}

# A killed build may have left its dockerd, and a tree with this machine's /dev
# and /proc still mounted inside.
sweep() {
    local pid point
    for pid in $(pgrep -x dockerd); do
        ! tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qxF "$work/tree/var/lib/docker" || kill "$pid"
    done
    # The newest first. A space in a path is \040 there, which %b reads with one more zero.
    tac /proc/mounts | while read -r _ point _; do
        point=$(printf '%b' "${point//\\/\\0}")
        [[ $point != "$work"/* ]] || umount "$point"
    done
    rm -rf --one-file-system "$work"
}

trap 'trap "" INT TERM HUP; stop; sweep' EXIT
trap 'exit 130' INT TERM HUP
