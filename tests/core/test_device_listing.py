"""The devices of pods and of the node, as the pod resources API lists them."""

from __future__ import annotations

from core.podkit import container, pod
from trikubelet.core.devices.listing import allocatable_devices, pod_resources
from trikubelet.model.devices import Device, Held, Holder, Resource
from trikubelet.model.pod_resources import ContainerResources, DeviceGroup, PodResources

GPU, NIC = "example.com/gpu", "example.com/nic"
NONE: frozenset[int] = frozenset()


def held(*ids: str, nodes: frozenset[int] = NONE) -> Held:
    return Held(dict.fromkeys(ids, nodes))


def test_devices_are_listed_once_each_by_resource_and_numa_nodes() -> None:
    devices = {"a": frozenset({1}), "b": NONE, "c": frozenset({1}), "d": frozenset({1, 0})}
    holdings = {Holder("u", "c", NIC): held("n"), Holder("u", "c", GPU): Held(devices)}
    (found,) = pod_resources([pod(container("c"), meta={"uid": "u"})], holdings)
    groups = (
        DeviceGroup(GPU, ("b",)),
        DeviceGroup(GPU, ("d",), (0, 1)),
        DeviceGroup(GPU, ("a", "c"), (1,)),
        DeviceGroup(NIC, ("n",)),
    )
    assert (ContainerResources("c", groups),) == found.containers


def test_sidecars_come_before_regular_containers_and_other_init_containers_are_left_out() -> None:
    init = (container("first"), container("sidecar", policy="Always"))
    one = pod(container("main"), init=init, meta={"uid": "u", "name": "p", "namespace": "n"})
    holdings = {Holder("u", name, GPU): held(name) for name in ("first", "sidecar", "main")}
    listed = tuple(ContainerResources(name, (DeviceGroup(GPU, (name,)),)) for name in ("sidecar", "main"))
    assert [PodResources("p", "n", listed)] == pod_resources([one], holdings)


def test_pods_without_devices_are_listed_and_holdings_of_other_pods_are_not() -> None:
    found = pod_resources([pod(container("c"), meta={"uid": "u"})], {Holder("other", "c", GPU): held("a")})
    assert [()] == [one.devices for listed in found for one in listed.containers]


def test_allocatable_devices_are_the_healthy_ones() -> None:
    devices = [Device("a", is_healthy=False), Device("b", numa_nodes=frozenset({2})), Device("c")]
    inventory = {GPU: Resource({one.id: one for one in devices}), NIC: Resource()}
    assert [DeviceGroup(GPU, ("c",)), DeviceGroup(GPU, ("b",), (2,))] == allocatable_devices(inventory)
