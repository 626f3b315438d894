"""The pod resources API, asked over its socket."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import container, pod
from shell.csikit import NoThreads
from shell.devicekit import TestPlugin, register
from trikubelet.cri.channel import open_channel
from trikubelet.cri.device_plugins import GrpcDeviceSockets
from trikubelet.cri.methods import UnaryUnaryMethod
from trikubelet.cri.plugin_v1 import pod_resources_pb2 as pb
from trikubelet.cri.plugin_v1.pod_resources_grpc import PodResourcesListerStub
from trikubelet.cri.pod_resources import GrpcPodResources
from trikubelet.devices.holdings import DeviceHoldings
from trikubelet.devices.none import NoDevices
from trikubelet.devices.plugins import DevicePlugins
from trikubelet.devices.pod_devices import PluginDevices
from trikubelet.devices.pod_resources import CALLS_BURST, PodResourcesServer
from trikubelet.model import k8s
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.cri.channel import Channel

GPU = "example.com/gpu"
REQUEST = pb.ListPodResourcesRequest()


def wanting(name: str) -> k8s.Pod:
    resources = k8s.ResourceRequirements(limits={GPU: "1"})
    return pod(container("c", resources=resources), meta={"uid": f"uid-{name}", "name": name, "namespace": "ns"})


@asynccontextmanager
async def served(place: Path, active: list[k8s.Pod]) -> AsyncGenerator[Channel, None]:
    """A client of the API. The node has the devices a and b, and its active pods hold one each."""
    threads = NoThreads()
    plugins = DevicePlugins(place, GrpcDeviceSockets(), threads)  # type: ignore[arg-type]
    holdings = DeviceHoldings(place, plugins, threads)  # type: ignore[arg-type]
    directory = place / "pod-resources"
    devices = PluginDevices(plugins, holdings, GrpcDeviceSockets(), shows_health=True, wait_seconds=0)
    server = PodResourcesServer(directory, GrpcPodResources(), lambda: active, devices, threads)  # type: ignore[arg-type]
    plugin = TestPlugin("a", "b")
    async with trio.open_nursery() as nursery:
        await nursery.start(devices.run)
        await nursery.start(server.run)
        async with plugin.serving(place, "gpu"):
            assert "" == await register(place, "gpu", GPU)
            await trio.sleep(1)
            for one in active:
                await holdings.ensure(one)
            async with open_channel(str(directory / "kubelet.sock")) as channel:
                yield channel
        nursery.cancel_scope.cancel()


async def test_active_pods_are_listed_with_their_devices(autojump_clock: MockClock, place: Path) -> None:
    active = [wanting("one"), wanting("two")]
    async with served(place, active) as channel:
        listing = PodResourcesListerStub(channel).List
        found = {
            (one.namespace, one.name): [list(group.device_ids) for each in one.containers for group in each.devices]
            for one in (await listing(REQUEST)).pod_resources
        }
        assert {("ns", "one"): [["a"]], ("ns", "two"): [["b"]]} == found
        del active[0]
        assert ["two"] == [one.name for one in (await listing(REQUEST)).pod_resources]


async def test_clients_of_v1alpha1_get_the_list(autojump_clock: MockClock, place: Path) -> None:
    async with served(place, [wanting("one")]) as channel:
        name = "/v1alpha1.PodResourcesLister/List"
        listing = UnaryUnaryMethod(channel, name, pb.ListPodResourcesRequest, pb.ListPodResourcesResponse)
        assert ["one"] == [one.name for one in (await listing(REQUEST)).pod_resources]


async def test_one_pod_is_found_by_its_name_and_an_inactive_one_is_not(autojump_clock: MockClock, place: Path) -> None:
    async with served(place, [wanting("one")]) as channel:
        get = PodResourcesListerStub(channel).Get
        found = await get(pb.GetPodResourcesRequest(pod_name="one", pod_namespace="ns"))
        assert "one" == found.pod_resources.name
        with pytest.raises(RuntimeCallError, match="pod two in namespace ns not found"):
            await get(pb.GetPodResourcesRequest(pod_name="two", pod_namespace="ns"))


async def test_healthy_devices_are_allocatable_also_if_they_are_used(autojump_clock: MockClock, place: Path) -> None:
    async with served(place, [wanting("one")]) as channel:
        found = await PodResourcesListerStub(channel).GetAllocatableResources(pb.AllocatableResourcesRequest())
        assert [(GPU, ["a", "b"])] == [(one.resource_name, list(one.device_ids)) for one in found.devices]


async def test_calls_beyond_the_rate_limit_are_refused_until_it_allows_more(
    autojump_clock: MockClock, place: Path
) -> None:
    async with served(place, []) as channel:
        listing = PodResourcesListerStub(channel).List
        for _ in range(CALLS_BURST):
            await listing(REQUEST)
        with pytest.raises(RuntimeCallError, match="rejected by rate limit"):
            await listing(REQUEST)
        await trio.sleep(1)
        await listing(REQUEST)


async def test_calls_are_counted_by_method_and_version_and_failed_ones_apart(place: Path) -> None:
    devices = NoDevices()
    server = PodResourcesServer(place, GrpcPodResources(), list, devices, NoThreads())  # type: ignore[arg-type]
    server.all("v1")
    server.all("v1alpha1")
    server.allocatable()
    assert server.of("ns", "absent") is None
    once = [("list", "v1"), ("list", "v1alpha1"), ("get_allocatable", "v1"), ("get", "v1")]
    assert dict.fromkeys(once, 1) == devices.figures.calls
    assert {("get", "v1"): 1} == devices.figures.errors


async def test_socket_that_cannot_be_made_is_reported_and_the_agent_goes_on(
    autojump_clock: MockClock, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (place / "file").touch()
    server = PodResourcesServer(place / "file", GrpcPodResources(), list, NoDevices(), NoThreads())  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        nursery.cancel_scope.cancel()
    assert "Cannot serve the pod resources API at" in caplog.text
