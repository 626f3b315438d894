"""The kept versions of manifests that ``rollback`` reads, and the choice of the version before."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from trikubelet.cli.manifest_directory import names_in
from trikubelet.cli.validate import load
from trikubelet.core.kept_copies import copies_in
from trikubelet.kit.plain_file import read_plain
from trikubelet.model.bounds import Bounds
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trikubelet.cli.manifest_directory import ManifestDirectory
    from trikubelet.core.manifest import Loaded


class KeptCopy(msgspec.Struct, frozen=True):
    """A kept version without a fault: its file, the name of the manifest it is a version of, its number, when it was
    kept, and its content."""

    path: Path
    manifest: str
    number: int
    kept_ns: int
    loaded: Loaded


def kept_copies(directory: ManifestDirectory, node: str) -> list[KeptCopy]:
    """Return the kept versions without a fault. Raises OSError."""
    found = []
    for copy in copies_in(directory.names):
        path = directory.path / copy.name
        loaded = load(str(path), node) if path.is_file() else None
        if loaded is not None and not isinstance(loaded, Fault) and not loaded.faults:
            found.append(KeptCopy(path, copy.manifest, copy.number, path.lstat().st_ctime_ns, loaded))
    return found


def version_before(directory: ManifestDirectory, copies: Sequence[KeptCopy], name: str) -> KeptCopy | None:
    """Return the newest kept version that defines a pod and differs from the file that defines it now."""
    holder = directory.holder(name)
    found = [copy for copy in copies if name in names_in(copy.loaded)]
    if holder is None:
        return max(found, key=lambda copy: (copy.kept_ns, copy.number), default=None)
    found = [copy for copy in found if copy.manifest == holder.name and not _same(holder, copy.path)]
    return max(found, key=lambda copy: copy.number, default=None)


def _same(one: Path, other: Path) -> bool:
    """True if both files have the same content. A file that cannot be read differs from every other."""
    bytes_max = Bounds().manifest_bytes_max
    try:
        return os.path.samefile(one, other) or read_plain(one, bytes_max) == read_plain(other, bytes_max)
    except OSError:
        return False
