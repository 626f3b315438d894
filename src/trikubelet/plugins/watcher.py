"""Plugins that register on this node by a socket in ``plugins_registry``: found, asked, and handed to their handlers.

    socket there ─► GetInfo ─► the handler of its kind ─► used ─► NotifyRegistrationStatus
        ▲              └── error or no answer: notified why, retried with backoff ◄─┘   │
        └──────── gone, or another socket of that name: no longer used ◄────────────────┘

A notice of the directory only triggers a look; the directory's content counts. Plugins are containers that can write
there: a look is made in a thread, at so many entries at most, and not at once after the one before.
"""

from __future__ import annotations

import logging
import os
import stat
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import trio

from trikubelet.kit.backoff import Backoff
from trikubelet.kit.disk import on_disk
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.slot import Slot
from trikubelet.model.plugins import PluginFailed
from trikubelet.plugins.asking import within

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.plugins import PluginInfo
    from trikubelet.ports import FileWatcher, PluginSockets

log = logging.getLogger(__name__)

MODE: Final = 0o750
LOOK_SECONDS: Final = 10.0
"""The directory is scanned at least this often; changes below directories in it give no notice."""
PAUSE_SECONDS: Final = 1.0
"""Between two looks, however many changes are noticed: a program may go on making files."""
LEVELS_MAX: Final = 3
ENTRIES_MAX: Final = 10_000
"""So many entries are looked at. A node has a socket for each plugin, and little else there."""
_LOOKING: Final = "look for plugins"
_ALL_OF_THEM: Final = "look at all files"
ASK_SECONDS_MAX: Final = 10.0
NOTIFY_SECONDS_MAX: Final = 5.0
"""Both like upstream."""

_Stamp = tuple[int, int, int]


@dataclass(slots=True)
class _Watched:
    """A socket that has a task. ``stamp``: distinguishes it from another socket of that path."""

    stamp: _Stamp
    scope: trio.CancelScope


class PluginHandler(Protocol):
    """Uses the plugins of one kind."""

    def problem(self, plugin: PluginInfo) -> str:
        """Return why the plugin cannot be used; "" if it can."""
        ...

    def used(self, plugin: PluginInfo) -> AbstractAsyncContextManager[None]:
        """Use the plugin for the length of the block, which lasts until its socket goes. Raises PluginFailed, and
        ValueError if the plugin turns out to be unusable."""
        ...


