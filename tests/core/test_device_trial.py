"""The trial of a pod's needs before its admission, and the health of the devices that it holds."""

from __future__ import annotations

import pytest

from core.podkit import container, pod
from trikubelet.core.devices.health import health_of
from trikubelet.core.devices.trial import refusal
from trikubelet.model import k8s
from trikubelet.model.devices import Device, Held, Holder, Resource

GPU, NIC = "example.com/gpu", "example.com/nic"
THERE = {GPU: Resource({name: Device(name) for name in "abc"})}


def asks(name: str, count: int, resource: str = GPU) -> k8s.Container:
    return container(name, resources=k8s.ResourceRequirements(limits={resource: str(count)}))


def held(**holders: str) -> dict[Holder, Held]:
    """Holdings of other pods: the ids by the pods' UIDs, one letter each."""
    return {Holder(uid, "c", GPU): Held(dict.fromkeys(ids, frozenset()), b"x") for uid, ids in holders.items()}


@pytest.mark.parametrize(
    ("one", "holdings", "why"),
    [
        (pod("c"), held(v="abc"), ""),
        (pod(asks("c", 3)), {}, ""),
        (pod(asks("c", 2), asks("d", 1)), {}, ""),
        (pod(asks("c", 2), asks("d", 2)), {}, "Requested: 2, Available: 1"),
        (pod(asks("c", 2), init=(asks("i", 3),)), {}, ""),
        (pod(asks("c", 2)), held(v="ab"), "Requested: 2, Available: 1"),
        (pod(asks("c", 1, NIC)), {}, ""),
        (pod(asks("c", 1, NIC)), {Holder("v", "c", NIC): Held({"n": frozenset()})}, f"unregistered device {NIC}"),
    ],
    ids=["none", "all", "in turn", "too many", "init's are reused", "held", "unknown", "held, plugin gone"],
)
def test_pod_is_refused_only_if_its_needs_together_cannot_be_met(
    one: k8s.Pod, holdings: dict[Holder, Held], why: str
) -> None:
    found = refusal(one, THERE, holdings, {GPU, *(holder.resource for holder in holdings)})
    assert why in found
    assert bool(why) == bool(found)


def test_resource_that_only_a_plugin_can_bring_is_awaited() -> None:
    one = pod(asks("c", 1, NIC))
    assert f"cannot allocate unregistered device {NIC}" == refusal(one, THERE, {}, {GPU, NIC})


def test_plugin_that_is_away_and_may_return_is_no_refusal() -> None:
    both = pod(asks("c", 1, NIC), asks("d", 4))
    away = {**THERE, NIC: Resource({"n": Device("n", is_healthy=False)}, stopped_at_seconds=1.0)}
    assert "no healthy devices present" in refusal(both, away, {}, away)
    assert "" == refusal(pod(asks("c", 1, NIC)), away, {}, away, awaited={NIC})
    assert "Requested: 4, Available: 3" in refusal(both, away, {}, away, awaited={NIC})


def test_health_is_the_plugins_word_and_unknown_without_one() -> None:
    inventory = {
        GPU: Resource({"a": Device("a"), "b": Device("b", is_healthy=False)}),
        NIC: Resource({"n": Device("n", is_healthy=False)}, stopped_at_seconds=1.0),
    }
    holdings = {
        Holder("u", "c", GPU): Held(dict.fromkeys("zba", frozenset())),
        Holder("u", "c", NIC): Held({"n": frozenset()}),
        Holder("u", "d", "example.com/old"): Held({"o": frozenset()}),
        Holder("v", "c", GPU): Held({"x": frozenset()}),
    }
    found = health_of("u", inventory, holdings)
    assert [(GPU, "a", "Healthy"), (GPU, "b", "Unhealthy"), (GPU, "z", "Unknown"), (NIC, "n", "Unknown")] == [
        (one.name, device.resource_id, device.health) for one in found["c"] for device in one.resources
    ]
    assert ["Unknown"] == [device.health for one in found["d"] for device in one.resources]
