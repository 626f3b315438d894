"""The contract of ``ports.CsiDriver`` and ``ports.PluginSockets``, held by plugins in memory and by a process that
speaks gRPC by another library than ours."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.cri.plugin_sockets import GrpcPlugins
from trikubelet.model.csi import AccessMode, Capability, DriverInfo, Expand, Publish, Stage, Use, VolumeStats
from trikubelet.model.plugins import PluginFailed
from trikubelet.testing.memory_plugins import MemoryDriver, MemoryPlugins

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from trio.testing import MockClock

    from trikubelet.ports import PluginSockets

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

NAME = "disk.example.com"
MIB = 1024**2
TOPOLOGY = {"topology.csi.example.com/shelf": "top"}
CAN = frozenset(
    {
        *(Capability.STAGE_UNSTAGE_VOLUME, Capability.SINGLE_NODE_MULTI_WRITER),
        *(Capability.GET_VOLUME_STATS, Capability.EXPAND_VOLUME, Capability.VOLUME_CONDITION),
    }
)
USE = Use(AccessMode.SINGLE_NODE_WRITER, fs_type="ext4", mount_flags=("noatime",))


@asynccontextmanager
async def in_memory(directory: Path) -> AsyncGenerator[PluginSockets, None]:
    plugins = MemoryPlugins()
    plugins.listen(f"{directory}/{NAME}-reg.sock", NAME, MemoryDriver(CAN, DriverInfo("node-1", 7, TOPOLOGY)))
    yield plugins


@asynccontextmanager
async def in_a_process(directory: Path) -> AsyncGenerator[PluginSockets, None]:
    command = [sys.executable, "-m", "live.kit.csi_driver", NAME, str(directory), str(directory), "--pretend"]
    tests = Path(__file__).parent.parent
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(trio.run_process, command, stdin=subprocess.PIPE, cwd=tests))
        with trio.fail_after(60):
            while not listening(directory):  # noqa: ASYNC110 - a file has no event
                await trio.sleep(0.01)
        yield GrpcPlugins()
        nursery.cancel_scope.cancel()


def listening(directory: Path) -> bool:
    """True if the driver's registration socket is in that directory."""
    return (directory / f"{NAME}-reg.sock").exists()


@pytest.fixture(params=[in_memory, in_a_process])
def plugins(request: pytest.FixtureRequest, short: Path) -> AbstractAsyncContextManager[PluginSockets]:
    make: Callable[[Path], AbstractAsyncContextManager[PluginSockets]] = request.param
    return make(short)


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A socket's path has 107 bytes at most."""
    return tmp_path_factory.mktemp("csi")


async def test_a_plugin_introduces_itself_and_takes_what_became_of_it(
    plugins: AbstractAsyncContextManager[PluginSockets], short: Path
) -> None:
    socket = f"{short}/{NAME}-reg.sock"
    async with plugins as sockets:
        info = await sockets.info(socket)
        await sockets.notify(socket, "")
        await sockets.notify(socket, "no")
    assert ("CSIPlugin", NAME, ("1.0.0",)) == (info.type, info.name, info.versions)
    assert info.endpoint


async def test_a_driver_says_what_the_node_is_to_it_and_what_it_can(
    plugins: AbstractAsyncContextManager[PluginSockets], short: Path
) -> None:
    async with plugins as sockets:
        endpoint = (await sockets.info(f"{short}/{NAME}-reg.sock")).endpoint
        async with sockets.driver(endpoint) as driver:
            assert DriverInfo("node-1", 7, TOPOLOGY) == await driver.info()
            assert CAN == await driver.capabilities()


async def test_everything_may_be_asked_twice(plugins: AbstractAsyncContextManager[PluginSockets], short: Path) -> None:
    staging, target = short / "staging", short / "target"
    async with plugins as sockets:
        endpoint = (await sockets.info(f"{short}/{NAME}-reg.sock")).endpoint
        async with sockets.driver(endpoint) as driver:
            for _ in range(2):
                await driver.stage(Stage("v", str(staging), USE))
                await driver.publish(Publish("v", str(target), USE, str(staging), context={"a": "1"}))
            for _ in range(2):
                await driver.unpublish("v", str(target))
                await driver.unstage("v", str(staging))
    assert not target.exists()


