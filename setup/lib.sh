# shellcheck shell=bash
# Purpose: functions for the parts of setup.sh: messages, root rights, and long
#          commands with signs of life.
# Usage:   sourced by setup.sh; everything it prints goes to stderr, so that
#          `make list >file` holds the list only.

# We parse the output of programs, so it must be English. A set LANGUAGE overrides
# LC_ALL unless that is exactly C. The umask is for other users who read the files
# made here: those of apt, Docker and libvirt, and of the daemons in the VM.
export LC_ALL=C.UTF-8 LANGUAGE=
umask 022

say() { printf '%s\n' "$*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

# die WHAT NEXT...: print what happened and what to type, a line each; exit 3.
die() {
    say "faultlab ${PART:-setup}: $1"
    shift
    (($#)) && printf '  next: %s\n' "$1" >&2 && shift
    (($#)) && printf '        %s\n' "$@" >&2
    exit 3
}

# Wrap a command to the width of the page, with backslashes so that it can be pasted.
wrap() { printf '%s' "$*" | fold -s -w 68 | sed '$!s/$/\\/'; }

# Succeed as root or with a working sudo; ask for a password only on a terminal.
can_root() {
    [[ $(id -u) == 0 ]] && return
    has sudo || return
    sudo -n true 2>/dev/null && return
    [[ -t 0 ]] && sudo -p "sudo password for %u, to set faultlab up: " -v
}

as_root() { if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi; }

# Print the time and the last line of the log every two seconds, until the other
# end of its stdin is closed. So a killed setup leaves no ticker behind, and we
# need not kill it. (A kill right after its start would run the script's traps.)
ticker() {
    local log=$1 last began=$SECONDS
    while read -rt 2; (($? > 128)); do # more than 128: no input for two seconds
        last=$(tail -n 1 "$log" | tr -cd '[:print:]' | cut -c 1-68)
        printf '  %3d s  %s\n' $((SECONDS - began)) "${last:-working}" >&2
    done
}

# Wait until no other setup of this checkout installs packages: of two at once, one finds
# apt's index locked, goes on without it, and knows no package. The lock is this directory.
lock_packages() {
    exec 8<"${BASH_SOURCE[0]%/*}"
    flock --nonblock 8 && return
    say "Another setup is installing packages: waiting for it to finish."
    flock 8
}
unlock_packages() { exec 8<&-; }

# logged LOG COMMAND...: run a command with its output in LOG, and a ticker meanwhile.
# The command stays in the foreground, so that Ctrl-C reaches it too.
logged() {
    local log=$1 status=0 on pid
    shift
    printf '+ %s\n' "$*" >>"$log"
    exec {on}> >(ticker "$log" 8<&- 9<&-)
    pid=$!
    "$@" </dev/null >>"$log" 2>&1 8<&- 9<&- {on}>&- || status=$?
    exec {on}>&-
    wait "$pid" || true
    return "$status"
}

# apt_run WORDS...: run apt-get. It waits while another program installs packages.
apt_run() {
    logged "$LOG" as_root env DEBIAN_FRONTEND=noninteractive ${APT_CONFIG:+"APT_CONFIG=$APT_CONFIG"} \
        apt-get -y -o DPkg::Lock::Timeout=300 "$@"
}

# Show why a logged command failed: its last error lines, else its last lines.
show_end() {
    { grep -E '^E:|ERROR|[Ff]ailed|error:' "$1" || cat "$1"; } | tail -n 3 |
        tr -cd '[:print:]\n' | cut -c 1-400 | fold -s -w 72 | sed 's/^/    /' >&2
    say "  whole log: $1"
}
