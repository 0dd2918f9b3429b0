#!/usr/bin/env bash
# Purpose: install what faultlab needs: packages, a Docker Engine that answers,
#          and .venv. It does only what is missing. If nothing is missing it
#          is silent and quick, because every make target calls it first.
#          An installed package has its own Python and calls this for the rest.
# Usage:   make setup, faultlab setup, or setup/setup.sh [--help]
# Reads:   FAULTLAB_TESTS=1   also install what only `make test` uses
#          FAULTLAB_WEB=1     also install what serves the pages of a class
#          FAULTLAB_SYSROOT   prefix of the system's paths (for the unit tests)
#          BUNDLE=FILE        install everything from this file of `faultlab bundle`
#          DIGEST=HEX         refuse a BUNDLE that has another digest
#          DOCKER_HOST        use that Engine, and start none
# Exit:    0 ready, 2 usage, 3 cannot run here (prints what to type next)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=${here%/*}
SYSROOT=${FAULTLAB_SYSROOT-}
# A checkout has pyproject.toml, an installed package has not.
if [[ -e $ROOT/pyproject.toml ]]; then AGAIN="make setup"; else AGAIN="faultlab setup"; fi
[[ ! ${BUNDLE-} ]] || AGAIN+=" BUNDLE=$(printf %q "$BUNDLE")${DIGEST:+ DIGEST=$(printf %q "$DIGEST")}"
# dockerd and iptables are here, which is not in the PATH of a Debian user.
PATH=$PATH:$SYSROOT/usr/sbin:$SYSROOT/sbin

for part in lib bundle venv packages install engine start; do
    # shellcheck source=/dev/null
    source "$here/$part.sh"
done

nothing_missing() {
    engine_probe
    packages_probe
    [[ $ENGINE == answers && -z ${NEED[*]-}${LIKE[*]-} ]] && venv_current
}

# A bundle also contains images, so it is always opened.
all_here() { nothing_missing && [[ ! ${BUNDLE-} ]]; }

# One setup at a time in this checkout; the lock is the directory itself.
only_one() {
    exec 9<"$ROOT"
    flock --nonblock 9 && return
    say "Another setup is running in this checkout: waiting for it to finish."
    flock 9
}

# $1: the exit code. Keep the log only if it was shown.
drop_log() { [[ $1 != 0 && -s $LOG ]] || rm -f "$LOG"; }

set_up() {
    only_one
    all_here && return
    LOG=$(mktemp --tmpdir faultlab-setup.XXXXXX)
    trap 'drop_log $?; bundle_close' EXIT
    bundle_open
    engine_refuse
    packages_ensure
    engine_ensure
    venv_ensure
    bundle_load
    packages_remember
}

case ${1-} in
    "")
        [[ $AGAIN == make* || ! ${BUNDLE-} ]] || die "a bundle is for a checkout" "make setup BUNDLE=FILE"
        all_here || set_up
        ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \?//;p}' "${BASH_SOURCE[0]}" ;;
    *) say "usage: setup/setup.sh [--help]" && exit 2 ;;
esac
