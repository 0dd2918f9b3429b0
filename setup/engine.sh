# shellcheck shell=bash
# Purpose: make a Docker Engine answer, or say why none does.
# Usage:   sourced by setup.sh. engine_probe sets ENGINE to answers, denied or
#          silent; engine_ensure starts a silent one (by the ways in start.sh).

engine_probe() {
    local words
    ENGINE=silent
    if words=$(timeout 5 docker version --format '{{.Server.Version}}' 2>&1); then
        ENGINE=answers
    elif [[ ${words,,} == *"permission denied"* ]]; then
        ENGINE=denied
        engine_left_its_socket && ENGINE=silent
    fi
    return 0
}

# The socket of a dead Engine denies access like that of a live one; only root can tell.
engine_left_its_socket() {
    [[ -z ${DOCKER_HOST-} ]] && has sudo && sudo -n true 2>/dev/null &&
        ! sudo -n timeout 5 docker version >/dev/null 2>&1
}

# Refuse what neither a package nor a start can repair.
engine_refuse() {
    if [[ $ENGINE == denied ]]; then
        die "this user may not use the socket of Docker Engine" \
            "sudo usermod -aG docker \"\$USER\"" \
            "then log out and in again (or run make as root: sudo make ...)"
    elif [[ $ENGINE == silent && ${DOCKER_HOST-} ]] && has docker; then
        die "no Docker Engine answers at DOCKER_HOST=$DOCKER_HOST" \
            "start it there, or use the one on this machine: unset DOCKER_HOST"
    fi
}

engine_ensure() {
    local how
    engine_probe
    engine_refuse
    [[ $ENGINE == silent ]] || return 0
    can_root || die "Docker Engine does not run, and starting it needs root" \
        "sudo service docker start (or ask who has root)"
    for how in systemd service dockerd; do
        [[ $how != systemd || -d $SYSROOT/run/systemd/system ]] || continue
        say "Starting Docker Engine ($how)."
        logged "$LOG" engine_try "$how" && engine_refuse && return
    done
    ! as_root test -r "$DOCKERD_LOG" || as_root cat "$DOCKERD_LOG" >>"$LOG"
    show_end "$LOG"
    die "Docker Engine did not start" "read the lines above, then: $AGAIN"
}
