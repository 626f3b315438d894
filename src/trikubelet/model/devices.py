"""Devices of device plugins, and the holdings of containers, without the transport (device plugin API v1beta1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from trikubelet.model import runtime_config

API_VERSION: Final = "v1beta1"
DEVICE_PLUGIN: Final = "DevicePlugin"
"""The kind of a device plugin, as it introduces itself to the plugin watcher."""
HEALTHY: Final = "Healthy"
"""The only health that upstream takes for healthy; a plugin may send any text."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device as its plugin lists it. ``numa_nodes``: the NUMA nodes it is close to, none if the plugin names none."""

    id: str
    is_healthy: bool = True
    numa_nodes: AbstractSet[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Resource:
    """The devices of one extended resource, by id. ``stopped_at_seconds``: when its plugin went, on the caller's clock;
    None while the plugin is connected. A stopped plugin's devices are all unhealthy."""

    devices: Mapping[str, Device] = field(default_factory=dict)
    stopped_at_seconds: float | None = None


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """The container that holds devices, and their resource."""

    pod_uid: str
    container: str
    resource: str


@dataclass(frozen=True, slots=True)
class Held:
    """The devices of one holder, by id, each with its NUMA nodes. ``answer``: the plugin's ContainerAllocateResponse as
    it came, which each making of the container uses again; empty if the plugin was not asked yet."""

    devices: Mapping[str, AbstractSet[int]]
    answer: bytes = b""


Holdings = dict[Holder, Held]


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """The calls that a plugin wants beyond Allocate."""

    advises: bool = False
    needs_pre_start: bool = False


@dataclass(frozen=True, slots=True)
class Registering:
    """The request of a plugin to be used. ``endpoint``: the name of its socket in the directory of device plugins."""

    version: str
    endpoint: str
    resource: str


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The additions to a container's configuration that its devices need. ``cdi_devices``: names of devices that the
    runtime looks up by the Container Device Interface."""

    envs: tuple[tuple[str, str], ...] = ()
    mounts: tuple[runtime_config.Mount, ...] = ()
    devices: tuple[runtime_config.Device, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()
