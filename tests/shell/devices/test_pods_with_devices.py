"""Pods with devices on a whole node: admitted, made, restarted and ended, with plugins at real sockets."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from msgspec.structs import replace

from shell.csikit import NoThreads
from shell.devicekit import TestPlugin, register
from shell.pods.shellkit import Bench, until
from trikubelet.cri.device_plugins import GrpcDeviceSockets
from trikubelet.devices.holdings import DeviceHoldings
from trikubelet.devices.plugins import DevicePlugins
from trikubelet.devices.pod_devices import PluginDevices
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.model.runtime_config import ContainerConfig

GPU = "example.com/gpu"
WAITS = f"waits for the device plugin of {GPU} to register"


def devices_at(place: Path, wait_seconds: float = 0.0, booted_ns: int = 0) -> PluginDevices:
    """The devices of one run of an agent."""
    sockets, threads = GrpcDeviceSockets(), NoThreads()
    plugins = DevicePlugins(place, sockets, threads)  # type: ignore[arg-type]
    holdings = DeviceHoldings(place, plugins, threads, booted_ns=booted_ns)  # type: ignore[arg-type]
    return PluginDevices(plugins, holdings, sockets, shows_health=True, wait_seconds=wait_seconds)


@asynccontextmanager
async def agent(
    bench: Bench, place: Path, *pods: k8s.Pod, wait_seconds: float = 0.0, booted_ns: int = 0
) -> AsyncGenerator[Node, None]:
    """One run of an agent on the bench."""
    bench.devices = devices_at(place, wait_seconds, booted_ns)
    async with bench.agent(*pods) as node:
        yield node


def asking(name: str, count: int = 1, command: tuple[str, ...] = ("run",), **fields: str) -> k8s.Container:
    resources = k8s.ResourceRequirements(limits={GPU: str(count)}, requests={GPU: str(count)})
    return container(name, command, resources=resources, **fields)


def wanting(name: str, count: int = 1, command: tuple[str, ...] = ("run",), source: str = "api") -> k8s.Pod:
    return pod(name, asking("c", count, command), source=source)


def made(bench: Bench, name: str = "c") -> list[ContainerConfig]:
    """The configurations of the containers of that name that run."""
    running = ContainerState.RUNNING
    found = [one.config for one in bench.world.containers.values() if one.status.state is running]
    return [config for config in found if config.name == name]


def env(config: ContainerConfig) -> str | None:
    return dict(config.envs).get("DEVICES")


def shown(node: Node, one: k8s.Pod) -> k8s.PodStatus:
    return node.statuses.get(one.metadata.uid) or k8s.PodStatus()


def starts(plugin: TestPlugin) -> list[list[str]]:
    """The devices of the starts that the plugin was told of."""
    return [one[1] for one in plugin.asked if isinstance(one, tuple) and one[0] == "start"]


def allocations(plugin: TestPlugin) -> list[list[str]]:
    return [one for one in plugin.asked if isinstance(one, list)]


@asynccontextmanager
async def registered(plugin: TestPlugin, place: Path, node: Node) -> AsyncGenerator[None, None]:
    """The plugin serves for the length of the block, and its devices are known."""
    async with plugin.serving(place, "gpu"):
        assert "" == await register(place, "gpu", GPU)
        await until(lambda: node.devices.amounts()[GPU].capacity == len(plugin.devices))
        yield


def desire(node: Node, *pods: k8s.Pod) -> None:
    node.slots["file"].put(Snapshot(pods))


async def test_containers_get_their_devices_and_pods_beyond_them_are_rejected(
    autojump_clock: MockClock, place: Path
) -> None:
    bench, plugin = Bench(), TestPlugin("a", "b")
    pods = [wanting(name) for name in ("first", "second", "third")]
    async with agent(bench, place) as node, registered(plugin, place, node):
        desire(node, *pods)
        await until(lambda: "Failed" in {shown(node, one).phase for one in pods} and 2 == len(made(bench)))
        assert {"a", "b"} == {env(config) for config in made(bench)}
        rejected = next(one for one in pods if shown(node, one).phase == "Failed")
        why = f"requested number of devices unavailable for {GPU}. Requested: 1, Available: 0"
        assert f"Pod was rejected: Allocate failed due to {why}, which is unexpected" == shown(node, rejected).message
        assert "UnexpectedAdmissionError" == shown(node, rejected).reason
        assert [["a"], ["b"]] == sorted(starts(plugin))


async def test_restarted_container_keeps_its_device_also_while_the_plugin_is_away(
    autojump_clock: MockClock, place: Path
) -> None:
    bench, plugin = Bench(), TestPlugin("a", "b")
    one = wanting("one", command=("exit", "1", "30"))
    async with agent(bench, place) as node, registered(plugin, place, node):
        desire(node, one)
        await until(lambda: 2 == len(starts(plugin)))
        assert [["a"]] == allocations(plugin)
    async with agent(bench, place, one) as node:  # and the plugin has not registered again
        runs = bench.world.runs[one.metadata.uid, "c"]
        before = len(runs)
        await until(lambda: len(runs) > before and bool(made(bench)), seconds=600)
        assert ["a"] == [env(config) for config in made(bench)]
        assert "Running" == shown(node, one).phase


async def test_later_containers_take_over_devices_of_init_containers_and_sidecars_keep_theirs(
    autojump_clock: MockClock, place: Path
) -> None:
    bench, plugin = Bench(), TestPlugin("a", "b", "c")
    init = (asking("first", 2, ("exit", "0", "5")), asking("side", restart_policy="Always"))
    one = pod("one", asking("c"), asking("d"), init=init, source="api")
    async with agent(bench, place) as node, registered(plugin, place, node):
        desire(node, one)
        await until(lambda: bool(made(bench, "d")))
        assert {"side": "a", "c": "b", "d": "c"} == {name: env(made(bench, name)[0]) for name in ("side", "c", "d")}
        assert ["a", "b"] in allocations(plugin)


async def test_devices_of_an_ended_pod_are_free_for_the_next(autojump_clock: MockClock, place: Path) -> None:
    bench, plugin = Bench(), TestPlugin("a")
    first, second = wanting("first"), wanting("second", source="file")
    async with agent(bench, place) as node, registered(plugin, place, node):
        desire(node, first)
        await until(lambda: bool(made(bench)))
        desire(node, second)  # in place of the first
        await until(lambda: ["a"] == [env(config) for config in made(bench)] and "Running" == shown(node, second).phase)
        assert {second.metadata.uid} == set(node.devices.holders())


async def test_failed_allocation_rejects_an_api_pod_and_a_static_pod_tries_again(
    autojump_clock: MockClock, place: Path
) -> None:
    bench, plugin = Bench(), TestPlugin("a", "b")
    plugin.refuses = True
    one, static = wanting("one"), wanting("static", source="file")
    async with agent(bench, place) as node, registered(plugin, place, node):
        desire(node, one, static)
        await until(lambda: "Failed" == shown(node, one).phase)
        why = "rpc error: code = Internal desc = no containers return in allocation response"
        assert f"Pod was rejected: Allocate failed due to {why}, which is unexpected" == shown(node, one).message
        assert "UnexpectedAdmissionError" == shown(node, one).reason
        await until(lambda: waiting(node, static) is not None)
        assert ("UnexpectedAdmissionError", f"Allocate failed due to {why}, which is unexpected") == waiting(
            node, static
        )
        assert "UnexpectedAdmissionError" in reasons(node, static)
        plugin.refuses = False
        await until(lambda: "Running" == shown(node, static).phase)
        assert "Failed" == shown(node, one).phase
        assert {static.metadata.uid} == set(node.devices.holders())
        assert [] == [config for config in made(bench) if config.envs == ()]


async def test_static_pod_does_not_run_without_a_device_that_no_plugin_brought(
    autojump_clock: MockClock, place: Path
) -> None:
    bench, plugin = Bench(), TestPlugin("a")
    static, other = wanting("static", source="file"), pod("other")
    async with agent(bench, place, static, other) as node:
        await until(lambda: "Failed" == shown(node, static).phase and "Running" == shown(node, other).phase)
        why = f"Allocate failed due to cannot allocate unregistered device {GPU}, which is unexpected"
        assert f"Pod was rejected: {why}" == shown(node, static).message
        async with registered(plugin, place, node):
            await until(lambda: "Running" == shown(node, static).phase)
            assert ["a"] == [env(config) for config in made(bench)]


@pytest.mark.parametrize("source", ["api", "file"])
async def test_pod_waits_visibly_for_a_plugin_that_is_late_after_a_restart(
    autojump_clock: MockClock, place: Path, source: str
) -> None:
    plugin, one = TestPlugin("a", "b"), wanting("one", source=source)
    bench = Bench()
    async with agent(bench, place) as node, registered(plugin, place, node):
        desire(node, one)
        await until(lambda: bool(made(bench)))
    bench = Bench()  # the runtime has lost its containers
    async with agent(bench, place, one, wait_seconds=120.0) as node:
        await until(lambda: waiting(node, one) is not None)
        await trio.sleep(60)
        assert ("WaitingForDevicePlugin", WAITS) == waiting(node, one)
        assert "Pending" == shown(node, one).phase
        assert "WaitingForDevicePlugin" in reasons(node, one)
        async with registered(plugin, place, node):
            with trio.fail_after(5):
                await until(lambda: ["a"] == [env(config) for config in made(bench)])
            await until(lambda: waiting(node, one) is None)


async def test_wait_for_a_plugin_ends_in_a_rejection(autojump_clock: MockClock, place: Path) -> None:
    plugin, one = TestPlugin("a"), wanting("one")
    async with agent(Bench(), place) as node, registered(plugin, place, node):
        await trio.sleep(5)  # the resource is recorded
    bench = Bench()
    async with agent(bench, place, one, wait_seconds=120.0) as node:
        await until(lambda: "Failed" == shown(node, one).phase, seconds=180)
        assert 120.0 <= trio.current_time()
        assert f"no healthy devices present; cannot allocate unhealthy devices {GPU}" in shown(node, one).message
        assert {} == bench.world.containers


async def test_without_a_wait_a_late_plugin_is_a_rejection_at_once_as_upstream(
    autojump_clock: MockClock, place: Path
) -> None:
    plugin, one = TestPlugin("a"), wanting("one")
    async with agent(Bench(), place) as node, registered(plugin, place, node):
        await trio.sleep(5)
    async with agent(Bench(), place, one) as node:
        await until(lambda: "Failed" == shown(node, one).phase, seconds=5)
        assert "UnexpectedAdmissionError" == shown(node, one).reason


async def test_pod_does_not_run_without_devices_that_the_node_has_dropped(
    autojump_clock: MockClock, place: Path
) -> None:
    bench, plugin, one = Bench(), TestPlugin("a"), wanting("one")
    async with agent(bench, place) as node:
        async with registered(plugin, place, node):
            pass
        await trio.sleep(400)
        assert (0, 0) == node.devices.amounts()[GPU]
        desire(node, one)
        await until(lambda: "Failed" == shown(node, one).phase)
        assert f"cannot allocate unregistered device {GPU}" in shown(node, one).message


async def test_after_a_boot_a_container_waits_for_its_plugin_and_gets_the_same_device(
    autojump_clock: MockClock, place: Path
) -> None:
    bench, plugin, one = Bench(), TestPlugin("a", "b"), wanting("one")
    async with agent(bench, place) as node, registered(plugin, place, node):
        desire(node, one)
        await until(lambda: bool(made(bench)))
    bench.world.reboot()
    plugin.devices = dict.fromkeys("ba", ("Healthy", ()))
    async with agent(bench, place, one, wait_seconds=60.0, booted_ns=1 << 62) as node:
        await until(lambda: ("WaitingForDevicePlugin", WAITS) == waiting(node, one))
        assert [] == made(bench)
        await trio.sleep(100)
        assert waiting(node, one) is not None
        async with registered(plugin, place, node):
            await until(lambda: ["a"] == [env(config) for config in made(bench)])
        assert [["a"], ["a"]] == allocations(plugin)


async def test_plugin_that_registered_again_is_asked_again_before_the_next_start(
    autojump_clock: MockClock, place: Path
) -> None:
    bench, plugin = Bench(), TestPlugin("a")
    one = wanting("one", command=("exit", "1", "30"))
    async with agent(bench, place) as node:
        async with registered(plugin, place, node):
            desire(node, one)
            await until(lambda: 2 == len(starts(plugin)))
            assert [["a"]] == allocations(plugin)
        async with registered(plugin, place, node):
            await until(lambda: [["a"], ["a"]] == allocations(plugin))
            plugin.refuses = True
        async with registered(plugin, place, node):
            before = len(starts(plugin))
            await until(lambda: len(starts(plugin)) > before, seconds=600)  # it keeps what it was given
            assert 3 <= len(allocations(plugin))


async def test_container_waits_for_a_plugin_that_fails_before_its_start(autojump_clock: MockClock, place: Path) -> None:
    bench, plugin = Bench(), TestPlugin("broken")
    one = wanting("one")
    async with agent(bench, place) as node, registered(plugin, place, node):
        desire(node, one)
        await until(lambda: waiting(node, one) is not None)
        why = "device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = it is broken"
        assert ("CreateContainerConfigError", why) == waiting(node, one)
        assert {} == bench.world.containers


async def test_health_of_devices_is_shown_and_followed(autojump_clock: MockClock, place: Path) -> None:
    bench, plugin = Bench(), TestPlugin("a")
    one = wanting("one", command=("exit", "0", "500"))
    one = replace(one, spec=replace(one.spec, restart_policy="Never"))
    async with agent(bench, place) as node:
        async with registered(plugin, place, node):
            desire(node, one)
            await until(lambda: [(GPU, "a", "Healthy")] == health(node, one))
            plugin.change(a="Unhealthy")
            await until(lambda: [(GPU, "a", "Unhealthy")] == health(node, one), seconds=2)
            assert (1, 0) == node.devices.amounts()[GPU]
        await until(lambda: [(GPU, "a", "Unknown")] == health(node, one), seconds=2)
        await until(lambda: "Succeeded" == shown(node, one).phase, seconds=600)
        await until(lambda: not node.devices.holders())
        assert [(GPU, "a", "Unknown")] == health(node, one)


async def test_devices_of_pods_that_left_nothing_are_free_after_all_sources_have_reported(
    autojump_clock: MockClock, place: Path
) -> None:
    bench, plugin = Bench(), TestPlugin("a")
    gone, one = wanting("gone"), wanting("one")
    async with agent(bench, place) as node, registered(plugin, place, node):
        desire(node, gone)
        await until(lambda: bool(made(bench)))
    bench = Bench()  # the machine was set up anew, except for the agent's record
    bench.devices = devices_at(place)
    async with bench.agent(sources=("file", "api")) as node, registered(plugin, place, node):
        await trio.sleep(60)
        assert {gone.metadata.uid} == set(node.devices.holders())
        node.slots["api"].put(Snapshot((one,)))
        await until(lambda: ["a"] == [env(config) for config in made(bench)])
        assert {one.metadata.uid} == set(node.devices.holders())


def reasons(node: Node, one: k8s.Pod) -> set[str]:
    return {event.reason for event in node.events.about(one.metadata.uid)}


def waiting(node: Node, one: k8s.Pod) -> tuple[str, str] | None:
    for status in shown(node, one).container_statuses:
        if status.state is not None and status.state.waiting is not None and status.state.waiting.message:
            return status.state.waiting.reason, status.state.waiting.message
    return None


def health(node: Node, one: k8s.Pod) -> list[tuple[str, str, str]]:
    return [
        (resource.name, device.resource_id, device.health)
        for status in shown(node, one).container_statuses
        for resource in status.allocated_resources_status
        for device in resource.resources
    ]
