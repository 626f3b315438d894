"""The devices that plugins list, by resource, and the amounts that the node's status shows of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.model.devices import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.model.devices import Device

GRACE_SECONDS: Final = 300.0
"""How long the resource of a stopped plugin is kept. After that its amounts are 0 and no pod can have it."""

Inventory = dict[str, Resource]


class Amounts(NamedTuple):
    """The numbers of a resource's devices: all of them, and the healthy ones."""

    capacity: int
    allocatable: int


@dataclass(frozen=True, slots=True)
class Expiry:
    """The resources that are kept, and the names of those whose time is over."""

    kept: Inventory
    dropped: frozenset[str]


def restored(resources: Iterable[str], now_seconds: float) -> Inventory:
    """Return the inventory after a restart: the resources of the checkpoint, each without devices until its plugin
    registers."""
    return {name: Resource(stopped_at_seconds=now_seconds) for name in resources}


def listed(inventory: Mapping[str, Resource], resource: str, devices: Iterable[Device]) -> Inventory:
    """Return the inventory after a plugin listed its devices: the new list replaces the old one. The last
    entry of an id counts."""
    return {**inventory, resource: Resource({device.id: device for device in devices})}


def stopped(inventory: Mapping[str, Resource], resource: str, now_seconds: float) -> Inventory:
    """Return the inventory after a plugin stopped: its devices are unhealthy, and their time begins. A resource that
    stopped before keeps its time; an unknown one stays unknown."""
    before = inventory.get(resource)
    if before is None or before.stopped_at_seconds is not None:
        return dict(inventory)
    devices = {name: replace(device, is_healthy=False) for name, device in before.devices.items()}
    return {**inventory, resource: Resource(devices, now_seconds)}


def expired(inventory: Mapping[str, Resource], now_seconds: float) -> Expiry:
    """Return which resources are kept now: those of connected plugins, and of stopped ones until their grace ends."""
    kept = {
        name: resource
        for name, resource in inventory.items()
        if resource.stopped_at_seconds is None or now_seconds < resource.stopped_at_seconds + GRACE_SECONDS
    }
    return Expiry(kept, frozenset(inventory.keys() - kept.keys()))


def grace_ends_at(inventory: Mapping[str, Resource], now_seconds: float) -> float:
    """Return when the grace of the next stopped plugin ends; infinity if none is running."""
    ends = (one.stopped_at_seconds + GRACE_SECONDS for one in inventory.values() if one.stopped_at_seconds is not None)
    return min((at for at in ends if at > now_seconds), default=inf)


def awaited(inventory: Mapping[str, Resource], now_seconds: float, wait_seconds: float) -> dict[str, float]:
    """Return the resources whose plugins are away and may return, each with the time at which that is given up."""
    ends = {
        name: one.stopped_at_seconds + min(wait_seconds, GRACE_SECONDS)
        for name, one in inventory.items()
        if one.stopped_at_seconds is not None
    }
    return {name: at for name, at in ends.items() if now_seconds < at}


def amounts(inventory: Mapping[str, Resource], now_seconds: float) -> dict[str, Amounts]:
    """Return the amounts of each resource, by name. They are 0 for one whose grace has ended: like upstream, its name
    stays, because a name that is missing from the node's status is not a plugin's."""
    found = expired(inventory, now_seconds)
    shown = {
        name: Amounts(len(resource.devices), sum(device.is_healthy for device in resource.devices.values()))
        for name, resource in found.kept.items()
    }
    return shown | dict.fromkeys(found.dropped, Amounts(0, 0))
