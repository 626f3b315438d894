"""Device plugins over real sockets: their registration, their devices, and the consequences of their end."""

from __future__ import annotations

import os
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from shell.csikit import NoThreads
from shell.devicekit import TestPlugin, register
from trikubelet.core.devices.choice import Question
from trikubelet.core.devices.inventory import GRACE_SECONDS, Amounts
from trikubelet.cri.device_plugins import GrpcDeviceSockets
from trikubelet.cri.plugin_v1 import device_pb2 as pb
from trikubelet.devices import plugins as plugins_module
from trikubelet.devices.plugins import DevicePlugins
from trikubelet.model.devices import Device, PluginOptions, RunOptions
from trikubelet.model.plugins import PluginFailed, PluginInfo
from trikubelet.model.runtime_config import Device as Node
from trikubelet.model.runtime_config import Mount

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from trio.testing import MockClock

GPU = "example.com/gpu"


@asynccontextmanager
async def agent(directory: Path) -> AsyncGenerator[DevicePlugins, None]:
    """The part of an agent that takes device plugins, for the length of the block."""
    plugins = DevicePlugins(directory, GrpcDeviceSockets(), NoThreads())  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(plugins.run)
        yield plugins
        nursery.cancel_scope.cancel()


def numbers(plugins: DevicePlugins) -> tuple[int, int]:
    found = plugins.amounts()[GPU]
    return (found.capacity, found.allocatable)


async def test_devices_of_a_registered_plugin_are_known_and_follow_its_lists(
    autojump_clock: MockClock, place: Path
) -> None:
    plugin = TestPlugin("a", "b")
    plugin.devices["b"] = ("Healthy", (0, 1))
    changes = []
    async with agent(place) as plugins, plugin.serving(place, "gpu.sock"):
        plugins.changed.add(lambda: changes.append(numbers(plugins)))
        assert "" == await register(place, "gpu.sock", GPU)
        await trio.sleep(1)
        devices = plugins.inventory[GPU].devices
        assert {"a": Device("a"), "b": Device("b", numa_nodes=frozenset({0, 1}))} == devices
        plugin.change(b="Unhealthy", c="Healthy")
        await trio.sleep(1)
        assert (3, 2) == numbers(plugins)
        plugin.change(a="sick")
        await trio.sleep(1)
        assert [(2, 2), (3, 2), (3, 1)] == changes


@pytest.mark.parametrize(
    ("endpoint", "resource", "version", "why"),
    [
        ("p", GPU, "v1", 'requested API version "v1" is not supported by kubelet. Supported version is ["v1beta1"]'),
        ("p", "gpu", "v1beta1", 'the ResourceName "gpu" is invalid'),
        ("p", "kubernetes.io/gpu", "v1beta1", 'the ResourceName "kubernetes.io/gpu" is invalid'),
        ("p", "example.com/g pu", "v1beta1", 'the ResourceName "example.com/g pu" is invalid'),
        ("../p", GPU, "v1beta1", 'the endpoint "../p" is invalid: it must be a file name in the plugin directory'),
        ("", GPU, "v1beta1", 'the endpoint "" is invalid: it must be a file name in the plugin directory'),
        ("nothing", GPU, "v1beta1", "context deadline exceeded"),
    ],
)
async def test_plugin_that_cannot_be_used_is_answered_why(
    autojump_clock: MockClock, place: Path, endpoint: str, resource: str, version: str, why: str
) -> None:
    async with agent(place) as plugins:
        assert why in await register(place, endpoint, resource, version)
        assert {} == plugins.inventory
        assert {} == plugins.connected


