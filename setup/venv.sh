# shellcheck shell=bash
# Purpose: make .venv with faultlab and, if asked, what its tests use. It is made
#          again only if pyproject.toml, setup/lock, this directory or its Python
#          has changed.
# Usage:   sourced by setup.sh: venv_current checks it, venv_ensure makes it

VENV=$ROOT/.venv
STAMP=$VENV/.faultlab # what the environment was made from; written last
# The extra of pyproject.toml to install. The one for tests includes all others.
EXTRA=${FAULTLAB_WEB:+web}
[[ ${FAULTLAB_TESTS-} != 1 ]] || EXTRA="test"
LOCKS=$ROOT/setup/lock # a file for each EXTRA: every dependency with its hashes; see make lock
PYTHONS=(python3 python3.14 python3.13 python3.12 python3.11)

venv_made_from() {
    printf '%s\n' "$ROOT" "$(readlink -f "$VENV/bin/python")" \
        "$(cat "$LOCKS"/*.txt | sha256sum)" "$(<"$ROOT/pyproject.toml")"
}

# An environment that contains more than was asked for is fine.
venv_current() {
    local made stamp
    [[ $AGAIN == make* ]] || return 0 # an installed package
    [[ -x $VENV/bin/python && -x $VENV/bin/pytest && -e $STAMP ]] || return
    made=$(venv_made_from) stamp=$(<"$STAMP")
    case ${stamp#"$made"} in
        "; with test") ;;
        "; with web") [[ $EXTRA != test ]] ;;
        "") [[ ! $EXTRA ]] ;;
        *) false ;;
    esac
}

# Print what is installed in addition to faultlab.
venv_more() {
    case $EXTRA in
        test) echo " and what its tests use" ;;
        web) echo " and what serves the pages of a class" ;;
    esac
}

NEW_ENOUGH='import sys; sys.exit(sys.version_info < (3, 11))'

# Set PYTHON to the first one that is new enough and can make an environment.
python_pick() {
    for PYTHON in "${PYTHONS[@]}"; do
        "$PYTHON" -c "import venv, ensurepip; $NEW_ENOUGH" 2>/dev/null && return
    done
    return 1
}

# Print the package to install: venv for the default Python if that is new enough,
# else a newer Python beside it.
python_package() {
    if python3 -c "$NEW_ENOUGH" 2>/dev/null; then
        echo python3-venv
    else
        first_of python3.13-venv python3.12-venv python3.11-venv python3-venv
    fi
}

venv_ensure() {
    local began=$SECONDS
    venv_current && return
    python_pick || die "no Python 3.11 or newer with venv was found" "$AGAIN"
    say "Making .venv with $PYTHON: faultlab$(venv_more)."
    rm -f "$STAMP"
    if ! logged "$LOG" venv_make; then
        show_end "$LOG"
        die "pip could not make .venv" "look at the lines above, then: $AGAIN"
    fi
    printf '%s%s\n' "$(venv_made_from)" "${EXTRA:+; with $EXTRA}" >"$STAMP"
    say "  made in $((SECONDS - began)) s"
}

# Programs name the Python that they were installed with. A long path, or one with a
# space, is in a line of sh: exec' PATH or exec' "PATH".
venv_moved() {
    local python=$VENV/bin/python
    ! grep -qsF -e "#!$python" -e "' $python" -e "\"$python" "$VENV/bin/pip"
}

# Install all packages with a command: what is locked, and then faultlab. hatchling, which builds
# it, is locked too. It adds the folder to sys.path, because an import finder costs each command
# 12 ms.
venv_fill() {
    "$@" --require-hashes --no-deps -r "$LOCKS/${EXTRA:-plain}.txt" &&
        "$@" --no-build-isolation --no-deps -e "$ROOT"
}

# A complete environment is only updated, which is faster than making a new one. uv takes a tenth of
# pip's time. It does not know pip's settings, so pip is used if they name an index, or if uv fails.
# Python compiles what it imports, which is a small part of all that is installed.
venv_make() {
    local python=$VENV/bin/python
    { ! venv_moved && "$python" -m pip --version >/dev/null 2>&1; } ||
        "$PYTHON" -m venv --clear "$VENV" || return
    local pip=("$python" -m pip install --progress-bar off --no-compile)
    [[ $("$python" -m pip config list) != *index* ]] &&
        "${pip[@]}" --require-hashes --no-deps -r "$LOCKS/uv.txt" &&
        venv_fill "$VENV/bin/uv" pip install --no-progress --python "$python" && return
    venv_fill "${pip[@]}"
}
