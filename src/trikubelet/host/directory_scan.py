"""What is in a directory whose names containers decide about, or whoever may write there.

There may be more names than fit in memory, and as many more may come while they are read. So nothing here holds them
all: each is looked at as it is read. And nothing goes on for ever: a scan ends after ``NAMES_MAX`` names, and who
removes scans a limited number of times, and looks at a limited number of names in all of them.
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
"""Names that are looked at in one scan, which takes a thread a second or two. A node's pods leave some thousands."""
SCANS_MAX: Final = 1_000
"""How often a directory is scanned by who removes from it, before it is given up: some milliseconds, if it is empty."""
FULL_SCANS_MAX: Final = 5
"""So many times ``NAMES_MAX`` names are looked at in all these scans together: ten seconds of a thread at most."""
DIRECTORIES_MAX: Final = 20_000
"""So many directories are named at once, far more than a node has pods. Whoever asks removes what nobody needs, and
finds others the next time."""


def entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    """What is in a directory, at most ``NAMES_MAX``, read as it is taken; nothing when it is not there. Raises OSError
    when it cannot be read."""
    try:
        with os.scandir(directory) as found:
            yield from islice(found, NAMES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return


def directories(directory: Path) -> frozenset[str]:
    """The names of directories in one, at most ``DIRECTORIES_MAX``; none when it is not there. Raises OSError when it
    cannot be read."""
    found = (entry.name for entry in entries(directory) if entry.is_dir(follow_symlinks=False))
    return frozenset(islice(found, DIRECTORIES_MAX))


def remove_entries(directory: Path, should_go: Callable[[os.DirEntry[str]], bool]) -> None:
    """Remove the files and links in a directory that ``should_go`` says of. Nothing is done when it is not there.
    Raises OSError: what unlinking does, EFBIG where so many names were there that some were not looked at, and EBUSY
    where always more come, or more are left than is done at once: then it is worth another call."""
    # What a removal does to a scan that is under way is up to the file system, it may leave out entries that stay. So
    # the directory is scanned until there was nothing to remove; what went then made room for the next names, too.
    left = FULL_SCANS_MAX * NAMES_MAX
    for _ in range(SCANS_MAX):
        seen, has_removed = 0, False
        for entry in entries(directory):
            seen += 1
            if should_go(entry):
                has_removed = True
                with suppress(FileNotFoundError):  # somebody else removed it, and it was to go anyway
                    os.unlink(entry.path)
        if not has_removed:
            if seen == NAMES_MAX:
                raise OSError(errno.EFBIG, f"only {NAMES_MAX} of the names in it were looked at", str(directory))
            return
        left -= seen
        if left <= 0:  # whoever adds one name with each scan of very many has them all looked at again
            break
    raise OSError(errno.EBUSY, "there is always more to remove, as if somebody still wrote there", str(directory))
