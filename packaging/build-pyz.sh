#!/usr/bin/env bash
# Builds dist/trikubelet, the whole agent in one file: a zip of its packages behind a `#!/usr/bin/env python3` line.
#
# The compiled parts make it a file for this machine's architecture, for glibc, and for the Python minor versions
# named in TRIKUBELET_PYTHONS (default: the one that builds it). It unpacks itself once per build into SHIV_ROOT
# (default ~/.shiv). Building the same commit twice gives the same bytes.

set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

maturin build --release --locked --quiet --out "$work/wheels"
python -m pip --disable-pip-version-check --quiet install --no-deps --no-compile --target "$work/site" "$work"/wheels/*.whl
for version in ${TRIKUBELET_PYTHONS:-$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')}; do
    # Pure files are the same for every version; compiled ones carry the version in their name, so the sites merge.
    python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps --no-compile --upgrade \
        --only-binary :all: --python-version "$version" --target "$work/one" -r requirements/runtime.txt
    cp -rT "$work/one" "$work/site"
    rm -rf "$work/one"
done
# What pip notes about where a package came from names this build, and nothing reads it.
rm -rf "$work/site/bin" "$work"/site/*.dist-info/{RECORD,direct_url.json,REQUESTED,INSTALLER,sboms}
mkdir -p dist
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
shiv --site-packages "$work/site" --entry-point trikubelet.app.cli:main --python '/usr/bin/env python3' \
    --reproducible --compressed --output-file dist/trikubelet
printf 'dist/trikubelet: %s bytes, for %s\n' "$(stat -c %s dist/trikubelet)" "$(uname -m)"
