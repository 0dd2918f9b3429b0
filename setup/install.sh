# shellcheck shell=bash
# Purpose: install the missing packages, continue without them, or refuse.
# Usage:   sourced by setup.sh: packages_ensure, and at the very end
#          packages_remember

packages_ensure() {
    [[ ${NEED[*]-}${LIKE[*]-} ]] || return 0
    if has apt-get && can_root; then
        packages_install || packages_refuse "apt could not install what is missing"
        packages_probe
        [[ -z ${NEED[*]-} ]] || packages_refuse "apt was content, yet not all of it is found"
    elif has apt-get; then
        packages_refuse "packages are missing, and there is neither root nor sudo"
    else
        packages_refuse "packages are missing, and apt-get too: not Debian or Ubuntu?"
    fi
}

# The update can fail for a source that is not needed here, so only the result of the
# install counts.
packages_install() {
    local why began=$SECONDS
    lock_packages
    say "Packages are missing; updating apt's index first."
    apt_run update || say "  it had errors; going on with what apt knows"
    packages_resolve
    for why in "${REASONS[@]}"; do
        [[ -z ${WHY[$why]-} ]] || say "Installing $why: ${WHY[$why]}"
    done
    apt_run install --no-install-recommends --no-remove "${PACKAGES[@]}" || {
        unlock_packages
        show_end "$LOG"
        return 1
    }
    unlock_packages
    say "  installed in $((SECONDS - began)) s"
}

# packages_refuse REASON: exit if something in NEED is missing, else print a note.
packages_refuse() {
    local next=("${NEED[@]/#/- }")
    if [[ -z ${NEED[*]-} ]]; then
        MISSED=${LIKE[*]}
        say "Going on without ${MISSED// /, }."
        say "  Reason: $1."
        say "  Not every machine needs it. To try again: ${AGAIN/#make/rm .venv/.without; make}"
        return
    fi
    has apt-get || die "$1" "install these your own way, then: $AGAIN" "${next[@]}"
    packages_resolve
    mapfile -t next < <(wrap "apt-get install --no-install-recommends ${PACKAGES[*]}")
    die "$1" "as root (or ask who has it), and then $AGAIN:" "${next[@]}"
}

# Remember them, so that the next make does not try again.
packages_remember() { [[ -z ${MISSED-} || ! -w $ROOT/.venv ]] || echo " $MISSED " >>"$WITHOUT"; }