async def test_a_volume_is_told_where_it_is_published_and_grows_there_and_where_it_is_staged(
    plugins: AbstractAsyncContextManager[PluginSockets], short: Path
) -> None:
    staging, target = str(short / "staging"), str(short / "target")
    async with plugins as sockets:
        endpoint = (await sockets.info(f"{short}/{NAME}-reg.sock")).endpoint
        async with sockets.driver(endpoint) as driver:
            with pytest.raises(PluginFailed) as failed:
                await driver.volume_stats("v", target)
            await driver.stage(Stage("v", staging, USE))
            await driver.expand(Expand("v", staging, MIB, USE, staging))
            await driver.publish(Publish("v", target, USE, staging))
            before = await driver.volume_stats("v", target)
            for _ in range(2):
                await driver.expand(Expand("v", target, 2 * MIB, USE, staging, {"k": "v"}))
            after = await driver.volume_stats("v", target)
    assert ("NotFound", True) == (failed.value.code, failed.value.is_infeasible)
    assert VolumeStats(MIB - 4096, MIB, 4096, 99, 100, 1, is_abnormal=False, condition="well") == before
    assert VolumeStats(2 * MIB - 4096, 2 * MIB, 4096, 99, 100, 1, is_abnormal=False, condition="well") == after


async def test_a_refusal_comes_with_its_code_and_words(
    plugins: AbstractAsyncContextManager[PluginSockets], short: Path
) -> None:
    async with plugins as sockets:
        endpoint = (await sockets.info(f"{short}/{NAME}-reg.sock")).endpoint
        async with sockets.driver(endpoint) as driver:
            with pytest.raises(PluginFailed) as failed:
                await driver.publish(Publish("", str(short / "target"), USE))
    told = "rpc error: code = InvalidArgument desc = a volume's id and a path are needed"
    assert ("InvalidArgument", told, True) == (failed.value.code, str(failed.value), failed.value.is_final)


async def test_call_to_a_missing_driver_fails_with_the_reason(autojump_clock: MockClock, short: Path) -> None:
    began = trio.current_time()
    with pytest.raises(PluginFailed, match="code = Unavailable desc = connection error: no socket at"):
        await GrpcPlugins().info(f"{short}/none.sock")
    assert 10 == pytest.approx(trio.current_time() - began)


async def test_a_block_volume_and_a_group_reach_the_driver_as_they_were_meant(short: Path) -> None:
    calls = short / "calls"
    async with in_a_process(short) as sockets:
        endpoint = (await sockets.info(f"{short}/{NAME}-reg.sock")).endpoint
        async with sockets.driver(endpoint) as driver:
            block = Use(AccessMode.SINGLE_NODE_MULTI_WRITER, is_block=True)
            await driver.stage(Stage("v", f"{short}/s", block, {"dev": "x"}, {"k": "v"}, {"a": "1"}))
            grouped = Use(AccessMode.MULTI_NODE_READER_ONLY, fs_type="xfs", mount_flags=("ro",), group="2000")
            await driver.publish(Publish("v", f"{short}/t", grouped, f"{short}/s", True, {"dev": "x"}, {"k": "v"}))
    staged, published = [
        line for line in map(json.loads, calls.read_text().splitlines()) if line["call"] != "registered"
    ]
    assert {
        "call": "stage",
        "volumeId": "v",
        "publishContext": {"dev": "x"},
        "stagingTargetPath": f"{short}/s",
        "volumeCapability": {"block": {}, "accessMode": {"mode": "SINGLE_NODE_MULTI_WRITER"}},
        "secrets": {"k": "v"},
        "volumeContext": {"a": "1"},
    } == staged
    assert {
        "call": "publish",
        "volumeId": "v",
        "publishContext": {"dev": "x"},
        "stagingTargetPath": f"{short}/s",
        "targetPath": f"{short}/t",
        "volumeCapability": {
            "mount": {"fsType": "xfs", "mountFlags": ["ro"], "volumeMountGroup": "2000"},
            "accessMode": {"mode": "MULTI_NODE_READER_ONLY"},
        },
        "readonly": True,
        "secrets": {"k": "v"},
    } == published
