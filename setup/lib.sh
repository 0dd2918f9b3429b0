# shellcheck shell=bash
# Purpose: what the parts of setup.sh share: words, rights, and long commands
#          that show they are alive.
# Usage:   sourced by setup.sh; everything it prints goes to stderr, so that
#          `make list >file` holds the list only.

# Words of programs are read here, so they have to be English: a set LANGUAGE
# counts for more than LC_ALL unless that is exactly C. And what is made here is
# read by other users: those of apt, Docker and libvirt, and daemons in the VM.
export LC_ALL=C.UTF-8 LANGUAGE=
umask 022

say() { printf '%s\n' "$*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

# die WHAT NEXT...: what happened, then what to type, one line each; exit 3.
die() {
    say "faultlab setup: $1"
    shift
    (($#)) && printf '  next: %s\n' "$1" >&2 && shift
    (($#)) && printf '        %s\n' "$@" >&2
    exit 3
}

# Words wrapped to the page, with a backslash so that they can be pasted.
wrap() { printf '%s' "$*" | fold -s -w 68 | sed '$!s/$/\\/'; }

# Root, or sudo that works: asking for a password only where someone can type.
can_root() {
    [[ $(id -u) == 0 ]] && return
    has sudo || return
    sudo -n true 2>/dev/null && return
    [[ -t 0 ]] && sudo -p "sudo password for %u, to set faultlab up: " -v
}

as_root() { if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi; }

# The seconds gone and the last line of the log, every two seconds, until the
# other end of its stdin is closed: so a killed setup leaves no ticker behind,
# and nobody has to kill one, which runs the traps of the script if it is young.
ticker() {
    local log=$1 last began=$SECONDS
    while read -rt 2; (($? > 128)); do # more than 128: nothing came for two seconds
        last=$(tail -n 1 "$log" | tr -cd '[:print:]' | cut -c 1-68)
        printf '  %3d s  %s\n' $((SECONDS - began)) "${last:-working}" >&2
    done
}

# logged LOG COMMAND...: run it with its output in LOG and a ticker beside it.
# The command stays in the foreground: Ctrl-C reaches it, not only this script.
logged() {
    local log=$1 status=0 on pid
    shift
    printf '+ %s\n' "$*" >>"$log"
    exec {on}> >(ticker "$log" 9<&-)
    pid=$!
    "$@" </dev/null >>"$log" 2>&1 9<&- {on}>&- || status=$?
    exec {on}>&-
    wait "$pid" || true
    return "$status"
}

# Why a log's command failed: its last lines that complain, else its last lines.
show_end() {
    { grep -E '^E:|ERROR|[Ff]ailed|error:' "$1" || cat "$1"; } | tail -n 3 |
        tr -cd '[:print:]\n' | cut -c 1-400 | fold -s -w 72 | sed 's/^/    /' >&2
    say "  whole log: $1"
}
