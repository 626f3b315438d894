#!/usr/bin/env bash
# Puts on this machine what the live tests talk to, and nothing twice.
#
# Called by `make live` before the tests and by anyone who wants to run one of them by hand. It installs the
# distribution's container runtime and network plugins with apt, and builds a newer containerd and runc, CRI-O, and a
# control plane, from their Go modules into a cache directory that is keyed by version. It starts nothing: the tests
# start all of it themselves, with directories of its own (see kit/). Running it again changes nothing and takes a
# second.
#
#   --core   only what `make live-core` needs, which is nothing that has to be built: the distribution's packages
#
#   TRIKUBELET_LIVE_CACHE   where the built runtimes go (default: ${XDG_CACHE_HOME:-~/.cache}/trikubelet)
#   TRIKUBELET_LIVE_JOBS    how many packages Go compiles at once (default 1: other work goes on on the machine)

set -euo pipefail

# The versions are repeated in kit/places.py, which finds the binaries again; a test compares the two.
CONTAINERD_VERSION=2.2.9
RUNC_VERSION=1.3.6
CRIO_VERSION=1.34.0

CACHE=${TRIKUBELET_LIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trikubelet}
JOBS=${TRIKUBELET_LIVE_JOBS:-1}

# The program each package is wanted for stands first: what is there already, from whatever source, is not installed
# over (a machine with containerd from elsewhere keeps it).
WANTED=(
    "containerd containerd"
    "runc runc"
    "iptables iptables"
    "ip iproute2"
    "nsenter util-linux"
    "busybox busybox-static"
    "curl curl"
    "gcc gcc"
)
WANTED_BY_ALL=(
    "conmon conmon"
    "docker-registry docker-registry"
    "htpasswd apache2-utils"
    "bsdtar libarchive-tools"
    "systemd-analyze systemd"
    "dbus-daemon dbus-daemon"
    "pkg-config pkg-config"
)

CORE=
case "${1-}" in
    --core) CORE=yes ;;
    "") WANTED+=("${WANTED_BY_ALL[@]}") ;;
    *) printf 'live install: %s is not known; --core is\n' "$1" >&2; exit 2 ;;
esac

say() { printf 'live install: %s\n' "$*"; }
stop() {
    printf 'live install: cannot go on: %s\n' "$*" >&2
    exit 1
}

on_path() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1; }

libc_is_complete() { [ -e "$(gcc -print-file-name=libc.a 2>/dev/null || true)" ]; }
seccomp_is_there() { pkg-config --exists libseccomp 2>/dev/null; }
plugins_are_there() { [ -x /usr/lib/cni/bridge ] || [ -x /opt/cni/bin/bridge ]; }

missing_packages() {
    local entry
    for entry in "${WANTED[@]}"; do
        on_path "${entry%% *}" || printf '%s\n' "${entry##* }"
    done
    plugins_are_there || echo containernetworking-plugins
    libc_is_complete || echo libc6-dev
    [ -z "$CORE" ] || return 0
    seccomp_is_there || echo libseccomp-dev
    on_path go || echo golang-go
}

install_packages() {
    local missing
    mapfile -t missing < <(missing_packages)
    if [ ${#missing[@]} -eq 0 ]; then
        say "every package is there"
        return
    fi
    on_path apt-get || stop "these packages are missing and there is no apt-get to install them: ${missing[*]}"
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # The lists may be fresh enough already, and a machine without a network may still hold the packages.
    apt-get -qq update || say "apt-get update failed; going on with the lists that are there"
    apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null ||
        stop "apt-get could not install ${missing[*]}; its message is above"
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} -eq 0 ] || stop "still missing after apt-get: ${missing[*]}"
}

# Debian 12's own Go is too old for these modules; from 1.21 on Go fetches the compiler a module asks for, if it may.
check_go() {
    local minor
    minor=$(go env GOVERSION | sed -E 's/^go1\.([0-9]+).*/\1/')
    [ "$minor" -ge 21 ] || stop "$(go env GOVERSION) is too old; put Go 1.21 or newer on PATH (Debian: from backports)"
}

