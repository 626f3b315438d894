"""Notifications of changed files, by inotify (``ports.FileWatcher``).

A directory is watched itself, a single file through its directory: editors and package tools replace files by renaming
new ones over them, which a watch on the file would not survive. A link on the way to the directory is watched, too:
inotify resolves it once, and would keep watching the old directory after the link was swapped. Targets of links inside
the directory are not watched; the periodic checks find their changes.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import defaultdict
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import trio
from inotify_simple import INotify, flags

from trikubelet.kit.threads import StillRunning

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from trikubelet.kit.threads import ThreadPool

# Not MODIFY: a file is read when its writer closes it. CREATE is for links; ATTRIB for permissions.
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
_LINKS_MAX = 40
"""The kernel's own limit."""
_OVERFLOW = -1
"""The watch descriptor of the notification that others were dropped."""
_END = flags.DELETE_SELF | flags.MOVE_SELF | flags.IGNORED | flags.UNMOUNT


class InotifyWatcher:
    """Watches paths of the real disk. ``threads``: starting a watch accesses the file system, which may hang."""

    def __init__(self, threads: ThreadPool) -> None:
        self._threads = threads

    @asynccontextmanager
    async def watch(self, path: str) -> AsyncGenerator[AsyncIterator[frozenset[str]], None]:
        """Yield the unlinked names, for each change at the path. Raises OSError if it cannot be watched, or while an
        earlier start of a watch still hangs, or, on the next item, if it is gone or a link was changed."""
        changes = _Changes(path)
        try:
            try:
                await self._threads.run(changes.begin, key=f"watch {path}")
            except StillRunning as error:
                raise OSError(errno.EBUSY, str(error)) from error
            yield changes
        finally:
            changes.end()


class _Changes:
    """The notifications of one watch. The wait for the thread that starts it may be cancelled: then the thread closes
    its descriptors."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._only = ""
        self._watched = _OVERFLOW
        self._links: defaultdict[int, set[str]] = defaultdict(set)  # by the watch of the directory each is in
        self._inotify: INotify | None = None
        self._is_over = False
        self._handing_over = threading.Lock()

    def begin(self) -> None:
        """Runs in a thread, because it accesses the file system. Raises OSError."""
        path = self._path
        is_directory = os.path.isdir(path)
        os.stat(path)
        # Only the file's own name counts; in a directory all do.
        self._only = "" if is_directory else os.path.basename(path)
        inotify = INotify(nonblocking=True)
        try:
            directory = path if is_directory else os.path.dirname(os.path.abspath(path))
            for link in _links(directory):
                with suppress(OSError):  # the target can be watched even if the link's directory is unreadable
                    self._links[inotify.add_watch(os.path.dirname(link), _CHANGES)].add(os.path.basename(link))
            # Last: if a link was swapped meanwhile, either its notification has arrived or this follows the new one.
            self._watched = inotify.add_watch(directory, _CHANGES)
        except OSError:
            inotify.close()
            raise
        with self._handing_over:
            self._inotify = inotify
            if self._is_over:
                inotify.close()

    def end(self) -> None:
        """Stop the notifications."""
        with self._handing_over:
            self._is_over = True
            if self._inotify is not None:
                self._inotify.close()

    def __aiter__(self) -> _Changes:
        return self

    async def __anext__(self) -> frozenset[str]:
        """Wait for the next change; several at once are one item. Always a checkpoint."""
        assert self._inotify is not None, "it was not started"
        while True:
            await trio.lowlevel.wait_readable(self._inotify.fileno())
            events = list(self._inotify.read(timeout=0))
            if any(event.mask & _END or event.name in self._links.get(event.wd, ()) for event in events):
                raise OSError(errno.ENOENT, "it was removed or replaced", self._path)
            ours = [event for event in events if event.wd in (self._watched, _OVERFLOW)]
            if self._only:
                ours = [event for event in ours if event.name in ("", self._only)]
            if ours:
                return frozenset(event.name for event in ours if event.mask & flags.DELETE)


def _links(path: str) -> list[str]:
    """Return every symbolic link that the kernel follows on the way to ``path``, including itself, by a path without
    links."""
    found: list[str] = []
    at, left = "/", os.path.join("" if os.path.isabs(path) else os.getcwd(), path).split("/")[::-1]
    while left and len(found) < _LINKS_MAX:
        name = left.pop()
        if name in ("", "."):
            continue
        here = os.path.dirname(at) if name == ".." else os.path.join(at, name)
        try:
            target = os.readlink(here)
        except OSError:  # not a link
            at = here
            continue
        found.append(here)
        at = "/" if target.startswith("/") else at
        left += target.split("/")[::-1]
    return found
