#!/usr/bin/env bash
# Purpose: write dist/: wheel, sdist, bundle, SBOM, release notes and checksums of
#          the version whose tag is checked out. It publishes nothing.
# Usage:   make release, or release/release.sh
# Reads:   NO_BUNDLE=1   leave out the bundle, which has a gigabyte with the VM
# Exit:    0 written, 1 two builds of it differ, 2 this cannot be released yet,
#          3 cannot run here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PART=release # in the messages of lib.sh
# shellcheck source=setup/lib.sh
. setup/lib.sh
# shellcheck source=release/tools.sh
. release/tools.sh
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' faultlab/__init__.py)

refuse() {
    say "faultlab release: $1"
    say "  next: $2"
    exit 2
}

# What CHANGELOG.md says about this version: the lines between its heading and the next.
notes() {
    awk -v heading="## $version" '/^## /{inside = ($0 == heading); next} inside' CHANGELOG.md |
        sed '/./,$!d'
}

# The sources come from the commit and not from the folder, so each build sees the
# same files. The umask differs, because it must not matter.
build() {
    local folder=$WORK/$1
    mkdir -p "$folder"
    (umask "$2" && git archive --prefix=faultlab/ HEAD | tar -xC "$folder")
    (cd "$folder/faultlab" && logged "$WORK/log" "$TOOLS/hatchling" build -d "$folder/dist" -t sdist -t wheel)
}

# Print image, package, version and processor of each Debian package in our images.
packages() {
    local tag tags
    tags=$(.venv/bin/faultlab images --json |
        python3 -c 'import json, sys; print(*json.load(sys.stdin)["images"].values())') || exit 3
    for tag in $tags; do
        say "  $tag"
        # shellcheck disable=SC2016  # the names belong to dpkg-query
        docker run --rm --pull never --network none --entrypoint dpkg-query "$tag" \
            -W -f "$tag"'\t${Package}\t${Version}\t${Architecture}\n' || exit 3
    done
}

[[ -z $(git status --porcelain) ]] || refuse "this checkout has changes" "git status"
[[ " $(git tag --points-at HEAD | xargs) " == *" v$version "* ]] ||
    refuse "this commit has no tag v$version, the version of faultlab/__init__.py" "git tag v$version"
[[ $(notes) ]] || refuse "CHANGELOG.md has no section '## $version'" "edit CHANGELOG.md"

tools_ensure
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
say "Building wheel and sdist, twice."
if ! build one 022 || ! build two 077; then
    show_log
    exit 3
fi
out=$WORK/one/dist
diff -r "$out" "$WORK/two/dist" >&2 || { say "faultlab release: two builds of one commit differ"; exit 1; }

say "Listing what is in it."
notes >"$out/RELEASE-NOTES.md"
packages >"$WORK/packages"
"$TOOLS/cyclonedx-py" requirements setup/lock/web.txt --output-reproducible --of JSON -o "$WORK/python.json" || exit 3
"$TOOLS/python" release/sbom.py "$version" "$WORK/python.json" "$WORK/packages" NOTICE \
    >"$out/faultlab-$version.cdx.json" || exit 3
[[ ${NO_BUNDLE-} ]] || .venv/bin/faultlab bundle --out "$out/faultlab-$version.bundle.tar" >&2 || exit 3
(cd "$out" && sha256sum -- * >"$WORK/SHA256SUMS" && mv "$WORK/SHA256SUMS" .)
rm -rf dist
cp -r "$out" dist
say "In dist/, ready to be published:"
(cd dist && du -h -- *) >&2
