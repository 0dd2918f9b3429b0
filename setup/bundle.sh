# shellcheck shell=bash
# Purpose: install packages, wheels, images and the VM's box from an archive that
#          `faultlab bundle` wrote, without a network.
# Usage:   sourced by setup.sh; BUNDLE names the archive, DIGEST is what `faultlab
#          bundle` has printed for it. bundle_open unpacks it, checks it, and points
#          apt and pip to it; bundle_load installs the rest.

UNPACKED=$ROOT/.bundle

bundle_open() {
    [[ ${BUNDLE-} ]] || return 0
    [[ -r $BUNDLE ]] || die "there is no bundle $BUNDLE" "make setup BUNDLE=FILE"
    say "Reading $BUNDLE."
    rm -rf "$UNPACKED"
    mkdir "$UNPACKED"
    tar --no-same-owner --no-same-permissions -xf "$BUNDLE" -C "$UNPACKED" 2>>"$LOG" || bundle_refuse "$BUNDLE is no bundle, or cut off"
    [[ -e $UNPACKED/SHA256SUMS ]] || bundle_refuse "$BUNDLE is no bundle"
    local digest more
    digest=$(sha256sum "$UNPACKED/SHA256SUMS")
    digest=${digest%% *}
    say "  digest: $digest"
    [[ ${DIGEST:-$digest} == "$digest" ]] || bundle_refuse "$BUNDLE is not the one with your DIGEST"
    more=$(bundle_unnamed)
    [[ ! $more ]] || bundle_refuse "$BUNDLE: SHA256SUMS does not name $more"
    logged "$LOG" bundle_check ||
        bundle_refuse "$BUNDLE is damaged: $(grep -m 1 FAILED "$LOG" || echo "SHA256SUMS is no list")"
    grep -q "\"machine\": \"$(uname -m)\"" "$UNPACKED/bundle.json" ||
        bundle_refuse "$BUNDLE was made on another kind of processor than $(uname -m)"
    local suite
    # shellcheck source=/dev/null
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    grep -q "\"suite\": \"$suite\"" "$UNPACKED/bundle.json" ||
        bundle_refuse "$BUNDLE was made on another Debian than ${suite:-this one}"
    # A space in a path is %20 in the list of sources.
    printf 'deb [trusted=yes] file:%s/debs ./\n' "${UNPACKED// /%20}" >"$UNPACKED/sources.list"
    cat >"$UNPACKED/apt.conf" <<CONF
Dir::Etc::sourcelist "$UNPACKED/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$UNPACKED/lists";
APT::Sandbox::User "root";
CONF
    mkdir -p "$UNPACKED/lists/partial"
    export APT_CONFIG=$UNPACKED/apt.conf
    EXTRA=${EXTRA:-web} # it cannot be downloaded later
    export PIP_NO_INDEX=1 PIP_FIND_LINKS=$UNPACKED/wheels PIP_CONFIG_FILE=/dev/null
}

# What the list does not name could be used all the same: apt, pip and Docker take what is there. The
# list is of plain files, so a link or a device is such a thing, too.
bundle_unnamed() {
    local files
    files=$(cd "$UNPACKED" && find . ! -type d ! -path ./SHA256SUMS -printf '%y %P\n')
    comm -23 <(sort -u <<<"$files") \
        <(sed -n 's/^[0-9a-f]\{64\}  /f /p' "$UNPACKED/SHA256SUMS" | sort -u) | sed -n '1s/^. //p'
}

bundle_check() { (cd "$UNPACKED" && sha256sum --quiet --strict --check SHA256SUMS); }

bundle_refuse() { die "$1" "copy it once more, or make it again: faultlab bundle"; }

# It takes gigabytes, so it goes however the setup ends.
bundle_close() { [[ ! ${BUNDLE-} ]] || rm -rf "$UNPACKED"; }

bundle_load() {
    [[ ${BUNDLE-} ]] || return 0
    say "Loading the images."
    logged "$LOG" docker load --input "$UNPACKED/images.tar.gz" || {
        show_end "$LOG"
        die "Docker did not take the images" "docker info"
    }
    if [[ -e $UNPACKED/vm/digest ]]; then
        say "Bringing in the box of the lab VM, and what it needs."
        logged "$LOG" as_root env APT_CONFIG="$APT_CONFIG" "$ROOT/setup/libvirt.sh" || {
            show_end "$LOG"
            say "  without it: labs that need the VM will not run here"
        }
        mkdir -p "$ROOT/.vm"
        echo '*' >"$ROOT/.vm/.gitignore"
        # Replaced, not written to: another checkout can have links to the old files.
        cp -p --remove-destination "$UNPACKED"/vm/* "$ROOT/.vm/"
        rm -f "$ROOT/.vm/disk.qcow2" # of another box: images/vm/boot.sh takes it from this one
        sed -i "s#\"url\": \"[^\"]*\"#\"url\": \"file://${ROOT// /%20}/.vm/faultlab.box\"#" \
            "$ROOT/.vm/box.json"
    fi
}
