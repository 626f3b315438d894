"""The devices that plugins list, and what the node's status has of them."""

from __future__ import annotations

from math import inf

from trikubelet.core.devices.inventory import (
    GRACE_SECONDS,
    Amounts,
    Inventory,
    amounts,
    awaited,
    expired,
    grace_ends_at,
    listed,
    restored,
    stopped,
)
from trikubelet.model.devices import Device, Resource

GPU = "example.com/gpu"


def devices(*states: str) -> list[Device]:
    """Devices by their names, unhealthy where the name ends with a ``!``."""
    return [Device(name.rstrip("!"), is_healthy=not name.endswith("!")) for name in states]


def of(inventory: Inventory) -> tuple[int, int]:
    found = amounts(inventory, 100.0)[GPU]
    return (found.capacity, found.allocatable)


def test_each_list_of_a_plugin_replaces_the_one_before() -> None:
    inventory = listed({}, GPU, devices("a", "b", "c!"))
    assert (3, 2) == of(inventory)
    inventory = listed(inventory, GPU, devices("a", "b"))
    assert (2, 2) == of(inventory)
    inventory = listed(inventory, GPU, devices("a", "b!", "d!"))
    assert (3, 1) == of(inventory)
    assert (2, 0) == of(listed(inventory, GPU, devices("b!", "d!")))


def test_devices_of_a_stopped_plugin_are_unhealthy_and_go_after_the_grace() -> None:
    inventory = stopped(listed({}, GPU, devices("a", "b", "c")), GPU, 100.0)
    assert (3, 0) == of(inventory)
    assert frozenset() == expired(inventory, 100.0 + GRACE_SECONDS - 1).dropped
    gone = expired(inventory, 100.0 + GRACE_SECONDS)
    assert ({}, {GPU}) == (gone.kept, gone.dropped)
    assert {GPU: Amounts(0, 0)} == amounts(inventory, 100.0 + GRACE_SECONDS)


def test_end_of_the_next_grace_is_known() -> None:
    both = listed(listed({}, GPU, devices("a")), "example.com/nic", devices("n"))
    assert inf == grace_ends_at(both, 0.0)
    inventory = stopped(stopped(both, GPU, 100.0), "example.com/nic", 200.0)
    assert 100.0 + GRACE_SECONDS == grace_ends_at(inventory, 250.0)
    assert 200.0 + GRACE_SECONDS == grace_ends_at(inventory, 100.0 + GRACE_SECONDS)
    assert inf == grace_ends_at(inventory, 200.0 + GRACE_SECONDS)


def test_plugin_that_is_away_is_awaited_for_the_configured_time_and_never_beyond_the_grace() -> None:
    inventory = stopped(listed(listed({}, GPU, devices("a")), "example.com/nic", devices("n")), GPU, 100.0)
    assert {GPU: 130.0} == awaited(inventory, 129.0, 30.0)
    assert {} == awaited(inventory, 130.0, 30.0) == awaited(inventory, 100.0, 0.0)
    assert {GPU: 100.0 + GRACE_SECONDS} == awaited(inventory, 129.0, 1e6)


def test_second_stop_does_not_prolong_the_grace() -> None:
    inventory = stopped(stopped(listed({}, GPU, devices("a")), GPU, 100.0), GPU, 300.0)
    assert {GPU} == expired(inventory, 100.0 + GRACE_SECONDS).dropped
    assert {} == stopped({}, GPU, 100.0)


def test_plugin_that_registers_again_ends_the_grace() -> None:
    inventory = listed(stopped(listed({}, GPU, devices("a")), GPU, 100.0), GPU, devices("a", "b"))
    assert {GPU: Resource({"a": Device("a"), "b": Device("b")})} == expired(inventory, 1e9).kept
    assert (2, 2) == of(inventory)


def test_resource_of_the_checkpoint_has_no_devices_until_its_plugin_registers() -> None:
    inventory = restored([GPU], 100.0)
    assert {GPU: Amounts(0, 0)} == amounts(inventory, 100.0)
    assert {GPU} == expired(inventory, 100.0 + GRACE_SECONDS).dropped
