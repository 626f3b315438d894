#!/usr/bin/env bash
# Builds the wheel for an architecture into a directory: build-wheel.sh x86_64|aarch64 DIRECTORY
#
# Zig links it, against the oldest glibc that Rust knows and for either architecture, whatever machine this is. The same
# commit gives the same bytes: no path of this machine, no time and no number drawn at random is in them.

set -euo pipefail
cd "$(dirname "$0")/.."

target=$1-unknown-linux-gnu
directory=$2

if ! rustc --target "$target" --print target-libdir | xargs test -d; then
    echo "build-wheel: Rust's library for $target is missing; rustup target add $target" >&2
    exit 1
fi
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
export RUSTFLAGS="--remap-path-prefix=$PWD=/trikubelet --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
maturin build --release --locked --quiet --zig --target "$target" --compatibility manylinux2014 --out "$directory"
python packaging/forget_checkout.py "$directory"/*"$1".whl "$PWD"