async def test_plugin_that_does_not_answer_is_given_up_and_blocks_no_other(
    autojump_clock: MockClock, place: Path
) -> None:
    slow, quick = TestPlugin("a"), TestPlugin("b")
    slow.answering = trio.Event()
    answers = []

    async def register_slow() -> None:
        answers.append(await register(place, "slow", "example.com/slow"))

    async with agent(place) as plugins, slow.serving(place, "slow"), quick.serving(place, "quick"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(register_slow)
            await trio.sleep(1)
            assert "" == await register(place, "quick", GPU)
        assert "context deadline exceeded" in answers[0]
        assert {GPU} == plugins.connected.keys()


async def test_plugins_beyond_the_bound_are_refused(
    autojump_clock: MockClock, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins_module, "PLUGINS_MAX", 1)
    plugin = TestPlugin("a")
    async with agent(place) as plugins, plugin.serving(place, "gpu"):
        assert "" == await register(place, "gpu", GPU)
        assert "1 device plugins are connected" in await register(place, "gpu", "example.com/other")
        plugin.end()
        await trio.sleep(1)
        assert "" == await register(place, "gpu", "example.com/other")
        assert {"example.com/other"} == plugins.connected.keys()


async def test_devices_of_a_plugin_that_stops_are_unhealthy_until_the_grace_ends(
    autojump_clock: MockClock, place: Path
) -> None:
    plugin = TestPlugin("a", "b", "c")
    told = []
    async with agent(place) as plugins:
        plugins.changed.add(lambda: told.append(numbers(plugins)))
        async with plugin.serving(place, "gpu"):
            await register(place, "gpu", GPU)
            await trio.sleep(1)
            assert (3, 3) == numbers(plugins)
        await trio.sleep(1)
        assert (3, 0) == numbers(plugins)
        assert {} == plugins.connected
        assert [(3, 3), (3, 0)] == told
        await trio.sleep(GRACE_SECONDS)
        assert {} == plugins.inventory
        assert {GPU: Amounts(0, 0)} == plugins.amounts()
        assert [(3, 3), (3, 0), (0, 0)] == told


async def test_stream_that_ends_stops_the_plugin_and_another_registration_starts_it(
    autojump_clock: MockClock, place: Path
) -> None:
    plugin = TestPlugin("a")
    async with agent(place) as plugins, plugin.serving(place, "gpu"):
        await register(place, "gpu", GPU)
        await trio.sleep(1)
        plugin.end()
        await trio.sleep(1)
        assert (1, 0) == numbers(plugins)
        await register(place, "gpu", GPU)
        await trio.sleep(1)
        assert (1, 1) == numbers(plugins)


async def test_end_of_a_replaced_plugin_does_not_concern_the_new_one(autojump_clock: MockClock, place: Path) -> None:
    old, new = TestPlugin("a"), TestPlugin("a", "b")
    async with agent(place) as plugins, new.serving(place, "new"):
        async with old.serving(place, "old"):
            await register(place, "old", GPU)
            await trio.sleep(1)
            await register(place, "new", GPU)
            await trio.sleep(1)
            assert (2, 2) == numbers(plugins)
        await trio.sleep(1)
        assert (2, 2) == numbers(plugins)
        new.change(b="Unhealthy")
        await trio.sleep(1)
        assert (2, 1) == numbers(plugins)


async def test_agent_that_stops_while_a_plugin_registers_ends_cleanly(autojump_clock: MockClock, place: Path) -> None:
    plugin, answers = TestPlugin("a"), []
    plugin.answering = trio.Event()

    async def register_late() -> None:
        answers.append(await register(place, "gpu", GPU))

    async with plugin.serving(place, "gpu"), trio.open_nursery() as outer:
        async with agent(place):
            outer.start_soon(register_late)
            await trio.sleep(1)
            outer.start_soon(answer_after, plugin, 0.5)
        await trio.sleep(30)
        outer.cancel_scope.cancel()
    assert len(answers) <= 1


async def answer_after(plugin: TestPlugin, seconds: float) -> None:
    await trio.sleep(seconds)
    plugin.answering.set()


async def test_start_removes_old_sockets_of_plugins_and_keeps_files(autojump_clock: MockClock, place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(place / "old.sock"))
    (place / "kubelet_internal_checkpoint").write_text("{}")
    async with agent(place):
        assert {"kubelet.sock", "kubelet_internal_checkpoint", "DEPRECATION"} == set(os.listdir(place))
    assert {"kubelet_internal_checkpoint", "DEPRECATION"} == set(os.listdir(place))


async def test_plugin_watcher_hands_over_plugins_until_their_socket_goes(
    autojump_clock: MockClock, place: Path
) -> None:
    plugin = TestPlugin("a")
    async with agent(place) as plugins, plugin.serving(place, "gpu"):
        info = PluginInfo("DevicePlugin", GPU, str(place / "gpu"), ("v1beta1",))
        assert "" == plugins.problem(info)
        async with plugins.used(info):
            await trio.sleep(1)
            assert (1, 1) == numbers(plugins)
        await trio.sleep(1)
        assert (1, 0) == numbers(plugins)
        with pytest.raises(PluginFailed, match="context deadline exceeded"):
            async with plugins.used(PluginInfo("DevicePlugin", GPU, str(place / "none"), ("v1beta1",))):
                pass


@pytest.mark.parametrize(
    ("name", "versions", "why"),
    [
        (GPU, ("v1", "v2"), "manager version, v1beta1, is not among plugin supported versions [v1 v2]"),
        ("gpu", ("v1beta1",), 'invalid name of device plugin socket: the ResourceName "gpu" is invalid'),
    ],
)
def test_plugin_watcher_is_told_why_a_plugin_is_not_used(
    name: str, versions: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    plugins = DevicePlugins(tmp_path, GrpcDeviceSockets(), NoThreads())  # type: ignore[arg-type]
    assert why == plugins.problem(PluginInfo("DevicePlugin", name, "/s", versions))


def test_answer_of_a_plugin_is_read_whole() -> None:
    answer = pb.ContainerAllocateResponse(
        envs={"B": "2", "A": "1"},
        mounts=[pb.Mount(container_path="/c", host_path="/h", read_only=True)],
        devices=[pb.DeviceSpec(container_path="/dev/c", host_path="/dev/h", permissions="rw")],
        annotations={"a": "1"},
        cdi_devices=[pb.CDIDevice(name="vendor.com/gpu=one")],
    )
    assert RunOptions(
        envs=(("A", "1"), ("B", "2")),
        mounts=(Mount("/c", "/h", readonly=True),),
        devices=(Node("/dev/c", "/dev/h", "rw"),),
        annotations={"a": "1"},
        cdi_devices=("vendor.com/gpu=one",),
    ) == GrpcDeviceSockets().run_options(answer.SerializeToString())
    with pytest.raises(PluginFailed, match="the plugin's answer cannot be read"):
        GrpcDeviceSockets().run_options(b"\xff")


async def test_plugin_is_called_with_the_devices_of_one_container(autojump_clock: MockClock, place: Path) -> None:
    plugin = TestPlugin("a", "b", advice=("b",))
    async with plugin.serving(place, "gpu"), GrpcDeviceSockets().plugin(str(place / "gpu")) as client:
        assert PluginOptions(advises=True, needs_pre_start=True) == await client.options()
        assert ("b",) == await client.preferred(Question(("a", "b"), ("a",), 1))
        answer = await client.allocate({"b", "a"})
        assert RunOptions(envs=(("DEVICES", "a,b"),)) == GrpcDeviceSockets().run_options(answer)
        await client.pre_start({"b"})
        with pytest.raises(PluginFailed, match="rpc error: code = Internal desc = it is broken"):
            await client.pre_start({"broken"})
        plugin.refuses = True
        with pytest.raises(PluginFailed, match="no containers return in allocation response"):
            await client.allocate({"a"})
    assert [(["a", "b"], ["a"], 1), ["a", "b"], ("start", ["b"]), ("start", ["broken"]), ["a"]] == plugin.asked