# build_into DIRECTORY COMMAND...: what COMMAND leaves in $HALF/bin becomes DIRECTORY/bin, in one step, so that a build
# cut short is never taken for done.
build_into() {
    local directory=$1
    shift
    check_go
    HALF=$(mktemp -d "$CACHE/.building-XXXXXX")
    # shellcheck disable=SC2064  # the directory is meant as it is now
    trap "rm -rf '$HALF'" EXIT
    mkdir "$HALF/bin"
    "$@" || stop "no $directory; a machine without a module proxy needs the cache copied to $CACHE"
    chmod 755 "$HALF" # mktemp makes it private
    mv "$HALF" "$directory"
    trap - EXIT
}

go_install() { GOBIN=$HALF/bin GOFLAGS="-p=$JOBS -buildvcs=false" nice go install -trimpath "$@"; }

build_containerd() {
    local directory=$CACHE/containerd-$CONTAINERD_VERSION module=github.com/containerd/containerd/v2
    if [ -x "$directory/bin/containerd" ]; then
        say "containerd $CONTAINERD_VERSION is in $directory"
        return
    fi
    say "building containerd $CONTAINERD_VERSION into $directory (minutes)"
    CGO_ENABLED=0 build_into "$directory" go_install \
        -tags no_btrfs,no_devmapper,no_zfs,no_aufs \
        -ldflags "-s -w -X $module/version.Version=$CONTAINERD_VERSION" \
        "$module/cmd/containerd@v$CONTAINERD_VERSION" \
        "$module/cmd/containerd-shim-runc-v2@v$CONTAINERD_VERSION" \
        "$module/cmd/ctr@v$CONTAINERD_VERSION"
}

build_runc() {
    local directory=$CACHE/runc-$RUNC_VERSION
    if [ -x "$directory/bin/runc" ]; then
        say "runc $RUNC_VERSION is in $directory"
        return
    fi
    say "building runc $RUNC_VERSION into $directory"
    # runc enters namespaces from C, so this one needs cgo.
    CGO_ENABLED=1 build_into "$directory" go_install -tags seccomp -ldflags "-s -w -X main.version=$RUNC_VERSION" \
        "github.com/opencontainers/runc@v$RUNC_VERSION"
}

build_crio() {
    local directory=$CACHE/crio-$CRIO_VERSION
    if [ -x "$directory/bin/crio" ]; then
        say "CRI-O $CRIO_VERSION is in $directory"
        return
    fi
    say "building CRI-O $CRIO_VERSION into $directory (minutes)"
    CGO_ENABLED=1 build_into "$directory" compile_crio
}

# In the sources of its module, for pinns is a program in C, and because `go install` would first ask which other
# versions there are, which not every module proxy tells. Signatures are checked by Go's own OpenPGP.
compile_crio() (
    module=$(cd / && go mod download -json "github.com/cri-o/cri-o@v$CRIO_VERSION")
    cd "$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$module")" &&
        gcc -std=c99 -Os -static -s -o "$HALF/bin/pinns" pinns/src/*.c &&
        GOFLAGS="-p=$JOBS -buildvcs=false -mod=readonly" nice go build -trimpath -ldflags "-s -w" \
            -tags seccomp,containers_image_openpgp,containers_image_ostree_stub,exclude_graphdriver_btrfs \
            -o "$HALF/bin/crio" ./cmd/crio
)

[ "$(uname -s)" = Linux ] || stop "containers need Linux; this is $(uname -s)"
[ "$(id -u)" -eq 0 ] || stop "needs root, to install packages and to run containers; run it as root (sudo $0)"

mapfile -t MISSING < <(missing_packages)
if [ -n "$CORE" ] && [ ${#MISSING[@]} -eq 0 ]; then
    say "every package that the core of the live tests needs is there"
    exit # and not behind somebody who builds for minutes
fi

mkdir -p "$CACHE"
exec 9>"$CACHE/.lock"
flock 9 # two installs at once: the second waits, then finds everything done

install_packages
if [ -n "$CORE" ]; then
    say "ready for the core of the live tests"
    exit
fi
build_containerd
build_runc
build_crio
"$(dirname "$0")/../../packaging/control-plane/build.sh"
say "ready"
