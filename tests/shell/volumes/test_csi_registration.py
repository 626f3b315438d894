"""Plugins that register by a socket: which drivers are used, what is told to whom, and what happens when they go."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, TypeVar

import pytest
import trio

from shell.csikit import DRIVER, CsiNodeBench, NoThreads
from trikubelet.model.csi import CSI_PLUGIN, DriverInfo
from trikubelet.plugins import watcher
from trikubelet.plugins.watcher import PluginWatcher
from trikubelet.testing.memory_plugins import MemoryDriver
from trikubelet.volumes.csi_registration import RegisteredDrivers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trio.testing import MockClock

T = TypeVar("T")


@pytest.fixture
def bench(place: Path) -> Iterator[CsiNodeBench]:
    made = CsiNodeBench(place)
    yield made
    made.close()


async def test_a_driver_that_registers_is_used_and_told_so(autojump_clock: MockClock, bench: CsiNodeBench) -> None:
    bench.driver.node = DriverInfo("node-7", 5, {"zone": "a"})
    async with bench.life(registered=False) as volumes:
        assert {} == volumes.drivers()
        before = bench.cluster.changes
        path = bench.plug_in(DRIVER, bench.driver)
        await trio.sleep(11)
        assert {DRIVER: DriverInfo("node-7", 5, {"zone": "a"})} == volumes.drivers()
        assert [""] == bench.plugins.notified[path]
        assert before < bench.cluster.changes


async def test_driver_is_unregistered_with_its_socket_and_registered_when_it_is_back(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    async with bench.life() as volumes:
        bench.pull_out(DRIVER)
        await trio.sleep(11)
        assert {} == volumes.drivers()
        bench.plug_in(DRIVER, bench.driver)
        await trio.sleep(11)
        assert {DRIVER} == volumes.drivers().keys()


async def test_a_socket_of_the_same_name_that_is_another_registers_again(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    async with bench.life() as volumes:
        bench.pull_out(DRIVER)
        path = bench.plug_in(DRIVER, MemoryDriver(node=DriverInfo("another")))
        await trio.sleep(11)
        assert {DRIVER: DriverInfo("another")} == volumes.drivers()
        assert ["", ""] == bench.plugins.notified[path]


async def test_what_is_no_driver_is_told_why_it_is_not_used(autojump_clock: MockClock, bench: CsiNodeBench) -> None:
    path = bench.plug_in("gpu.example.com", MemoryDriver(), type_="DevicePlugin")
    async with bench.life(registered=False) as volumes:
        await trio.sleep(0.5)
        assert {} == volumes.drivers()
    why = f"RegisterPlugin error -- no handler registered for plugin type: DevicePlugin at socket {path}"
    assert [why] == bench.plugins.notified[path]


async def test_a_plugin_that_does_not_answer_is_asked_again_and_holds_up_no_other(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    slow = MemoryDriver()
    slow.answering = trio.Event()
    bench.plug_in("slow.example.com", slow)
    async with bench.life() as volumes:
        assert {DRIVER} == volumes.drivers().keys()
        await trio.sleep(130)
        slow.answering.set()
        await trio.sleep(70)
        assert {DRIVER, "slow.example.com"} == volumes.drivers().keys()


async def test_sockets_lie_below_directories_too_and_hidden_ones_are_nobodys(
    autojump_clock: MockClock, bench: CsiNodeBench
) -> None:
    (bench.registry / "deep").mkdir()
    bench.plug_in("deep/disk", bench.driver)
    bench.plug_in(".hidden", MemoryDriver())
    async with bench.life(registered=False) as volumes:
        assert {"deep/disk"} == volumes.drivers().keys()


async def test_files_without_end_there_cost_no_more_than_so_many_and_no_driver_its_registration(
    autojump_clock: MockClock, bench: CsiNodeBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stamp, asked = watcher._stamp, []
    monkeypatch.setattr(watcher, "ENTRIES_MAX", 5)
    monkeypatch.setattr(watcher, "_stamp", lambda path: asked.append(path) or stamp(path))
    async with bench.life() as volumes:
        names = [bench.registry / f"left-{number}" for number in range(100)]
        for name in names:
            name.touch()
        asked.clear()
        await trio.sleep(60)
        assert {DRIVER} == volumes.drivers().keys()
        assert {str(bench.registry / f"{DRIVER}-reg.sock")} == set(asked), "regular files are not looked at"
        bench.pull_out(DRIVER)
        await trio.sleep(11)
        assert {} == volumes.drivers()

        for name in names:
            name.unlink()
        bench.plug_in(DRIVER, bench.driver)
        await trio.sleep(11)
        assert {DRIVER} == volumes.drivers().keys()

    said = [message for message in caplog.messages if "There are more than 5 files" in message]
    assert 1 == len(said)
    assert "plugins that are registered stay so, a new one may not be found" in said[0]


async def test_endless_changes_cause_one_look_a_second(
    autojump_clock: MockClock, bench: CsiNodeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, scandir = [], os.scandir

    def note(path: str) -> object:
        looks.append(trio.current_time())
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(watcher.os, "scandir", note)
        async with bench.life():
            looks.clear()
            for _ in range(100):
                await trio.sleep(0.1)
                bench.notices.change()

    assert 9 <= len(looks) <= 11


class Noted(NoThreads):
    """Notes what is done now, and hangs where a test says so."""

    def __init__(self) -> None:
        self.key = ""
        self.hangs = False

    async def run(self, work: Callable[[], T], key: str = "", *, may_hang: bool = False) -> T:
        if self.hangs:
            await trio.sleep_forever()
        self.key = key
        try:
            return await super().run(work, key, may_hang=may_hang)
        finally:
            self.key = ""


async def test_the_disk_is_asked_in_a_thread_and_one_that_hangs_ends_no_registration(
    autojump_clock: MockClock,
    bench: CsiNodeBench,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    threads, scandir, keys = Noted(), os.scandir, set[str]()

    def note(path: str) -> object:
        keys.add(threads.key)
        return scandir(path)

    bench.plug_in(DRIVER, bench.driver)
    seen = RegisteredDrivers(bench.plugins)
    watching = PluginWatcher(
        bench.registry,
        {CSI_PLUGIN: seen},
        bench.plugins,
        bench.notices,
        random.Random(1),
        threads,  # type: ignore[arg-type]
    )
    with monkeypatch.context() as patch:
        patch.setattr(watcher.os, "scandir", note)
        async with trio.open_nursery() as nursery:
            await nursery.start(watching.run)
            await trio.sleep(5)
            assert {DRIVER} == seen.drivers.keys()
            threads.hangs = True
            bench.pull_out(DRIVER)
            await trio.sleep(120)
            assert {DRIVER} == seen.drivers.keys()
            threads.hangs = False
            await trio.sleep(25)
            assert {} == seen.drivers
            nursery.cancel_scope.cancel()

    assert {f"look for plugins in {bench.registry}"} == keys
    said = [message for message in caplog.messages if message.startswith("Cannot look for plugins")]
    assert ["Cannot look for plugins, will try again: [Errno 110] the disk did not answer within 10 s"] == said
