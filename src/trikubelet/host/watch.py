"""Notices of changed files, by inotify (``pods.file_source.Watcher``).

A directory is watched itself, a single file through its directory: editors and package tools replace files by renaming
new ones over them, which a watch on the file would not survive. Files that a link inside the directory points to are
not watched; the regular looks find their changes.
"""

from __future__ import annotations

import errno
import os
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio
from inotify_simple import INotify, flags

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from trikubelet.kit.threads import ThreadPool

# Not MODIFY: a file is looked at when its writer closes it. CREATE is for links; ATTRIB for permissions.
_CHANGES = (
    flags.CLOSE_WRITE
    | flags.MOVED_TO
    | flags.MOVED_FROM
    | flags.CREATE
    | flags.DELETE
    | flags.ATTRIB
    | flags.DELETE_SELF
    | flags.MOVE_SELF
    | flags.ONLYDIR
)
_END = flags.DELETE_SELF | flags.MOVE_SELF | flags.IGNORED | flags.UNMOUNT


class InotifyWatcher:
    """Watches paths of the real disk. ``threads``: to begin a watch touches the file system, which may hang."""

    def __init__(self, threads: ThreadPool) -> None:
        self._threads = threads

    @asynccontextmanager
    async def watch(self, path: str) -> AsyncGenerator[AsyncIterator[None], None]:
        """An item each time something changed at the path. Raises OSError when it cannot be watched or, on the next
        item, when it is gone."""
        inotify, only = await self._threads.run(partial(_begin, path), key=f"watch {path}")
        with inotify:
            yield _Changes(inotify, path, only)


def _begin(path: str) -> tuple[INotify, str]:
    """The watch, and the one name that counts in it; empty where all do."""
    is_directory = os.path.isdir(path)
    os.stat(path)
    inotify = INotify(nonblocking=True)
    try:
        inotify.add_watch(path if is_directory else os.path.dirname(os.path.abspath(path)), _CHANGES)
    except OSError:
        inotify.close()
        raise
    return inotify, "" if is_directory else os.path.basename(path)


class _Changes:
    """The notices of one watch."""

    def __init__(self, inotify: INotify, path: str, only: str) -> None:
        self._inotify = inotify
        self._path = path
        self._only = only

    def __aiter__(self) -> _Changes:
        return self

    async def __anext__(self) -> None:
        """Wait for the next change; several at once are one item. Always a checkpoint."""
        while True:
            await trio.lowlevel.wait_readable(self._inotify.fileno())
            events = list(self._inotify.read(timeout=0))
            if any(event.mask & _END for event in events):
                raise OSError(errno.ENOENT, "it was removed or replaced", self._path)
            if any(not self._only or event.name in ("", self._only) for event in events):
                return
