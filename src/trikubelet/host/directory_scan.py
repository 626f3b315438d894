"""Reads directories that containers or other untrusted programs write to.

A directory may have more names than fit in memory, and more may be added while it is read. So no list of them is made:
each name is handled as it is read. Scans are bounded: a scan ends after ``NAMES_MAX`` names, and a removal makes a
limited number of scans over a limited number of names in total.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAMES_MAX: Final = 1_000_000
"""Names read in one scan, which takes a thread a second or two. A node's pods leave a few thousand."""
SCANS_MAX: Final = 1_000
"""Scans of a directory in one removal: a few milliseconds, if it is empty."""
FULL_SCANS_MAX: Final = 5
"""This many times ``NAMES_MAX`` names are read in all these scans together: ten seconds of a thread at most."""
DIRECTORIES_MAX: Final = 20_000
"""Directories returned by one call, far more than a node has pods. The caller removes those that are not needed, and
gets others the next time."""


def entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a directory, at most ``NAMES_MAX``, read as they are taken; none if it does not exist.
    Raises OSError if it cannot be read."""
    try:
        with os.scandir(directory) as found:
            yield from islice(found, NAMES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return


def directories(directory: Path) -> frozenset[str]:
    """Return the names of directories in one, at most ``DIRECTORIES_MAX``; none if it does not exist. Raises OSError if
    it cannot be read."""
    found = (entry.name for entry in entries(directory) if entry.is_dir(follow_symlinks=False))
    return frozenset(islice(found, DIRECTORIES_MAX))


def remove_entries(directory: Path, should_go: Callable[[os.DirEntry[str]], bool]) -> None:
    """Remove the files and links in a directory for which ``should_go`` returns true. Does nothing if it does not
    exist. Raises OSError: unlinking's errors, EFBIG if there were too many names to read, and EBUSY if more keep
    coming, or more are left than one call handles: then another call helps."""
    # The effect of a removal on a scan in progress depends on the file system, which may leave out entries that stay.
    # So the directory is scanned until there was nothing to remove; the removed names then made room for others, too.
    left = FULL_SCANS_MAX * NAMES_MAX
    for _ in range(SCANS_MAX):
        seen, has_removed = 0, False
        for entry in entries(directory):
            seen += 1
            if should_go(entry):
                has_removed = True
                with suppress(FileNotFoundError):  # another process removed it, as intended
                    os.unlink(entry.path)
        if not has_removed:
            if seen == NAMES_MAX:
                raise OSError(errno.EFBIG, f"only {NAMES_MAX} of the names in it were read", str(directory))
            return
        left -= seen
        if left <= 0:  # adding one name during each scan of very many would have them all read again
            break
    raise OSError(errno.EBUSY, "new files keep appearing in it (stop the process that writes there)", str(directory))
