"""Plugins of several kinds that register by sockets in one directory: each goes to the handler of its kind."""

from __future__ import annotations

import random
import socket
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING

import trio

from shell.csikit import NoThreads, Notices
from trikubelet.model.plugins import PluginFailed
from trikubelet.plugins.watcher import PluginWatcher
from trikubelet.testing.memory_plugins import MemoryDriver, MemoryPlugins

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.model.plugins import PluginInfo


class Handler:
    """Notes the plugins that it uses now, and fails where a test sets an error."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.failing: Exception | None = None

    def problem(self, plugin: PluginInfo) -> str:
        return "" if plugin.versions == ("v1beta1",) else f"{plugin.name} has the wrong version"

    @asynccontextmanager
    async def used(self, plugin: PluginInfo) -> AsyncGenerator[None, None]:
        if self.failing is not None:
            raise self.failing
        self.names.append(plugin.name)
        try:
            yield
        finally:
            self.names.remove(plugin.name)


async def test_each_plugin_is_used_by_the_handler_of_its_kind(autojump_clock: MockClock, tmp_path: Path) -> None:
    handlers, plugins = {"A": Handler(), "B": Handler()}, MemoryPlugins()
    with closing(socket.socket(socket.AF_UNIX)) as one, closing(socket.socket(socket.AF_UNIX)) as two:
        for sock, kind in ((one, "A"), (two, "B")):
            sock.bind(str(tmp_path / f"{kind}.sock"))
            plugins.listen(str(tmp_path / f"{kind}.sock"), f"of {kind}", MemoryDriver(), kind, "v1beta1")
        watcher = PluginWatcher(tmp_path, handlers, plugins, Notices(), random.Random(1), NoThreads())  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            await nursery.start(watcher.run)
            await trio.sleep(1)
            assert (["of A"], ["of B"]) == (handlers["A"].names, handlers["B"].names)
            (tmp_path / "A.sock").unlink()
            await trio.sleep(11)
            assert ([], ["of B"]) == (handlers["A"].names, handlers["B"].names)
            nursery.cancel_scope.cancel()
    assert [] == handlers["B"].names


async def test_plugin_is_notified_of_its_handlers_error_and_tried_again(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    handler, plugins, path = Handler(), MemoryPlugins(), str(tmp_path / "p.sock")
    handler.failing = PluginFailed("Internal", "not now")
    with closing(socket.socket(socket.AF_UNIX)) as sock:
        sock.bind(path)
        plugins.listen(path, "p", MemoryDriver(), "A", "v2")
        watcher = PluginWatcher(tmp_path, {"A": handler}, plugins, Notices(), random.Random(1), NoThreads())  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            await nursery.start(watcher.run)
            await trio.sleep(0.5)
            plugins.listen(path, "p", MemoryDriver(), "A", "v1beta1")
            await trio.sleep(1.5)
            handler.failing = None
            await trio.sleep(60)
            nursery.cancel_scope.cancel()
    told = plugins.notified[path]
    assert ["p has the wrong version", "rpc error: code = Internal desc = not now", ""] == list(dict.fromkeys(told))
