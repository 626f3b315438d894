#!/usr/bin/env bash
# Builds a whole control plane, and upstream's kubelet to be measured beside, from the Go module in this directory.
#
#   build.sh            builds what is missing; the last line it prints is the directory of the programs
#   build.sh --where    prints that directory, which may not exist yet, and does nothing else
#   build.sh --check    ends well when the programs are there or Go is, to build them; else says what to do about it
#
# With --conformance before any of these it is about upstream's end-to-end suite instead: the suite, what runs it, and
# the programs in the images of its pods.
#
# Called by tests/live/install.sh, by `make conformance`, and by `make live` to know at its start whether it can end. The
# directory is named by the version and by everything the programs are made of, and appears in one step when all of them
# are there. What Go compiled before it was interrupted is in Go's own cache, so that the next run goes on from there.

set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
PROGRAMS=(
    k8s.io/kubernetes/cmd/kube-apiserver
    k8s.io/kubernetes/cmd/kube-controller-manager
    k8s.io/kubernetes/cmd/kube-scheduler
    k8s.io/kubernetes/cmd/kubectl
    k8s.io/kubernetes/cmd/kubelet
    go.etcd.io/etcd/server/v3
)
WHAT="Kubernetes and its etcd: once, some 10 minutes on two cores, 5 GB of disk"
KIND=control-plane
if [ "${1-}" = --conformance ]; then
    shift
    PROGRAMS=(
        github.com/onsi/ginkgo/v2/ginkgo
        k8s.io/kubernetes/test/e2e
        k8s.io/kubernetes/test/images/agnhost
        k8s.io/kubernetes/test/images/nonewprivs
    )
    WHAT="Kubernetes' end-to-end suite: once, some 5 minutes on two cores when the control plane is built"
    KIND=conformance
fi

CACHE=${TRIKUBELET_LIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trikubelet}/$KIND

say() { printf '%s: %s\n' "${KIND/-/ }" "$*"; }
stop() {
    printf '%s: cannot go on: %s\n' "${KIND/-/ }" "$*" >&2
    exit 1
}

VERSION=$(sed -n 's|^\tk8s.io/kubernetes \(v[0-9.]*\)$|\1|p' "$HERE/go.mod")
SOURCES=$(cd "$HERE" && cat build.sh go.mod go.sum programs.go | sha256sum | cut -c1-12)
DIRECTORY=$CACHE/$VERSION-$SOURCES

# From 1.21 on Go fetches the newer one that go.mod asks for, unless it was told not to; and then it says so itself.
check_go() {
    local minor
    command -v go >/dev/null || stop "Go is missing; put Go 1.21 or newer on PATH (https://go.dev/dl, or a distribution's)"
    minor=$(cd / && go env GOVERSION | sed -E 's/^go1\.([0-9]+).*/\1/')
    [ "$minor" -ge 21 ] || stop "$(go version) is too old; put Go 1.21 or newer on PATH (https://go.dev/dl)"
    (cd "$HERE" && go version >/dev/null) || stop "this Go is older than $HERE/go.mod asks for, and may not fetch another"
}

# -s leaves out what only a debugger reads; a crash still tells its lines. cgo stays as upstream's own kubelet has it.
build() {
    local half package name version how
    half=$(mktemp -d "$CACHE/.building-XXXXXX")
    # shellcheck disable=SC2064  # the directory is meant as it is now
    trap "rm -rf '$half'" EXIT
    version=k8s.io/component-base/version
    for package in "${PROGRAMS[@]}"; do
        name=${package##*/} how=(build)
        case $name in
            v3) name=etcd ;;
            e2e) name=e2e.test how=(test -vet=off -c) ;;
        esac
        say "$name"
        (
            cd "$HERE"
            GOFLAGS='-buildvcs=false -mod=readonly' nice go "${how[@]}" -trimpath -o "$half/$name" -ldflags "-s \
                -X $version.gitVersion=$VERSION -X $version.gitMajor=1 -X $version.gitMinor=$(cut -d. -f2 <<<"$VERSION")" \
                "$package"
        ) || stop "go could not build $name; a machine without a module proxy needs $DIRECTORY copied from another"
    done
    if [ "$KIND" = conformance ]; then # agnhost's image has them, and serves by them
        cp "$(cd "$HERE" && go list -m -f '{{.Dir}}' k8s.io/kubernetes)"/test/images/agnhost/porter/localhost.* "$half"
    fi
    chmod 755 "$half" # mktemp makes it private
    mv "$half" "$DIRECTORY"
    trap - EXIT
}

case ${1-} in
    --where) echo "$DIRECTORY" ;;
    --check) [ -d "$DIRECTORY" ] || check_go ;;
    "")
        mkdir -p "$CACHE"
        exec 9>"$CACHE/.lock"
        flock 9 # two builds at once: the second waits, then finds everything done
        if [ ! -d "$DIRECTORY" ]; then
            check_go
            say "building $VERSION of $WHAT"
            build
        fi
        echo "$DIRECTORY"
        ;;
    *) stop "unknown word $1 (none, --where or --check)" ;;
esac
