# shellcheck shell=bash
# Purpose: an environment with the tools of a release: uv, hatchling, cyclonedx-bom.
# Usage:   sourced by the scripts beside it: tools_ensure sets TOOLS to its bin/

tools_make() {
    python3 -m venv "$WORK/tools" &&
        "$TOOLS/python" -m pip install --progress-bar off --require-hashes -r setup/lock/release.txt
}

tools_ensure() {
    local log
    WORK=$(mktemp -d --tmpdir faultlab-release.XXXXXX) log=$WORK/log
    trap 'rm -rf "$WORK"' EXIT
    TOOLS=$WORK/tools/bin
    say "Installing the tools of a release."
    logged "$log" tools_make && return
    show_end "$log"
    cp "$log" "${WORK%/*}/faultlab-release.log"
    die "pip could not install them" "less ${WORK%/*}/faultlab-release.log"
}
