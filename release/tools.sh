# shellcheck shell=bash
# Purpose: an environment with the tools of a release: uv, hatchling, cyclonedx-bom.
# Usage:   sourced by the scripts beside it: tools_ensure sets TOOLS to its bin/, and
#          WORK to a folder that goes when the script ends; show_log keeps its log

tools_make() {
    python3 -m venv "$WORK/tools" &&
        "$TOOLS/python" -m pip install --progress-bar off --require-hashes -r setup/lock/release.txt
}

# Show the end of the log, and set LOG to what is kept of it.
show_log() {
    LOG=$(mktemp --tmpdir faultlab-release.XXXXXX.log)
    cp "$WORK/log" "$LOG"
    show_end "$LOG"
}

tools_ensure() {
    # A release has gigabytes, which are too much for a /tmp in memory.
    WORK=$(mktemp -d -p "${TMPDIR:-/var/tmp}" faultlab-release.XXXXXX)
    trap 'rm -rf "$WORK"' EXIT
    TOOLS=$WORK/tools/bin
    say "Installing the tools of a release."
    logged "$WORK/log" tools_make && return
    show_log
    die "pip could not install them" "less $LOG"
}
