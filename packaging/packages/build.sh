#!/usr/bin/env bash
# Builds all that is given to operators into dist/release, for the architectures named in ARCHITECTURES (default: this
# machine's; x86_64 and aarch64 are known):
#
#   trikubelet-VERSION-ARCHITECTURE    the single file          *.cdx.json    what each is made of
#   *.whl                              for pip                  SHA256SUMS    of all of them
#   *.deb, *.rpm                       the packages, by nfpm, whose version and whole making go.mod and go.sum pin
#
#   build.sh            all of it
#   build.sh --wheels   the wheels alone
#
# REPORTS=v1.36.3 has the agent of these packages report that release of Kubernetes, in place of the one it follows.
#
# Building the same commit twice gives the same bytes. Called by `make packages` and `make wheels`, with the virtual
# environment's Python first on PATH.

set -euo pipefail
cd "$(dirname "$0")/../.."

OUT=dist/release
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/trikubelet/nfpm-$(cat packaging/packages/go.{mod,sum} | sha256sum | cut -c1-12)
declare -A NAMES=([x86_64]=amd64 [aarch64]=arm64) # as Go, and nfpm with it, calls them

stop() {
    printf 'packages: cannot go on: %s\n' "$*" >&2
    exit 1
}

said_by_us() { PYTHONPATH=src python -B -m trikubelet "$@"; }

# The release of Kubernetes that an agent of these packages reports, until it knows its API server's.
reported_release() {
    PYTHONPATH=src python -B -c 'import sys; from pathlib import Path; from trikubelet.app import release
print(release.reported_version(release.chosen_release(Path(sys.argv[1]))).partition("+")[0].removeprefix("v"))
' "$FILES/kubernetes-version"
}

build_nfpm() {
    [ ! -x "$CACHE" ] || return 0
    command -v go >/dev/null || stop "Go is missing; put Go 1.21 or newer on PATH (https://go.dev/dl)"
    mkdir -p "$(dirname "$CACHE")"
    (cd packaging/packages && go build -trimpath -o "$CACHE.new" github.com/goreleaser/nfpm/v2/cmd/nfpm) ||
        stop "go could not build nfpm"
    mv "$CACHE.new" "$CACHE"
}

# What the packages hold besides what lies in this directory.
make_files() {
    said_by_us man | gzip -9n >"$FILES/trikubelet.8.gz"
    for shell in bash zsh fish; do
        said_by_us completion "$shell" >"$FILES/trikubelet.$shell"
    done
}

make_package() { # WHICH, KIND
    "$CACHE" package --config "packaging/packages/$1.yaml" --packager "$2" --target "$OUT" >/dev/null
}

rm -rf "$OUT" && mkdir -p "$OUT"
for architecture in ${ARCHITECTURES:=$(uname -m)}; do
    [ "${NAMES[$architecture]-}" ] || stop "nothing is known of the architecture $architecture"
    packaging/build-wheel.sh "$architecture" "$OUT"
done
[ "${1-}" != --wheels ] || exit 0

FILES=$(mktemp -d)
trap 'rm -rf "$FILES"' EXIT
VERSION=$(said_by_us --version | cut -d' ' -f2)
cp packaging/packages/kubernetes-version "$FILES"
[ -z "${REPORTS-}" ] || echo "$REPORTS" >>"$FILES/kubernetes-version"
KUBELET=$(reported_release) || stop "no agent would report REPORTS=${REPORTS-}"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
export FILES VERSION KUBELET SOURCE_DATE_EPOCH

build_nfpm
make_files
for architecture in $ARCHITECTURES; do
    single=$OUT/trikubelet-$VERSION-$architecture
    packaging/build-pyz.sh "$single" "$architecture"
    cp "$single" "$FILES/trikubelet"
    for kind in deb rpm; do
        ARCHITECTURE=${NAMES[$architecture]} make_package trikubelet "$kind"
    done
done
for kind in deb rpm; do
    make_package kubelet "$kind"
done
(cd "$OUT" && rm -f SHA256SUMS && sha256sum -- * >.SHA256SUMS && mv .SHA256SUMS SHA256SUMS)
ls -l "$OUT"
