"""A manifest directory in memory, with everything a disk and a kernel can do to its reader."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from trikubelet.kit.slot import Slot
from trikubelet.kit.threads import StillRunning
from trikubelet.model.manifest_places import Entry, EntryKind, Listing, Stamp
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.world import wall_ns

T = TypeVar("T")

POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {}\nspec:\n  containers:\n  - {{name: main, image: '{}'}}\n"
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  a: '{}'\n"
OLD_SECONDS = 3600.0


def manifest(name: str, image: str = "app:1") -> str:
    """One pod as a file has it."""
    return POD.format(name, image)


def settings(value: str) -> str:
    """One ConfigMap as a file has it."""
    return SETTINGS.format(value)


class Inline:
    """Threads that are none. ``error``: why none can be started; ``hung``: the keys of work that does not end."""

    def __init__(self) -> None:
        self.error: OSError | None = None
        self.hung: set[str] = set()
        self._given_up: set[str] = set()

    async def run(self, work: Callable[[], T], key: str = "") -> T:
        if self.error is not None:
            raise self.error
        if key in self.hung & self._given_up:
            raise StillRunning(key)
        if key in self.hung:
            self._given_up.add(key)
            await trio.sleep_forever()
        return work()


class MemoryDirectory:
    """``ManifestFiles`` and ``Watcher`` of one directory."""

    def __init__(self, path: str = "/manifests") -> None:
        self.path = path
        self.reads: list[str] = []
        self.looks = 0
        self.watchable = True
        self.exists = True
        self.inode = 1
        self.error: OSError | None = None
        self.hung: set[str] = set()
        self.unreadable: set[str] = set()
        self.bugs: set[str] = set()
        self._files: dict[str, tuple[str, Stamp]] = {}
        self._kinds: dict[str, EntryKind] = {}
        self._writes = 0
        self._watches: list[trio.MemorySendChannel[OSError | frozenset[str]]] = []

    # ---- what others do to it ----

    def write(self, name: str, text: str, *, age_seconds: float = OLD_SECONDS, notify: bool = True) -> str:
        """Write a file that changed so long ago; its path."""
        path = f"{self.path}/{name}"
        self._writes += 1
        self._files[path] = (text, Stamp(wall_ns() - int(age_seconds * 1e9), len(text), self._writes, 1))
        self._notify(notify)
        return path

    def remove(self, name: str, *, notify: bool = True) -> None:
        """Unlink a file."""
        del self._files[f"{self.path}/{name}"]
        self._notify(notify, frozenset({name}))

    def move_away(self, name: str) -> None:
        """Rename a file to a place outside the directory."""
        del self._files[f"{self.path}/{name}"]
        self._notify(True)

    def put(self, name: str, kind: EntryKind) -> str:
        """Something that is no file."""
        path = f"{self.path}/{name}"
        self._kinds[path] = kind
        return path

    def unmount(self) -> dict[str, tuple[str, Stamp]]:
        """The mount goes, and its mount point is what is there; what was in it."""
        held, self._files = self._files, {}
        self.inode += 1
        self.break_watch()
        return held

    def mount(self, held: dict[str, tuple[str, Stamp]]) -> None:
        """It comes back, of which no watch of the mount point hears."""
        self._files = dict(held)
        self.inode += 1

    def break_watch(self) -> None:
        """The watch is lost, as when the directory is replaced."""
        for watch in self._watches:
            watch.send_nowait(OSError(errno.ENOENT, "replaced"))
        self._watches.clear()

    def _notify(self, notify: bool, unlinked: frozenset[str] = frozenset()) -> None:
        for watch in self._watches if notify else ():
            watch.send_nowait(unlinked)

    # ---- what the source asks ----

    async def listing(self) -> Listing:
        await trio.lowlevel.checkpoint()
        self.looks += 1
        if self.path in self.hung:
            await trio.sleep_forever()
        if self.path in self.bugs:
            raise TypeError("object of type 'NoneType' has no len()")
        if self.error is not None:
            raise self.error
        if not self.exists:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        files = [Entry(path, EntryKind.FILE, stamp) for path, (_, stamp) in self._files.items()]
        entries = sorted([*files, *(Entry(path, kind) for path, kind in self._kinds.items())], key=lambda e: e.path)
        return Listing(tuple(entries), (1, self.inode))

    async def read(self, path: str) -> bytes:
        await trio.lowlevel.checkpoint()
        self.reads.append(path)
        if path in self.hung:
            await trio.sleep_forever()
        if path in self.bugs:
            raise TypeError("object of type 'NoneType' has no len()")
        if path in self.unreadable:
            raise PermissionError(errno.EACCES, "Permission denied")
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return self._files[path][0].encode()

    @asynccontextmanager
    async def watch(self, path: str) -> AsyncGenerator[AsyncIterator[frozenset[str]], None]:
        await trio.lowlevel.checkpoint()
        assert path == self.path
        if not self.exists:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        if not self.watchable:
            raise OSError(errno.EMFILE, "Too many open files")
        send, receive = trio.open_memory_channel[OSError | frozenset[str]](100)
        self._watches.append(send)
        with send, receive:
            yield _Notices(receive)


class _Notices:
    def __init__(self, receive: trio.MemoryReceiveChannel[OSError | frozenset[str]]) -> None:
        self._receive = receive

    def __aiter__(self) -> _Notices:
        return self

    async def __anext__(self) -> frozenset[str]:
        notice = await self._receive.receive()
        if isinstance(notice, OSError):
            raise notice
        return notice


class Snapshots:
    """The consumer's end: what was published, in names and images; ``objects``: what ``settings`` said; ``uids`` of the
    pods; ``lives``: how often their manifests were written again."""

    def __init__(self) -> None:
        self.slot: Slot[Snapshot] = Slot()
        self.invalid_manifests: tuple[str, ...] = ()
        self.objects: list[str] = []
        self.uids: frozenset[str] = frozenset()
        self.lives: list[int] = []

    async def next(self) -> dict[str, str]:
        """The next snapshot: each pod's name, without its node's, and its image."""
        snapshot = await self.slot.take()
        self.invalid_manifests = snapshot.invalid_manifests
        self.uids = frozenset(pod.metadata.uid for pod in snapshot.pods)
        self.lives = list(snapshot.lives.values())
        self.objects = [one.data["a"] for one in snapshot.objects]
        return {pod.metadata.name.removesuffix("-node"): pod.spec.containers[0].image for pod in snapshot.pods}

    async def none_within(self, seconds: float) -> bool:
        """True if nothing is published for that long."""
        with trio.move_on_after(seconds):
            await self.slot.take()
            return False
        return True
