"""Everything a node knows of itself at one moment: what the status is built from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trikubelet.core.eviction import thresholds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from trikubelet.model.node_reading import NodeReading
    from trikubelet.model.runtime import ImageInfo, RuntimeInfo


@dataclass(frozen=True, slots=True)
class Pressures:
    """What the node is short of, as eviction sees it."""

    memory: bool = False
    disk: bool = False
    pids: bool = False

    @classmethod
    def of(cls, conditions: Collection[str]) -> Pressures:
        """By the conditions that hold, as ``core.eviction`` names them."""
        return cls(
            memory=thresholds.MEMORY_PRESSURE in conditions,
            disk=thresholds.DISK_PRESSURE in conditions,
            pids=thresholds.PID_PRESSURE in conditions,
        )


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One moment of a node.

    ``hostname`` is the Hostname address; ``addresses`` are IPs, the primary first: all that the node has, or with
    ``external_cloud`` what its controller may begin with; ``awaits_address``: it has none yet, is not to be registered,
    and what was published of it stays. ``capacity`` and ``allocatable`` are
    amounts as ``amounts`` has them. ``problems`` say why the node is not ready, one sentence each; without any it is.
    ``port`` is where the node's own API listens, 0 where it does not. ``images_max`` bounds the images reported, -1 for
    all.
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