class PluginWatcher:
    """Owns which sockets are attended to, each by a task."""

    def __init__(
        self,
        directory: Path,
        handlers: Mapping[str, PluginHandler],
        sockets: PluginSockets,
        watcher: FileWatcher,
        chance: random.Random,
        threads: ThreadPool,
    ) -> None:
        """``handlers``: by the kind of plugin that they use, such as ``CSIPlugin``."""
        self._handlers = handlers
        self._directory = directory
        self._sockets = sockets
        self._watcher = watcher
        self._chance = chance
        self._threads = threads
        self._failure_log = FailureLog()
        self._barriers = FaultBarriers(log, "The plugin at %s: a bug in using it; it is tried again")
        self._attended: dict[str, _Watched] = {}
        self._wakeups: Slot[None] = Slot()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch for sockets and register their plugins until cancelled."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._heed_notices)
            while True:
                await self._look(nursery)
                await trio.sleep(PAUSE_SECONDS)
                with trio.move_on_after(LOOK_SECONDS - PAUSE_SECONDS):
                    await self._wakeups.take()

    async def _heed_notices(self) -> None:
        while True:
            try:
                async with self._watcher.watch(str(self._directory)) as notices:
                    self._wakeups.put(None)  # it may be new
                    async for _ in notices:
                        self._wakeups.put(None)
            except OSError as error:
                log.debug("No notices of plugins, %s is looked at every %g s: %s", self._directory, LOOK_SECONDS, error)
            await trio.sleep(LOOK_SECONDS)

    async def _look(self, nursery: trio.Nursery) -> None:
        looking = partial(_look_for_sockets, self._directory, frozenset(self._attended))
        try:
            found, is_all = await on_disk(self._threads, looking, f"{_LOOKING} in {self._directory}", may_hang=True)
        except OSError as error:  # sockets that could not be listed are not known to be gone
            if self._failure_log.may_log(_LOOKING):
                log.warning("Cannot %s, will try again: %s", _LOOKING, error)
            return
        self._failure_log.works_again(_LOOKING)
        self._say_whether_all(is_all)
        for path, watched in list(self._attended.items()):
            if found.get(path) != watched.stamp:
                watched.scope.cancel()
                del self._attended[path]
        for path, stamp in found.items():
            if path not in self._attended:
                watched = self._attended[path] = _Watched(stamp, trio.CancelScope())
                nursery.start_soon(self._attend, path, watched.scope)

    def _say_whether_all(self, is_all: bool) -> None:
        if is_all:
            self._failure_log.works_again(_ALL_OF_THEM)
        elif self._failure_log.may_log(_ALL_OF_THEM):
            message = (
                "There are more than %d files below %s, the others are not looked at: plugins that are registered "
                "stay so, a new one may not be found; remove the files, and whatever makes them"
            )
            log.warning(message, ENTRIES_MAX, self._directory)

    async def _attend(self, path: str, scope: trio.CancelScope) -> None:
        """Register and use the plugin at one socket, retried with backoff; its errors concern no other."""
        backoff = Backoff(1.0, 60.0, jitter=0.2, chance=self._chance)
        with scope:
            while True:
                with self._barriers.of(path):
                    await self._try_to_use(path)
                await trio.sleep(backoff.next_seconds())

    async def _try_to_use(self, path: str) -> None:
        try:
            await self._use(path)
        except (PluginFailed, ValueError) as error:
            log.warning("The plugin at %s is not used: %s", path, error)
            await self._notify_failure(path, str(error))

    async def _use(self, path: str) -> None:
        """Use the plugin as long as its socket is there. Raises PluginFailed, and ValueError for an unusable one."""
        with within(ASK_SECONDS_MAX):
            plugin = await self._sockets.info(path)
        handler = self._handlers.get(plugin.type)
        if handler is None:
            raise ValueError(
                f"RegisterPlugin error -- no handler registered for plugin type: {plugin.type} at socket {path}"
            )
        if problem := handler.problem(plugin):
            raise ValueError(problem)
        async with handler.used(plugin):
            with within(NOTIFY_SECONDS_MAX):
                await self._sockets.notify(path, "")
            await trio.sleep_forever()

    async def _notify_failure(self, path: str, why: str) -> None:
        try:
            with within(NOTIFY_SECONDS_MAX):
                await self._sockets.notify(path, why)
        except PluginFailed as error:
            log.debug("The plugin at %s does not take its registration's result: %s", path, error)

    def __repr__(self) -> str:
        return f"<PluginWatcher of {self._directory}: {len(self._attended)} sockets>"


def _look_for_sockets(directory: Path, known: Collection[str]) -> tuple[dict[str, _Stamp], bool]:
    """The known sockets that are there, and every other one, but for hidden ones and those in hidden directories; no
    link is followed. Other ones are found among the first ``ENTRIES_MAX`` entries only; true if these were all. In a
    thread. Raises OSError."""
    directory.mkdir(mode=MODE, parents=True, exist_ok=True)
    found = {path: stamp for path in known if (stamp := _stamp(path)) is not None}
    todo, left = [(str(directory), LEVELS_MAX)], ENTRIES_MAX
    while todo:
        where, levels = todo.pop()
        with os.scandir(where) as entries:
            for entry in entries:
                left -= 1
                if left < 0:
                    return found, False
                if entry.name.startswith(".") or entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if levels > 1:
                        todo.append((entry.path, levels - 1))
                elif (stamp := _stamp(entry.path)) is not None:
                    found[entry.path] = stamp
    return found, True


def _stamp(path: str) -> _Stamp | None:
    """None for what is no socket, or gone meanwhile."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (status.st_dev, status.st_ino, status.st_ctime_ns) if stat.S_ISSOCK(status.st_mode) else None
