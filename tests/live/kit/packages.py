"""What `make packages` built, for tests that install it; and the same as a later version, for those that upgrade.

A later version differs in its version alone: the one file in which it stands, and the number by which it is unpacked
beside earlier ones.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from trikubelet import __version__

from . import places

TOP = places.LIVE.parent.parent
RELEASE = TOP / "dist/release"
LATER = "99.0.0"
_DEBS = {"x86_64": "amd64", "aarch64": "arm64"}
_REPLACE_ENTRY = TOP / "packaging/replace_entry.py"


def built(pattern: str) -> Path:
    """The one artefact whose name fits, for this machine. Raises NotInstalled."""
    found = sorted(RELEASE.glob(pattern))
    if len(found) != 1:
        raise places.NotInstalled(f"{RELEASE / pattern} is there {len(found)} times; run make packages")
    return found[0]


def package(name: str, kind: str) -> Path:
    """The deb or rpm of that name. Raises NotInstalled."""
    machine = os.uname().machine
    alone = name == "trikubelet"
    if kind == "deb":
        return built(f"{name}_*_{_DEBS[machine] if alone else 'all'}.deb")
    return built(f"{name}-[0-9]*.{machine if alone else 'noarch'}.rpm")


def single_file() -> Path:
    """The agent in one file. Raises NotInstalled."""
    return built(f"trikubelet-{__version__}-{os.uname().machine}")


def make_later(single: Path) -> None:
    """Make the single file there another version of itself."""
    with ZipFile(single) as archive:
        environment = json.loads(archive.read("environment.json"))
        text = archive.read("site-packages/trikubelet/__init__.py").decode()
    later = text.replace(f'"{__version__}"', f'"{LATER}"')
    assert later != text
    _replace(single, "site-packages/trikubelet/__init__.py", later)
    _replace(single, "environment.json", json.dumps(environment | {"build_id": f"{environment['build_id']}-later"}))


def make_later_package(package: Path, directory: Path) -> Path:
    """The same deb as a later version, in a directory that is there."""
    tree = directory / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    if (single := tree / "usr/bin/trikubelet").is_file():
        make_later(single)
    control = tree / "DEBIAN/control"
    control.write_text(control.read_text().replace(f"Version: {__version__}", f"Version: {LATER}"))
    later = directory / "later.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, later], check=True, capture_output=True
    )
    shutil.rmtree(tree)
    return later


def _replace(archive: Path, name: str, text: str) -> None:
    beside = archive.with_name("entry.new")
    beside.write_text(text)
    subprocess.run([sys.executable, _REPLACE_ENTRY, archive, name, beside], check=True)
    beside.unlink()
