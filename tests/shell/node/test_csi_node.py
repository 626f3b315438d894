"""The CSINode object is kept in a cluster in memory: what is written, when, and what survives problem."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.core.node_status.csi_node import NODE_IDS
from trikubelet.kit.outage import Outage
from trikubelet.model import k8s
from trikubelet.model.api import CSI_NODES, NODES
from trikubelet.model.api_errors import ApiBusy
from trikubelet.model.csi import DriverInfo
from trikubelet.model.decoding import decode_object
from trikubelet.node.csi_node import CsiNode
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import Fail, Link, MemoryApi
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trio.testing import MockClock


class Bench:
    def __init__(self) -> None:
        self.server = ApiServer(VirtualClock().now_ns)
        self.link = Link()
        self.api = MemoryApi(self.server, self.link)
        self.drivers: dict[str, DriverInfo] = {}
        self.registered = False

    def register(self) -> None:
        self.server.create(NODES, {"metadata": {"name": "n"}})
        self.registered = True

    def node(self) -> k8s.Node | None:
        return decode_object(self.server.get(NODES, "n").raw, k8s.Node) if self.registered else None

    def told(self) -> list[str]:
        held = decode_object(self.server.get(CSI_NODES, "n").raw, k8s.CSINode)
        return [one.name for one in held.spec.drivers]

    @asynccontextmanager
    async def life(self) -> AsyncGenerator[CsiNode, None]:
        it = CsiNode(self.api, self.node, lambda: dict(self.drivers), Outage("API"), random.Random(1))
        async with trio.open_nursery() as nursery:
            await nursery.start(it.run)
            await trio.sleep(1)
            yield it
            nursery.cancel_scope.cancel()


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_the_object_is_made_when_the_node_is_registered_and_follows_the_drivers(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.life() as it:
        bench.register()
        it.node_changed()
        await trio.sleep(1)
        assert [] == bench.told()
        bench.drivers = {"a": DriverInfo("id", topology={"zone": "z"})}
        it.wake()
        await trio.sleep(1)
        assert ["a"] == bench.told()
        node = bench.node()
        assert node is not None
        assert ('{"a":"id"}', "z") == (node.metadata.annotations[NODE_IDS], node.metadata.labels["zone"])
        bench.drivers = {}
        it.wake()
        await trio.sleep(1)
        assert [] == bench.told()


async def test_a_later_life_leaves_a_driver_that_has_not_come_yet(autojump_clock: MockClock, bench: Bench) -> None:
    bench.register()
    bench.drivers = {"a": DriverInfo("id")}
    async with bench.life():
        assert ["a"] == bench.told()
    bench.drivers = {}
    async with bench.life() as it:
        it.wake()
        await trio.sleep(1000)
        assert ["a"] == bench.told()


async def test_what_a_server_that_was_away_was_not_told_it_is_told_later(
    autojump_clock: MockClock, bench: Bench
) -> None:
    bench.register()
    bench.link.down()
    bench.drivers = {"a": DriverInfo("id")}
    async with bench.life():
        await trio.sleep(100)
        bench.link.up()
        await trio.sleep(100)
        assert ["a"] == bench.told()


async def test_drivers_that_come_and_go_cut_no_pause_that_a_busy_server_wished(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.life() as it:
        bench.register()
        bench.api.plan("get", *[Fail(ApiBusy("slow down", after=30.0))] * 1000)
        for second in range(300):
            bench.drivers = {str(second): DriverInfo("id")}
            it.wake()
            await trio.sleep(1)

        assert 10 >= len(bench.api.requests) > 1


async def test_deleted_object_is_created_again(autojump_clock: MockClock, bench: Bench) -> None:
    bench.register()
    bench.drivers = {"a": DriverInfo("id")}
    async with bench.life():
        bench.server.delete(CSI_NODES, "n")
        await trio.sleep(301)
        assert ["a"] == bench.told()
