"""The files a container's log is kept in: the one being written and those that were rotated away.

    0.log                       being written
    0.log.20261121-070102       rotated away; the newest of these is kept plain
    0.log.20261120-190233.gz    older, compressed

Rotation renames the file and lets the runtime open a new one of the old name. A reader that follows notices that the
name stands for another file now, and asks here which files came after its own. ``log_reader`` reads what is found here.
"""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Collection

_ROTATED = re.compile(r"\.\d{8}-\d{6}(\.gz)?$")


def rotated(path: str) -> tuple[str, ...]:
    """The rotated parts of the log at ``path``, oldest first. A part that is being compressed, and stands there twice
    for a moment, counts once; a directory that cannot be read has none."""
    directory, name = os.path.split(path)
    try:
        names = os.listdir(directory)
    except OSError:
        return ()
    parts: dict[str, str] = {}
    for found in sorted(names):
        if found.startswith(name) and _ROTATED.fullmatch(found[len(name) :]):
            # Sorted: the plain file comes before its compressed copy, and is the one known to be whole.
            parts.setdefault(stem(found), os.path.join(directory, found))
    return tuple(parts[key] for key in sorted(parts))


def stem(path: str) -> str:
    """What a rotated part is called whether or not it is compressed."""
    return path.removesuffix(".gz")


def after(path: str, known: Collection[str]) -> tuple[str, ...]:
    """The rotated parts that came after those in ``known`` (as ``stem`` names them), oldest first."""
    return tuple(part for part in rotated(path) if stem(part) not in known)


def open_log(path: str) -> IO[bytes]:
    """The file, uncompressed. Raises OSError."""
    if path.endswith(".gz"):
        return cast("IO[bytes]", gzip.open(path, "rb"))  # the stubs have GzipFile beside IO, not under it
    return Path(path).open("rb")


def is_still(path: str, file: IO[bytes]) -> bool:
    """Whether ``path`` still names the open file. A name that is gone for the moment counts as still the same: rotation
    renames first and the runtime opens the new file a little later."""
    try:
        named = os.stat(path)
    except OSError:
        return True
    own = os.fstat(file.fileno())
    return (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)


def last_write_ns(path: str) -> int:
    """When the file was last written, in nanoseconds since the epoch; 0 when it is gone."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
