# shellcheck shell=bash
# shellcheck disable=SC2154  # out, digest: set by build.sh
# Purpose: keep what build.sh has made for other checkouts of the same user, so
#          that a fresh clone need not build it again. Nothing writes to these
#          files, so they are linked where that is possible, and copied elsewhere:
#          under sudo too, where those in the checkout get another owner.
# Usage:   sourced by build.sh: take_kept, keep

files=(disk.qcow2 vmlinuz initrd.img cmdline ssh_key ssh_key.pub faultlab.box box.json version)
kept=${XDG_CACHE_HOME:-$HOME/.cache}/faultlab/box

# share FILES... FOLDER
share() {
    { [[ -z ${SUDO_UID-} ]] && cp -lf "$@" 2>/dev/null; } || cp -pf --remove-destination "$@"
}

# locked COMMAND...: one build at a time takes what is kept, or replaces it.
locked() (
    (umask 077 && mkdir -p "$kept") 2>/dev/null && exec 8>"$kept.lock" && flock 8 && "$@"
)

take_kept() { locked _take; }
_take() {
    [[ $digest == "$(cat "$kept/digest" 2>/dev/null)" ]] || return 1
    (cd "$kept" && share "${files[@]}" "$out") || return 1
    # sed writes a new file, so the one that is kept stays as it is.
    sed -i "s#\"url\": \"[^\"]*\"#\"url\": \"file://${out// /%20}/faultlab.box\"#" "$out/box.json"
    echo "$digest" >"$out/digest"
}

keep() { locked _keep; }
_keep() {
    rm -f "$kept/digest" # from here on what is kept counts as nothing
    (cd "$out" && share "${files[@]}" "$kept") || return 1
    echo "$digest" >"$kept/digest"
}
