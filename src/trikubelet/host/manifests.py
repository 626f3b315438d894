"""Manifest files on the real disk: names, stamps and contents (``sources.file.ManifestFiles``).

Every call works in a thread, because a manifest directory may be on a file system that hangs. The caller sets the
deadline; after a cancelled call the path is rejected until its thread ends (``kit.threads``).
"""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from typing import TYPE_CHECKING

from trikubelet.kit.plain_file import open_plain
from trikubelet.model.manifest_places import Entry, EntryKind, Listing, Stamp

if TYPE_CHECKING:
    from trikubelet.kit.threads import ThreadPool

NAMES_MAX = 10_000
"""A node runs a few hundred pods; a directory with more names than this is not for manifests."""


class DiskManifests:
    """A directory of manifests, or a single file; which of the two is checked each time."""

    def __init__(self, path: str, bytes_max: int, threads: ThreadPool) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._threads = threads

    async def listing(self) -> Listing:
        """Return every name in the directory in order, or the one file. Raises OSError; FileNotFoundError for
        neither."""
        return await self._threads.run(partial(_listing, self._path), key=f"list {self._path}")

    async def read(self, path: str) -> bytes:
        """Return a file's content. Raises OSError; EFBIG for a file beyond the limit, EINVAL if it is not a file,
        EAGAIN for one without data for now."""
        return await self._threads.run(partial(_read, path, self._bytes_max), key=f"read {path}")


def _listing(path: str) -> Listing:
    found = os.stat(path)
    if not stat.S_ISDIR(found.st_mode):
        return Listing((_entry(path, path),), (found.st_dev, found.st_ino))
    # All of it concerns one directory, the opened one: another may take its place at any moment.
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(directory)
        return Listing(_entries(path, directory), (found.st_dev, found.st_ino))
    finally:
        os.close(directory)


def _entries(path: str, directory: int) -> tuple[Entry, ...]:
    names = os.listdir(directory)
    if len(names) > NAMES_MAX:
        raise OSError(errno.E2BIG, f"more than {NAMES_MAX} names (is it the manifest directory?)")
    entries = []
    for name in sorted(names):
        entry = _entry(os.path.join(path, name), name, directory)
        if entry.kind is not EntryKind.LOST or _is_link(name, directory):
            entries.append(entry)  # otherwise it was removed between the two calls
    return tuple(entries)


def _is_link(name: str, directory: int) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=directory).st_mode)
    except OSError:
        return False


def _entry(path: str, name: str, directory: int | None = None) -> Entry:
    """Return the entry at the path, which is the ``name`` in the opened directory."""
    try:
        found = os.stat(name, dir_fd=directory)
    except (FileNotFoundError, NotADirectoryError):
        return Entry(path, EntryKind.LOST)
    except OSError as error:
        # Or a file whose reading will report the error: the problem of one name.
        return Entry(path, EntryKind.CIRCLE if error.errno == errno.ELOOP else EntryKind.FILE)
    changed_ns = max(found.st_mtime_ns, found.st_ctime_ns)
    stamp = Stamp(changed_ns, found.st_size, found.st_ino, found.st_dev)
    if stat.S_ISREG(found.st_mode):
        return Entry(path, EntryKind.FILE, stamp)
    return Entry(path, EntryKind.DIRECTORY if stat.S_ISDIR(found.st_mode) else EntryKind.OTHER, stamp)


def _read(path: str, bytes_max: int) -> bytes:
    with open_plain(path) as file:
        octets = file.read(bytes_max + 1)
    if len(octets) > bytes_max:
        raise OSError(errno.EFBIG, f"larger than {bytes_max} bytes (is it a manifest?)")
    return octets
