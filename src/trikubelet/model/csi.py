"""The requests to and answers from a driver of the Container Storage Interface, without the transport.

``ports.CsiDriver`` takes and gives these; ``cri.plugin_sockets`` turns them into gRPC. Numbers are the interface's own
(github.com/container-storage-interface/spec, csi.proto v1).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from msgspec import field

from trikubelet.model.frozen import Discreet, Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

CSI_PLUGIN: Final = "CSIPlugin"


class Capability(IntEnum):
    """An ability of a driver on a node besides publishing."""

    STAGE_UNSTAGE_VOLUME = 1
    GET_VOLUME_STATS = 2
    EXPAND_VOLUME = 3
    VOLUME_CONDITION = 4
    SINGLE_NODE_MULTI_WRITER = 5
    VOLUME_MOUNT_GROUP = 6


class AccessMode(IntEnum):
    """Which nodes and pods may use a volume at the same time."""

    SINGLE_NODE_WRITER = 1
    SINGLE_NODE_READER_ONLY = 2
    MULTI_NODE_READER_ONLY = 3
    MULTI_NODE_SINGLE_WRITER = 4
    MULTI_NODE_MULTI_WRITER = 5
    SINGLE_NODE_SINGLE_WRITER = 6
    SINGLE_NODE_MULTI_WRITER = 7


class DriverInfo(Frozen):
    """This node in the eyes of a driver. ``volumes_max``: how many of its volumes fit, 0 for no limit; ``topology``:
    where the node is, as labels."""

    node_id: str
    volumes_max: int = 0
    topology: Mapping[str, str] = field(default_factory=dict)


class Use(Frozen):
    """How a volume is to be used. ``group``: the group its files are to belong to, where the driver sees to that, as a
    number in words."""

    access_mode: AccessMode
    is_block: bool = False
    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()
    group: str = ""


class Stage(Discreet):
    """A volume to be made ready on this node, for all pods that will use it. ``attached``: what was learnt when it was
    attached to the node; ``context``: what is known of it. Secrets show in no log."""

    hidden = ("secrets",)

    volume_id: str
    staging_path: str
    use: Use
    attached: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    context: Mapping[str, str] = field(default_factory=dict)


class Publish(Discreet):
    """A volume to be made visible to one pod at ``target_path``; ``staging_path`` is "" for a driver that does not
    stage. Fields that may hold a token show in no log."""

    hidden = ("secrets", "context")

    volume_id: str
    target_path: str
    use: Use
    staging_path: str = ""
    read_only: bool = False
    attached: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    context: Mapping[str, str] = field(default_factory=dict)


class Expand(Discreet):
    """A volume that is larger than it is known to be on this node, where it is published at ``path``. Secrets show in
    no log."""

    hidden = ("secrets",)

    volume_id: str
    path: str
    required_bytes: int
    use: Use
    staging_path: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict)


class VolumeStats(Frozen):
    """A driver's report on a volume, None where it has none. ``is_abnormal``: something is wrong with it;
    ``condition``: how it is, in the driver's words."""

    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None
    is_abnormal: bool | None = None
    condition: str = ""
