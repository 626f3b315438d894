"""A node's report on itself at one moment, from which its status is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from trikubelet.core.eviction import thresholds
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from trikubelet.core.devices.inventory import Amounts
    from trikubelet.model.node_reading import NodeReading
    from trikubelet.model.runtime import ImageInfo, RuntimeInfo


class Pressures(Frozen):
    """The shortages of the node, from eviction."""

    memory: bool = False
    disk: bool = False
    pids: bool = False

    @classmethod
    def of(cls, conditions: Collection[str]) -> Pressures:
        """Return the pressures for these conditions of ``core.eviction``."""
        return cls(
            memory=thresholds.MEMORY_PRESSURE in conditions,
            disk=thresholds.DISK_PRESSURE in conditions,
            pids=thresholds.PID_PRESSURE in conditions,
        )


class NodeReport(Frozen):
    """One moment of a node.

    ``hostname`` is the Hostname address; ``addresses`` are IPs, the primary first: all of the node's, or with
    ``external_cloud`` those its controller may begin with; ``awaits_address``: it has none yet, must not be registered,
    and its published ones stay. ``capacity`` and ``allocatable`` are amounts of ``amounts``. ``problems``: why the node
    is not ready, one sentence each; without any it is ready. ``port``: that of the node's own API, 0 if there is none.
    ``images_max`` limits the reported images, -1 for all. ``devices``: the amounts of device plugins' resources;
    ``keeps_extended``: an earlier agent has recorded them, so what a registered node shows of other resources stays.
    """

    hostname: str
    addresses: Sequence[str]
    reading: NodeReading
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    version: str
    runtime: RuntimeInfo | None = None
    images: Sequence[ImageInfo] = ()
    images_max: int = 50
    volumes_in_use: Sequence[str] = ()
    port: int = 0
    pressures: Pressures = field(default_factory=Pressures)
    problems: Sequence[str] = ()
    external_cloud: bool = False
    awaits_address: bool = False
    devices: Mapping[str, Amounts] = field(default_factory=dict)
    keeps_extended: bool = False
