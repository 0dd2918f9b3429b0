# shellcheck shell=bash
# Purpose: the ways to start Docker Engine. Without systemd, `service` can fail
#          because a container-like machine does not permit its ulimit, so
#          dockerd itself comes last. Only an answer on the socket counts.
# Usage:   sourced by setup.sh: engine_try systemd|service|dockerd

DOCKERD_LOG=$SYSROOT/var/log/dockerd.log

engine_try() { "by_$1" && engine_wait 45; }

by_systemd() { as_root systemctl start docker; }
by_service() { as_root service docker start; }
by_dockerd() { # setsid: dockerd outlives this script and its terminal
    # shellcheck disable=SC2016  # $1 and $! belong to the inner shell
    DOCKERD_PID=$(as_root sh -c 'setsid dockerd </dev/null >>"$1" 2>&1 & echo $!' \
        sh "$DOCKERD_LOG")
}

# engine_wait SECONDS: wait until the socket answers, or dockerd has ended.
engine_wait() {
    local end=$((SECONDS + $1))
    echo "waiting for the socket of Docker Engine to answer"
    while engine_probe && [[ $ENGINE == silent ]]; do
        ((SECONDS < end)) || return 1
        [[ -z ${DOCKERD_PID-} ]] || ! dockerd_ended || return 1
        sleep 0.2
    done
}

# Without an init that reaps processes, an ended one stays as a zombie.
dockerd_ended() {
    ! grep -q '^State:[[:space:]]*[A-WY]' "/proc/$DOCKERD_PID/status" 2>/dev/null
}
