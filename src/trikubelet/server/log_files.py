"""The files of a container's log: the one being written and the rotated ones.

    0.log                       being written
    0.log.20261121-070102       rotated; the newest of these is not compressed
    0.log.20261120-190233.gz    older, compressed

Rotation (``node.log_rotation``; ``core.log_rotation`` explains the names) renames the file and lets the runtime open a
new one of the old name. A reader that follows notices that the name belongs to another file now, and asks this module
which files came after its own. A rotated file may be compressed between listing and opening: it is the same part.
``log_reader`` reads the files found here.

Every call here may hang with the log's file system, so all of them are made in threads (``steps_of``).
"""

from __future__ import annotations

import logging
import os
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, Final

from trikubelet.core.log_rotation import PACKED, is_finished, stem
from trikubelet.kit.disk_steps import DiskSteps
from trikubelet.kit.plain_file import open_plain
from trikubelet.server.packed_log import PackedLog

if TYPE_CHECKING:
    from collections.abc import Collection

    from trikubelet.kit.thread_shares import ThreadShares

log = logging.getLogger(__name__)

LogFile = BinaryIO | PackedLog
NAMES_MAX: Final = 10_000
"""Number of names that are read in a log's directory. The logs of a container's attempts, with their parts, are a few
dozen."""


def steps_of(path: str, threads: ThreadShares) -> DiskSteps:
    """Return the disk steps of one reader of the log at ``path``, in the threads for the logs of its pod, which share a
    directory."""
    return DiskSteps(threads, os.path.dirname(os.path.dirname(path)))


def rotated(path: str) -> tuple[str, ...]:
    """Return the rotated parts of the log at ``path``, oldest first. A part that is being compressed, and is listed
    twice for a moment, counts once; a directory that cannot be read has none. If the directory has more than
    ``NAMES_MAX`` names, only the parts among the first of them are returned, and that is logged."""
    directory, name = os.path.split(path)
    start = f"{name}."
    try:
        with os.scandir(directory) as entries:
            some = (entry.name for entry in islice(entries, NAMES_MAX))
            names = sorted(one for one in some if one.startswith(start) and is_finished(one.removeprefix(start)))
            if next(entries, None) is not None:
                log.warning("%s has more than %d names; of %s some parts may not be shown", directory, NAMES_MAX, name)
    except OSError:
        return ()
    parts: dict[str, str] = {}
    for found in names:
        # Sorted: the uncompressed file comes before its compressed copy, and only it is certainly whole.
        parts.setdefault(stem(found), os.path.join(directory, found))
    return tuple(parts[key] for key in sorted(parts))


def after(path: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the rotated parts that came after those in ``known`` (named as by ``stem``), oldest first."""
    return tuple(part for part in rotated(path) if stem(part) not in known)


def open_log(path: str) -> LogFile:
    """Open the file. If a plain one is gone, its compressed copy is opened and unpacked while it is read. Never blocks,
    whatever kind of file it is. Raises OSError, also if it is not a regular file."""
    if not path.endswith(PACKED):
        try:
            return open_plain(path)
        except FileNotFoundError:
            path += PACKED
    return PackedLog(open_plain(path))


def is_still(path: str, file: LogFile) -> bool:
    """True if ``path`` still names the open file. A missing name counts as unchanged: rotation renames first, and the
    runtime opens the new file a little later."""
    try:
        named = os.stat(path)
    except OSError:
        return True
    own = os.fstat(file.fileno())
    return (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)


def last_write_ns(path: str) -> int:
    """Return the time at which the file was last written, before any compression, in nanoseconds since the epoch; 0 if
    it is gone."""
    for name in (path, f"{stem(path)}{PACKED}"):
        try:
            return os.stat(name).st_mtime_ns
        except OSError:
            continue
    return 0
