#!/usr/bin/env bash
# Purpose: write setup/lock: each dependency with its version and its hashes, for
#          every Python from 3.11 on and every processor. pyproject.toml has the
#          ranges; a pin that still fits stays.
# Usage:   make lock, or release/lock.sh [--upgrade]
#          --upgrade: take the newest versions that fit
# Exit:    0 written, 2 wrong usage, 3 cannot run here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PART=lock # in the messages of lib.sh
# shellcheck source=setup/lib.sh
. setup/lib.sh
# shellcheck source=release/tools.sh
. release/tools.sh

upgrade=()
case ${1-} in
    "") ;;
    --upgrade) upgrade=(--upgrade) ;;
    *) sed -n '2,/^set /s/^# //p' "$0" >&2; exit 2 ;;
esac

built_with=$(python3 -c '
import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')

# locked FILE WORDS...: the packages of these sources; the one that builds faultlab is always there.
locked() {
    local file=setup/lock/$1.txt
    shift
    say "Locking $file."
    "$TOOLS/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-annotate --custom-compile-command "make lock" "${upgrade[@]}" \
        --output-file "$file" "$@" - <<<"$built_with" >/dev/null
}

tools_ensure
locked test pyproject.toml --extra test
# A checkout draws and verifies, so each of its files has what that needs.
all=(--extra plot --extra verify)
locked web pyproject.toml "${all[@]}" --extra web --constraint setup/lock/test.txt
locked cluster pyproject.toml "${all[@]}" --extra web --extra kubernetes --constraint setup/lock/test.txt
locked plain pyproject.toml "${all[@]}" --constraint setup/lock/test.txt
locked release --group release
locked uv --group uv --constraint setup/lock/release.txt
