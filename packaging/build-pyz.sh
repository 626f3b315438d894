#!/usr/bin/env bash
# Builds the whole agent in one file, a zip of its packages behind a `#!/usr/bin/env python3` line:
#
#   build-pyz.sh [FILE [ARCHITECTURE]]      default: dist/trikubelet, for this machine's; else x86_64 or aarch64
#
# The compiled parts make it a file for one architecture, for glibc 2.28 or newer, and for the Python minor versions
# named in TRIKUBELET_PYTHONS (default: all that are known). It unpacks itself once per build; see first_step.py.
# Building the same commit twice gives the same bytes. Beside it FILE.cdx.json lists what is in it.

set -euo pipefail
cd "$(dirname "$0")/.."

file=${1:-dist/trikubelet}
architecture=${2:-$(uname -m)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}

install() { # WORDS FOR PIP...: into a directory, for the machine it is built for
    python -m pip --disable-pip-version-check --quiet install --no-deps --no-compile --only-binary :all: \
        --platform "manylinux_2_28_$architecture" --platform "manylinux_2_17_$architecture" \
        --platform "manylinux2014_$architecture" "$@"
}

packaging/build-wheel.sh "$architecture" "$work/wheels"
install --target "$work/site" "$work"/wheels/*.whl
for version in ${TRIKUBELET_PYTHONS:-3.11 3.12 3.13 3.14}; do
    # Pure files are the same for every version; compiled ones carry the version in their name, so the sites merge.
    install --target "$work/one" --python-version "$version" --require-hashes -r requirements/runtime.txt
    cp -rT "$work/one" "$work/site"
    rm -rf "$work/one"
done
mkdir -p "$(dirname "$file")"
python packaging/list_parts.py "$work/site" >"$file.cdx.json"
# What pip notes about where a package came from names this build, and nothing reads it.
rm -rf "$work/site/bin" "$work"/site/*.dist-info/{RECORD,direct_url.json,REQUESTED,INSTALLER,sboms}
shiv --site-packages "$work/site" --entry-point trikubelet.cli.main:program --python '/usr/bin/env python3' \
    --reproducible --compressed --output-file "$file"
python packaging/replace_entry.py "$file" __main__.py packaging/first_step.py
printf '%s: %s bytes, for %s\n' "$file" "$(stat -c %s "$file")" "$architecture"
