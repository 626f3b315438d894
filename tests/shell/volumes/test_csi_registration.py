"""Plugins that register by a socket: which drivers are used, what is told to whom, and what happens when they go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.csikit import DRIVER, CsiNodeBench
from trikubelet.model.csi import DriverInfo
from trikubelet.testing.memory_plugins import MemoryDriver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trio.testing import MockClock


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


async def test_a_driver_whose_socket_goes_is_used_no_more_and_again_when_it_is_back(
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
