"""Records which contents ``apply`` wrote into a directory of manifests: a hidden file of hashes next to them.

It is kept there and not by the agent because ``--to`` needs no agent. Where it is absent or damaged, every manifest
counts as written by hand, and hand-written files are kept longest.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.kept_copies import COPIES_MAX, copies_in
from trikubelet.kit.plain_file import read_plain

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

RECORD_NAME: Final = ".trikubelet-applied.json"
RECORD_BYTES_MAX: Final = 16 * 1024 * 1024
HASHES_MAX: Final = COPIES_MAX + 3
"""Contents remembered for one manifest: the present one, the kept ones, and a few from earlier."""


class AppliedRecord(msgspec.Struct, frozen=True):
    """Owns the contents that ``apply`` wrote: SHA-256 hashes by the name of the manifest, the newest last."""

    files: dict[str, tuple[str, ...]] = {}

    def wrote(self, name: str, content: bytes) -> bool:
        """True if ``apply`` wrote this content under this name."""
        return _hash(content) in self.files.get(name, ())

    def with_applied(self, written: Mapping[str, bytes], names: Collection[str]) -> AppliedRecord:
        """Return the record after these were written. ``names``: all names in the directory; manifests without a file
        or copy are forgotten."""
        alive = {*names, *(copy.manifest for copy in copies_in(names)), *written}
        files = {name: hashes for name, hashes in self.files.items() if name in alive}
        for name, content in written.items():
            new = _hash(content)
            known = [one for one in files.get(name, ()) if one != new]
            files[name] = (*known, new)[-HASHES_MAX:]
        return AppliedRecord(files)

    def encoded(self) -> bytes:
        """Return the content of the record's file."""
        return msgspec.json.encode(self)


def read_record(directory: Path) -> AppliedRecord:
    """Return the record of a directory; an empty one if it cannot be read."""
    try:
        return msgspec.json.decode(read_plain(directory / RECORD_NAME, RECORD_BYTES_MAX), type=AppliedRecord)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return AppliedRecord()


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
