#!/usr/bin/env bash
# Builds upstream's node suite, e2e_node.test, and everything that its runs need: ginkgo, the programs and the userland
# of the suite's images, and upstream's kubelet, whose results are the baseline.
#
#   build.sh VERSION          builds what is missing; the last line it prints is the directory of the programs
#   build.sh --where VERSION  prints that directory, which may not exist yet, and does nothing else
#   build.sh --check VERSION  succeeds if the directory exists or Go can build it; otherwise prints what to install
#
# VERSION is a minor version, 1.36 or 1.37: the file VERSION.mod pins its patch release, VERSION.sum its contents. The
# programs come from the Go module proxy, the userland from Debian's packages (userland.sh). A directory is named after
# the release and a hash of everything it is made of, and appears in one step once all of it is there.

set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
PROGRAMS=(
    github.com/onsi/ginkgo/v2/ginkgo
    k8s.io/kubernetes/cmd/kubelet
    k8s.io/kubernetes/test/images/agnhost
    k8s.io/kubernetes/test/images/nonewprivs
    k8s.io/kubernetes/test/images/sample-device-plugin
    k8s.io/kubernetes/test/e2e_node
    ./imagenames
)
CACHE=${TRIKUBELET_LIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trikubelet}/node-conformance

say() { printf 'node conformance: %s\n' "$*"; }
stop() {
    printf 'node conformance: cannot go on: %s\n' "$*" >&2
    exit 1
}

WORD=
case ${1-} in
    --where | --check) WORD=$1 && shift ;;
esac
[ $# -eq 1 ] && [ -e "$HERE/$1.mod" ] ||
    stop "give one version, of $(cd "$HERE" && ls [0-9]*.mod | sed 's/\.mod$//' | paste -sd' ')"
MINOR=$1
VERSION=$(sed -n 's|^require k8s.io/kubernetes \(v[0-9.]*\)$|\1|p' "$HERE/$MINOR.mod")
SOURCES=$(cd "$HERE" && cat build.sh programs.go imagenames/main.go "$MINOR.mod" "$MINOR.sum" | sha256sum | cut -c1-12)
DIRECTORY=$CACHE/$VERSION-$SOURCES

# From 1.21 on Go fetches the newer one that go.mod asks for, unless it was told not to; then it reports that itself.
check_go() {
    command -v go >/dev/null || stop "Go is missing (put Go 1.21 or newer on PATH: https://go.dev/dl)"
    (cd "$HERE" && go version >/dev/null) || stop "this Go is older than $HERE/go.mod asks for and may not fetch another"
}

in_module() { (cd "$HERE" && GOFLAGS='-buildvcs=false -mod=readonly' nice go "$1" -modfile="$MINOR.mod" "${@:2}"); }

# The image of agnhost is static (cgo off), because its userland is not this machine's. The kubelet keeps cgo, as
# upstream builds it.
build() {
    local half package name version how cgo source
    half=$(mktemp -d "$CACHE/.building-XXXXXX")
    # shellcheck disable=SC2064  # expand $half now: it is local
    trap "rm -rf '$half'" EXIT
    version=k8s.io/component-base/version
    for package in "${PROGRAMS[@]}"; do
        name=${package##*/} how=(build) cgo=0
        case $name in
            kubelet) cgo=1 ;;
            e2e_node) name=e2e_node.test how=(test -vet=off -c) cgo=1 ;;
        esac
        say "$name"
        CGO_ENABLED=$cgo in_module "${how[@]}" -trimpath -o "$half/$name" -ldflags "-s \
            -X $version.gitVersion=$VERSION -X $version.gitMajor=1 -X $version.gitMinor=${MINOR#1.}" "$package" ||
            stop "go could not build $name; a machine without a module proxy needs $DIRECTORY copied from another"
    done
    source=$(in_module list -m -f '{{.Dir}}' k8s.io/kubernetes)/test
    cp "$source"/images/agnhost/porter/localhost.* "$half" # agnhost serves with them
    cp "$source"/images/kitten/html/* "$half"
    gcc -Os -static -s -DVERSION="$VERSION" -o "$half/pause" "$source/../build/pause/linux/pause.c"
    chmod 755 "$half" # mktemp makes it private
    mv "$half" "$DIRECTORY"
    trap - EXIT
}

case $WORD in
    --where) echo "$DIRECTORY" ;;
    --check) [ -d "$DIRECTORY" ] || check_go ;;
    "")
        mkdir -p "$CACHE"
        exec 9>"$CACHE/.lock"
        flock 9 # two builds at once: the second waits, then finds everything done
        if [ ! -d "$DIRECTORY" ]; then
            check_go
            say "building Kubernetes' node suite $VERSION: once, some 10 minutes on two cores, 5 GB of disk"
            build
        fi
        "$HERE/userland.sh"
        echo "$DIRECTORY"
        ;;
esac
