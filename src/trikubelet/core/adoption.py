"""Decides which running pod of another kubelet a static pod is, and returns the pod under that kubelet's UID.

Each kubelet computes the UID of a static pod from the manifest in its own way, so the same file gives another UID here
than under upstream's. The agent takes the UID of the pod that runs, so that nothing of it is restarted, and upstream's
kubelet finds the same UID again when the node goes back to it.

The runtime does not show the whole spec of a running pod. A pod is taken for what the manifest says if the names and
images of its containers agree and the file has not changed since the pod began: otherwise an edit that was made while
no kubelet ran would never be carried out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from trikubelet.core.container_hash import is_made_from
from trikubelet.core.names import CONFIG_HASH, all_containers

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import PodObservation

_COMPUTED: Final = re.compile(r"[0-9a-f]{32}")


def is_computed_uid(uid: str) -> bool:
    """True for a UID that a kubelet computed from a manifest. API servers make UUIDs, which have hyphens."""
    return _COMPUTED.fullmatch(uid) is not None


def why_not_same(pod: Pod, changed_ns: int | None, observed: PodObservation) -> str:
    """Return why the running pod is not the static pod of the manifest; "" if it is. ``changed_ns``: when the
    manifest's file last changed, None if that is not known."""
    box = observed.ready_sandbox
    if box is None:
        return "it does not run"
    if changed_ns is None or changed_ns >= box.created_at:
        return "its manifest was changed after its start"
    wanted = {container.name: container for container in all_containers(pod)}
    made = [one for one in observed.containers if one.sandbox_id == box.id]
    if not made:
        return "none of its containers was created"
    for one in made:
        if one.name not in wanted:
            return f"its container {one.name} is not in the manifest"
        newest = observed.latest(one.name)
        if newest is one and not (one.hash and is_made_from(wanted[one.name], one.hash)):
            return f"its container {one.name} has another image in the manifest"
    return ""


def with_uid(pod: Pod, uid: str) -> Pod:
    """Return the static pod under another kubelet's UID. Its mirror pod shows that UID, too."""
    annotations = {**pod.metadata.annotations, CONFIG_HASH: uid}
    return replace(pod, metadata=replace(pod.metadata, uid=uid, annotations=annotations))
