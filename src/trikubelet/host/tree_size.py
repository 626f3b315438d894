"""The disk usage of a directory tree that containers may write to.

A container may put ten million files into one directory, and nest directories without end. So nothing is kept of an
entry once it is counted: a directory is read as it is walked, and a file with several names counts with its share at
each of them, which adds up without a list of those seen.

Every open level holds two descriptors, so only OPEN_LEVELS_MAX are open at once. The directories below these are queued
by their path from the beginning of that part of the tree, whose descriptor is held until they are done:

    top ─ … 16 levels … ─ queued: each is the beginning of a part of its own ─ … 16 levels … ─ queued

So a directory costs no more than OPEN_LEVELS_MAX opens, however deep it is. No link is followed, even one swapped in
meanwhile. A tree that is too large to count, or whose directories are moved to where they are counted again, is counted
up to STEPS_MAX. Until then the caller receives the count so far at regular steps.

Mounts in a tree are not part of it. A btrfs subvolume is; every user may create one, also in a container. It has a
device of its own, like a mount, but is on the tree's mount. The mount is queried only if the device differs from the
last one of the tree, because that takes as long as a few entries do.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.host.mounts import mount_of

if TYPE_CHECKING:
    from collections.abc import Callable

OPEN_LEVELS_MAX: Final = 16
WAITING_CHARACTERS_MAX: Final = 1 << 22
"""Characters of all queued paths together."""
PATH_CHARACTERS_MAX: Final = 4096
"""The kernel's own limit of a path; deeper nesting is only possible on purpose. It bounds the descriptors, too: a part
of a tree takes up 32 characters of it at least, so that 128 are held at most."""
STEPS_MAX: Final = 3_000_000
"""Entries and opens of one tree: about ten seconds if the kernel has them in its cache. It is not a time, because then
the result would depend on the load of the node."""
SLICE_STEPS: Final = 5_000
"""Steps between two reports of the count so far: a few hundredths of a second."""
BLOCK_BYTES: Final = 512
"""Unit of ``st_blocks``, whatever the file system's own blocks are (stat(2))."""
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def tree_size(path: str, counted: Callable[[int, int], None] | None = None) -> tuple[int, int]:
    """Return the bytes and inodes of a directory and everything below it on the same mount. A file of several names
    counts once if all of them are in the tree. Entries that are removed or unreadable do not count, nor do directories
    that are too deep, which hides only themselves. For a tree of more than STEPS_MAX steps it is a lower bound.
    ``counted``: called with bytes and inodes so far every SLICE_STEPS, in this thread, and may block it. Raises OSError
    if the directory itself cannot be opened. Blocks for as long as the tree is large: call it in a thread."""
    return _Tree(counted).count(os.open(path, _FLAGS))


class _Part(NamedTuple):
    """A part of a tree: the descriptor of the directory it begins with, the length of its path from the top, and the
    paths of the queued directories, from it."""

    directory: int
    characters: int
    waiting: list[str]


class _TooLarge(Exception):
    """The tree has too many entries; counting stops."""


class _Tree:
    """Holds the counts of one tree, and the parts whose queued directories are not done yet."""

    def __init__(self, counted: Callable[[int, int], None] | None) -> None:
        self._counted = counted
        self._device = -1  # the tree's, or of its last visited subvolume
        self._mount = ""
        self._blocks: Counter[int] = Counter()  # by the number of the file's names
        self._inodes: Counter[int] = Counter()
        self._parts: list[_Part] = []
        self._waiting_characters = 0
        self._steps = 0

    def count(self, top: int) -> tuple[int, int]:
        """Return bytes and inodes; ``top``: the descriptor of the tree, which is closed."""
        try:
            self._count(top)
        except _TooLarge:
            pass  # the count so far is the result
        finally:
            for part in self._parts:
                os.close(part.directory)
        return self._totals()

    def _totals(self) -> tuple[int, int]:
        blocks = sum(-(-total // names) for names, total in self._blocks.items())
        return blocks * BLOCK_BYTES, sum(-(-total // names) for names, total in self._inodes.items())

    def _count(self, top: int) -> None:
        self._parts.append(_Part(top, 0, []))
        self._device, self._mount = os.fstat(top).st_dev, mount_of(top)
        with suppress(OSError):
            self._add_below(top, "", OPEN_LEVELS_MAX)
        while self._parts:
            part = self._parts[-1]  # the deepest first, so that few are held
            if not part.waiting:
                os.close(self._parts.pop().directory)
                continue
            path = part.waiting.pop()
            self._waiting_characters -= len(path)
            with suppress(OSError):
                directory = self._open_below(part.directory, path)
                self._parts.append(_Part(directory, part.characters + len(path), []))
                self._add_below(directory, "", OPEN_LEVELS_MAX)

    def _open_below(self, start: int, path: str) -> int:
        """Return the directory of that path; one name at a time, because no link of them may be followed."""
        directory = os.dup(start)
        try:
            for name in filter(None, path.split("/")):
                below = self._open(name, directory)
                os.close(directory)
                directory = below
        except BaseException:
            os.close(directory)
            raise
        return directory

    def _open(self, name: str, directory: int) -> int:
        self._step()
        return os.open(name, _FLAGS, dir_fd=directory)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise _TooLarge
        if self._counted is not None and self._steps % SLICE_STEPS == 0:
            self._counted(*self._totals())

    def _add_below(self, directory: int, path: str, levels: int) -> None:
        """Add a directory and its content; ``directory``: its descriptor, ``path``: its own, from the part's
        beginning."""
        found = os.fstat(directory)
        if not self._is_part(directory, found):
            return
        self._add(1, found)
        with os.scandir(directory) as entries:
            for entry in entries:
                self._step()
                with suppress(OSError):  # it is gone, or was swapped for another file
                    one = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(one.st_mode):
                        if one.st_dev == found.st_dev:  # nothing is mounted over it
                            self._add(one.st_nlink, one)
                    elif levels > 1:
                        self._descend(directory, entry.name, path, levels)
                    else:
                        self._put_off(f"{path}/{entry.name}")

    def _is_part(self, directory: int, found: os.stat_result) -> bool:
        if found.st_dev == self._device:
            return True
        self._step()
        if mount_of(directory) != self._mount:
            return False
        self._device = found.st_dev
        return True

    def _descend(self, directory: int, name: str, path: str, levels: int) -> None:
        below = self._open(name, directory)
        try:
            self._add_below(below, f"{path}/{name}", levels - 1)
        finally:
            os.close(below)

    def _put_off(self, path: str) -> None:
        part, size = self._parts[-1], len(path)
        is_in_reach = part.characters + size <= PATH_CHARACTERS_MAX
        if is_in_reach and self._waiting_characters + size <= WAITING_CHARACTERS_MAX:
            self._waiting_characters += size
            part.waiting.append(path)

    def _add(self, names: int, found: os.stat_result) -> None:
        self._blocks[names] += found.st_blocks
        self._inodes[names] += 1
