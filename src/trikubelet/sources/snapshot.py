"""The state of a source at one moment, on its way from the source through its slot to the mux."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.manifest.objects import ManifestObject
    from trikubelet.model.k8s import Pod
    from trikubelet.model.objects import ObjectRef


class Snapshot(Frozen):
    """All that a source desires now, and the ``objects`` for its pods to read. ``invalid_manifests``: manifests that
    have had faults since the agent began. Their earlier pods are unknown, so while there is one, orphans are left
    alone. ``undecodable``: pods whose newest version cannot be decoded, and why. They are desired with an unknown
    configuration, so their running containers stay as they are. All travel with the pods, because a fixed manifest and
    its pod must appear at the same moment. ``changed_ns``: when the files of static pods last changed, by the pods'
    UIDs; empty for sources that are not files. ``lives``: how often a pod's manifest was removed and written again, by
    UID: a pod with another number ends and starts again, though it is unchanged."""

    pods: tuple[Pod, ...] = ()
    invalid_manifests: tuple[str, ...] = ()
    undecodable: Mapping[ObjectRef, str] = field(default_factory=dict)
    objects: tuple[ManifestObject, ...] = ()
    changed_ns: Mapping[str, int] = field(default_factory=dict)
    lives: Mapping[str, int] = field(default_factory=dict)
