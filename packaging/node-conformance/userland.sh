#!/usr/bin/env bash
# Makes the userland of the node suite's images from Debian's packages: a small Debian as debian.tar, and a busybox.
#
#   userland.sh           makes what is missing (root; some 3 minutes)
#   userland.sh --where   prints the directory, which may not exist yet
#
# Called by build.sh. Upstream's images have Alpine or Debian, and busybox 1.36 or newer with its default settings.
# Debian's own busybox packages lack applets that the specs use (nmeter), so its source package is compiled.
#
#   DEBIAN_MIRROR   where the packages come from (default: the mirror that apt uses already, or else Debian's own)

set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
CACHE=${TRIKUBELET_LIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trikubelet}/node-conformance
DIRECTORY=$CACHE/userland-$(sha256sum "$HERE/userland.sh" | cut -c1-12)
RELEASE=bookworm
NEWER_RELEASE=trixie # for busybox alone: up to 1.35 its shell drops variables whose names are no identifiers
PACKAGES=(
    curl wget bind9-dnsutils netcat-openbsd iproute2 util-linux bsdextrautils procps iputils-ping nginx-light hostname
    ca-certificates gawk
)
TOOLS=(debootstrap gcc make bzip2 conntrack socat)
UNUSED=(
    ./var/cache/apt/* ./var/lib/apt/lists/* ./usr/share/doc/* ./usr/share/locale/* ./usr/share/man/* ./dev/* ./proc/*
    ./sys/*
)

say() { printf 'node conformance: %s\n' "$*"; }
stop() {
    printf 'node conformance: cannot go on: %s\n' "$*" >&2
    exit 1
}

mirror() {
    local used
    used=$(apt-get indextargets --format '$(SITE)' 'Identifier: Packages' 2>/dev/null | grep -m1 '/debian/*$' || true)
    echo "${DEBIAN_MIRROR:-${used:-http://deb.debian.org/debian}}"
}

install_tools() {
    local tool missing=()
    for tool in "${TOOLS[@]}"; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "$tool" >/dev/null || missing+=("$tool")
    done
    [ ${#missing[@]} -eq 0 ] && return
    say "installing ${missing[*]}"
    apt-get -qq update || say "apt-get update failed; going on with the lists that are there"
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null ||
        stop "apt-get could not install ${missing[*]}; its message is above"
}

# The lists of the newer release stay below $1, so that the machine's own apt never sees them.
compile_busybox() { # directory to work in, file to write
    local work=$1 options
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/source"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $NEWER_RELEASE main" \
        >"$work/sources.list"
    options=(-qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    cd "$work/source"
    apt-get "${options[@]}" source --download-only busybox
    tar -xf busybox_*.orig.tar.*
    cd busybox-*/
    make defconfig >"$work/log" 2>&1
    sed -i 's/^CONFIG_TC=y/# CONFIG_TC is not set/' .config # it does not compile with newer kernel headers
    nice make -j"$(nproc)" >>"$work/log" 2>&1 || stop "busybox does not compile: $(tail -n 5 "$work/log")"
    cp busybox "$2"
}

make_userland() {
    local half unused
    half=$(mktemp -d "$CACHE/.userland-XXXXXX")
    # shellcheck disable=SC2064  # expand $half now: it is local
    trap "rm -rf '$half'" EXIT
    say "compiling Debian's busybox"
    (compile_busybox "$half/busybox.d" "$half/busybox")
    say "installing a small Debian $RELEASE into a directory (minutes)"
    nice debootstrap --variant=minbase --include="$(IFS=, && echo "${PACKAGES[*]}")" \
        "$RELEASE" "$half/root" "$(mirror)" >"$half/debootstrap.log" 2>&1 ||
        stop "debootstrap failed: $(tail -n 5 "$half/debootstrap.log")"
    unused=("${UNUSED[@]/#/--exclude=}")
    tar -C "$half/root" --numeric-owner --sort=name --mtime=@0 "${unused[@]}" -cf "$half/debian.tar" .
    rm -rf "$half/root" "$half/busybox.d" "$half/debootstrap.log"
    chmod 755 "$half" # mktemp makes it private
    mv "$half" "$DIRECTORY"
    trap - EXIT
}

if [ "${1-}" = --where ]; then
    echo "$DIRECTORY"
    exit
fi
mkdir -p "$CACHE"
exec 8>"$CACHE/.userland.lock"
flock 8
install_tools
[ -d "$DIRECTORY" ] || make_userland
