"""The disk usage of a directory tree that containers may write to.

A container may put ten million files into one directory, and nest directories without end. So nothing is kept of an
entry once it is counted: a directory is read as it is walked, and a file with several names counts with its share at
each of them, which adds up without a list of those seen. Every open level holds two descriptors. Directories deeper
than OPEN_LEVELS_MAX are queued by their path from the top, and entered from there, one directory after the other: no
link is followed, even one swapped in meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from contextlib import suppress
from typing import Final

OPEN_LEVELS_MAX: Final = 64
WAITING_CHARACTERS_MAX: Final = 1 << 22
"""Of all queued paths together."""
PATH_CHARACTERS_MAX: Final = 4096
"""The kernel's own limit of a path; deeper nesting is only possible on purpose."""
_BLOCK_BYTES: Final = 512
"""Of ``st_blocks``, whatever the file system's own blocks are (stat(2))."""
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def tree_size(path: str) -> tuple[int, int]:
    """Bytes and inodes of a directory and of all below it on the same file system. A file of several names counts once
    if all of them are in the tree. What is removed or cannot be read while it is counted does not count, nor do
    directories that are too deep: they hide nothing but themselves. Raises OSError where the directory itself cannot be
    opened. Blocks for as long as the tree is large: call it in a thread."""
    top = os.open(path, _FLAGS)
    try:
        return _Tree(top).count()
    finally:
        os.close(top)


class _Tree:
    """Holds the counts of one tree, and the paths of the queued directories. ``top``: its descriptor."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._device = os.fstat(top).st_dev
        self._blocks: Counter[int] = Counter()  # by the number of the file's names
        self._inodes: Counter[int] = Counter()
        self._waiting = [""]
        self._waiting_characters = 0

    def count(self) -> tuple[int, int]:
        while self._waiting:
            path = self._waiting.pop()
            self._waiting_characters -= len(path)
            with suppress(OSError):
                self._enter(path)
        blocks = sum(-(-total // names) for names, total in self._blocks.items())
        return blocks * _BLOCK_BYTES, sum(-(-total // names) for names, total in self._inodes.items())

    def _enter(self, path: str) -> None:
        directory = os.dup(self._top)
        try:
            for name in filter(None, path.split("/")):
                below = os.open(name, _FLAGS, dir_fd=directory)
                os.close(directory)
                directory = below
            self._add_below(directory, path, OPEN_LEVELS_MAX)
        finally:
            os.close(directory)

    def _add_below(self, directory: int, path: str, levels: int) -> None:
        """A directory and what is in it; ``directory``: its descriptor, ``path``: its own, from the top."""
        found = os.fstat(directory)
        if found.st_dev != self._device:
            return  # a mount is not part of the tree
        self._add(1, found)
        with os.scandir(directory) as entries:
            for entry in entries:
                with suppress(OSError):  # it is gone, or was swapped for something else
                    one = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(one.st_mode):
                        self._add(one.st_nlink, one)
                    elif levels > 1:
                        self._descend(directory, entry.name, path, levels)
                    else:
                        self._put_off(f"{path}/{entry.name}")

    def _descend(self, directory: int, name: str, path: str, levels: int) -> None:
        below = os.open(name, _FLAGS, dir_fd=directory)
        try:
            self._add_below(below, f"{path}/{name}", levels - 1)
        finally:
            os.close(below)

    def _put_off(self, path: str) -> None:
        if len(path) <= PATH_CHARACTERS_MAX and self._waiting_characters + len(path) <= WAITING_CHARACTERS_MAX:
            self._waiting_characters += len(path)
            self._waiting.append(path)

    def _add(self, names: int, found: os.stat_result) -> None:
        if found.st_dev != self._device:
            return
        self._blocks[names] += found.st_blocks
        self._inodes[names] += 1
