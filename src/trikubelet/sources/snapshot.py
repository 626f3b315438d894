"""What a source says at one moment, as it goes from the source through its slot to the mux."""

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
    """Everything a source wants now, and the ``objects`` beside its pods for them to read. ``invalid_manifests`` names
    its manifests that had faults when the agent began and have had them since: what pods they once brought nobody can
    know, so while there is one, orphans are left alone. ``undecodable`` are pods whose newest version nobody can read,
    and why: wanted, whatever they are, so what runs of them stays as it is. All travel with the pods, because a
    manifest is mended and its pod wanted again at the same moment. ``changed_ns``: when the files of static pods were
    changed last, by the pods' UIDs; empty for sources that are not files. ``lives`` counts, by UID,
    how often a pod's manifest was removed and written again: a pod with another number ends and starts again, though it
    is the same."""

    pods: tuple[Pod, ...] = ()
    invalid_manifests: tuple[str, ...] = ()
    undecodable: Mapping[ObjectRef, str] = field(default_factory=dict)
    objects: tuple[ManifestObject, ...] = ()
    changed_ns: Mapping[str, int] = field(default_factory=dict)
    lives: Mapping[str, int] = field(default_factory=dict)
