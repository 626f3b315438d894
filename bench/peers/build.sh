#!/bin/sh
# Builds the Go peer (bench/peers/go) and prints where the program lies; or prints "no-go", and ends well, where there is
# no Go: a benchmark without upstream beside it is still one. The first build takes minutes and some gigabytes of
# Go's own build cache. The program is kept out of the repository, by the version of Kubernetes and of our sources.
set -eu
if ! command -v go >/dev/null; then
    echo no-go
    exit 0
fi
here=$(cd "$(dirname "$0")/go" && pwd)
version=$(sed -n 's|.*k8s.io/kubernetes \(v[0-9.]*\)$|\1|p' "$here/go.mod")
sources=$(cat "$here"/*.go "$here"/go.mod "$here"/go.sum | sha256sum | cut -c1-12)
program=${XDG_CACHE_HOME:-$HOME/.cache}/trikubelet/peers/$version/pleg-$sources
if [ ! -x "$program" ]; then
    mkdir -p "$(dirname "$program")"
    (cd "$here" && nice go build -mod=readonly -p 2 -trimpath -o "$program.new" . >&2)
    rm -f "${program%-*}"-????????????  # what older sources made
    mv "$program.new" "$program"
fi
echo "$program"
