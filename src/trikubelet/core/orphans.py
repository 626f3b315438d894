"""Finds the orphans that are an earlier version of a wanted pod.

A running pod that no source wants may still be wanted: by an unreadable manifest, or by a source that has not reported
yet. An orphan with the namespace and name of a wanted pod is not. It is that pod before an edit while no agent ran; two
pods of one name are never wanted at the same time. ``node.housekeeping`` stops it, whatever else is still unknown, and
``pods.earlier_instances`` decides which pods wait for its end.

Nor can both be wanted if a UID was moved to a pod of another name: the running pod is the earlier one.

Pods of the API server are an exception: one may have a static pod's name, and runs next to it. The runtime does not
show a pod's source, but its UID does. API servers only make UUIDs; a static pod has a hash, without a hyphen, or the
UID of its manifest, which may be a UUID. So a UUID is ambiguous, and waits for the API server.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trikubelet.core.names import namespaced_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.core.relist import PodRecord
    from trikubelet.model.k8s import Pod

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def may_be_of_api_server(orphan: PodRecord) -> bool:
    """True if the orphan may come from the API server; otherwise it was certainly a static pod."""
    return _UUID.fullmatch(orphan.uid) is not None


def earlier_versions(orphans: Sequence[PodRecord], wanted: Iterable[Pod]) -> list[PodRecord]:
    """Return the orphans whose namespace and name, or whose UID, a wanted pod has."""
    if not orphans:
        return []
    wanted = list(wanted)
    names, uids = {namespaced_name(pod) for pod in wanted}, {pod.metadata.uid for pod in wanted}
    return [orphan for orphan in orphans if (orphan.namespace, orphan.name) in names or orphan.uid in uids]


def has_another_name(record: PodRecord, pod: Pod) -> bool:
    """True if the runtime's pod under this pod's UID has another name. False if the runtime shows no name."""
    return bool(record.name) and (record.namespace, record.name) != namespaced_name(pod)


def awaited_by(pod: Pod, orphans: Sequence[PodRecord], *, pod_runs: bool) -> list[PodRecord]:
    """Return the orphans whose end a static pod must await. ``pod_runs``: a pod runs under its UID. Then an orphan of
    its name next to that is no earlier version, but perhaps a pod of the API server. It must not be awaited, because
    the API server itself may be the pod that waits. An orphan under the UID itself is all that runs there."""
    earlier = earlier_versions(orphans, [pod])
    if not pod_runs or any(orphan.uid == pod.metadata.uid for orphan in earlier):
        return earlier
    return [orphan for orphan in earlier if not may_be_of_api_server(orphan)]
