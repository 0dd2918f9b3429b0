# shellcheck shell=bash
# Purpose: find the missing Debian or Ubuntu packages, and what they are for.
# Usage:   sourced by setup.sh. packages_probe fills NEED (required) and LIKE
#          (useful on some machines only); packages_resolve turns both into
#          PACKAGES, and WHY: reason -> packages.

REASONS=("to run the stacks" "to run faultlab" "to make the base image" "for make test")
WITHOUT=$ROOT/.venv/.without # packages of LIKE that could not be installed here

packages_probe() {
    NEED=() LIKE=()
    [[ $ENGINE == answers || ${DOCKER_HOST-} ]] || has dockerd ||
        NEED+=("Docker Engine")
    has docker || NEED+=("the docker command")
    has docker-compose || docker compose version >/dev/null 2>&1 ||
        NEED+=("Docker Compose")
    venv_current || python_pick || NEED+=("Python 3.11 or newer with venv")
    has iptables || like iptables
    has mmdebstrap || like mmdebstrap
    # Without root, mmdebstrap makes a tree only in a user namespace.
    has newuidmap || [[ $(id -u) == 0 ]] || like uidmap
    [[ -e $SYSROOT/usr/share/keyrings/debian-archive-keyring.gpg ]] ||
        like debian-archive-keyring
    [[ ${FAULTLAB_TESTS-} == 1 ]] || return 0
    has shellcheck || like shellcheck
    has chromium || ! on_debian || like chromium
}

# Elsewhere chromium is not a package, or only one that installs a snap.
on_debian() { grep -qsx ID=debian "$SYSROOT/etc/os-release"; }

like() {
    [[ -e $WITHOUT && $(<"$WITHOUT") == *" $1 "* ]] || LIKE+=("$1")
}

packages_resolve() {
    local want name why
    declare -gA WHY=()
    for want in "${NEED[@]}" "${LIKE[@]}"; do
        case $want in
            "Docker Engine") name=docker.io ;;
            "the docker command") name=$(first_of docker-cli docker.io) ;;
            "Docker Compose") name=$(first_of docker-compose-v2 docker-compose) ;;
            Python*) name=$(python_package) ;;
            *) name=$want ;;
        esac
        case $name in
            docker* | iptables) why=${REASONS[0]} ;;
            python*) why=${REASONS[1]} ;;
            shellcheck | chromium) why=${REASONS[3]} ;;
            *) why=${REASONS[2]} ;;
        esac
        [[ " ${WHY[$why]-} " == *" $name "* ]] ||
            WHY[$why]+="${WHY[$why]:+ }$name"
    done
    # shellcheck disable=SC2034  # read by install.sh
    read -ra PACKAGES <<<"${WHY[*]}"
}

apt_has() {
    [[ $(LC_ALL=C apt-cache policy "$1" 2>/dev/null) == *"Candidate: "[0-9]* ]]
}

# Print the first of these packages that apt knows, else the last.
first_of() {
    while (($# > 1)) && ! apt_has "$1"; do shift; done
    echo "$1"
}
