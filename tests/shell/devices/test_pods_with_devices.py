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


def devices_at(place: Path) -> PluginDevices:
    """What one run of an agent has for devices."""
    sockets, threads = GrpcDeviceSockets(), NoThreads()
    plugins = DevicePlugins(place, sockets, threads)  # type: ignore[arg-type]
    holdings = DeviceHoldings(place, plugins, threads)  # type: ignore[arg-type]
    return PluginDevices(plugins, holdings, sockets, shows_health=True)


@asynccontextmanager
async def agent(bench: Bench, place: Path, *pods: k8s.Pod) -> AsyncGenerator[Node, None]:
    """One run of an agent on the bench."""
    bench.devices = devices_at(place)
    async with bench.agent(*pods) as node:
        yield node


def wanting(name: str, count: int = 1, *, command: tuple[str, ...] = ("run",), static: bool = False) -> k8s.Pod:
    one = container("c", *command, resources=k8s.ResourceRequirements(limits={GPU: str(count)}))
    made = pod(name, one)
    return made if static else from_api(made)


def from_api(made: k8s.Pod) -> k8s.Pod:
    """The pod as the API server has it, which another controller replaces when it fails."""
    return replace(made, metadata=replace(made.metadata, annotations={"kubernetes.io/config.source": "api"}))


def made(bench: Bench, name: str = "c") -> list[ContainerConfig]:
    """The configurations of the containers of that name that run."""
    running = ContainerState.RUNNING
    found = [one.config for one in bench.world.containers.values() if one.status.state is running]
    return [config for config in found if config.name == name]


def env(config: ContainerConfig) -> str | None:
    return dict(config.envs).get("DEVICES")


def shown(node: Node, one: k8s.Pod) -> k8s.PodStatus:
    return node.statuses.get(one.metadata.uid) or k8s.PodStatus()


async def test_containers_get_their_devices_and_pods_beyond_them_are_rejected(
    autojump_clock: MockClock, place: Path
) -> None:
    bench, plugin = Bench(), TestPlugin("a", "b")
    first, second, third = (wanting(name) for name in ("first", "second", "third"))
    async with agent(bench, place) as node, plugin.serving(place, "gpu"):
        assert "" == await register(place, "gpu", GPU)
        await until(lambda: bool(node.devices.resources()))
        node.slots["file"].put(Snapshot((first, second, third)))
        await until(lambda: "Failed" in {shown(node, one).phase for one in (first, second, third)})
        await until(lambda: 2 == len(made(bench)))
        assert {"a", "b"} == {env(config) for config in made(bench)}
        rejected = next(one for one in (first, second, third) if shown(node, one).phase == "Failed")
        assert "UnexpectedAdmissionError" == shown(node, rejected).reason
        assert (
            "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
            f"{GPU}. Requested: 1, Available: 0, which is unexpected"
        ) == shown(node, rejected).message
        assert {"a", "b"} == {ids[0] for kind, ids in starts(plugin) if kind == "start"}


def starts(plugin: TestPlugin) -> list[tuple[str, list[str]]]:
    return [one for one in plugin.asked if isinstance(one, tuple) and len(one) == 2]
