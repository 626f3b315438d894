"""The files a container's log is kept in: the one being written and those that were rotated away.

    0.log                       being written
    0.log.20261121-070102       rotated away; the newest of these is kept plain
    0.log.20261120-190233.gz    older, compressed

Rotation (``node.log_rotation``; the names are explained in ``core.log_rotation``) renames the file and lets the runtime
open a new one of the old name. A reader that follows notices that the name stands for another file now, and asks here
which files came after its own. A part may be compressed between the moment it is found and the moment it is opened: it
is the same part. ``log_reader`` reads what is found here.

Everything here may hang with the file system that the log is on, so all of it is called in threads (``steps_of``).
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
"""That are looked at in a log's directory. The logs of a container's attempts, with their parts, are some dozens."""


def steps_of(path: str, threads: ThreadShares) -> DiskSteps:
    """One reader's steps in the log at ``path``, by the threads for the logs of its pod: they have one directory."""
    return DiskSteps(threads, os.path.dirname(os.path.dirname(path)))


def rotated(path: str) -> tuple[str, ...]:
    """The rotated parts of the log at ``path``, oldest first. A part that is being compressed, and stands there twice
    for a moment, counts once; a directory that cannot be read has none. Where somebody has put more than ``NAMES_MAX``
    names into it, the parts among the first of them are all there are, and that is logged."""
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
        # Sorted: the plain file comes before its compressed copy, and is the one known to be whole.
        parts.setdefault(stem(found), os.path.join(directory, found))
    return tuple(parts[key] for key in sorted(parts))


def after(path: str, known: Collection[str]) -> tuple[str, ...]:
    """The rotated parts that came after those in ``known`` (as ``stem`` names them), oldest first."""
    return tuple(part for part in rotated(path) if stem(part) not in known)


def open_log(path: str) -> LogFile:
    """The file; a plain one that is gone may stand there compressed, and is unpacked as it is read. Never waits,
    whatever was put in its place. Raises OSError, also for what is no plain file."""
    if not path.endswith(PACKED):
        try:
            return open_plain(path)
        except FileNotFoundError:
            path += PACKED
    return PackedLog(open_plain(path))


def is_still(path: str, file: LogFile) -> bool:
    """Whether ``path`` still names the open file. A name that is gone for the moment counts as still the same: rotation
    renames first and the runtime opens the new file a little later."""
    try:
        named = os.stat(path)
    except OSError:
        return True
    own = os.fstat(file.fileno())
    return (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)


def last_write_ns(path: str) -> int:
    """When the file was last written, in nanoseconds since the epoch, compressed since or not; 0 when it is gone."""
    for name in (path, f"{stem(path)}{PACKED}"):
        try:
            return os.stat(name).st_mtime_ns
        except OSError:
            continue
    return 0
