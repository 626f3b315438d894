"""Which orphans are an earlier version of a pod that is wanted.

What runs and no source wants may still be wanted: by a manifest that nobody can read, or by a source that has not
spoken. Not so what runs under the namespace and name of a wanted pod. It is that pod, as it was before it was edited
while no agent lived; two pods of one name are never wanted side by side. ``node.housekeeping`` stops it, whatever else
is not known yet, and ``pods.earlier_instances`` says who waits for its end.

Nor can both be wanted where a UID was moved to a pod of another name: what runs under it is the earlier one.

But for what the API server may have brought: a pod of it may have a static pod's name, and runs beside it. The runtime
does not say whose a pod is; its UID does. API servers make UUIDs and nothing else; a static pod has a hash, without a
hyphen, or what its manifest says, and that may be a UUID. So a UUID is not certain, and waits for the API server.
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
    """Whether the API server may have brought it; if not, it was certainly a static pod."""
    return _UUID.fullmatch(orphan.uid) is not None


def earlier_versions(orphans: Sequence[PodRecord], wanted: Iterable[Pod]) -> list[PodRecord]:
    """The orphans whose namespace and name, or whose UID, a wanted pod has."""
    if not orphans:
        return []
    wanted = list(wanted)
    names, uids = {namespaced_name(pod) for pod in wanted}, {pod.metadata.uid for pod in wanted}
    return [orphan for orphan in orphans if (orphan.namespace, orphan.name) in names or orphan.uid in uids]


def has_another_name(record: PodRecord, pod: Pod) -> bool:
    """Whether what the runtime has under the pod's UID was made for a pod of another name. Not where the runtime says
    no name."""
    return bool(record.name) and (record.namespace, record.name) != namespaced_name(pod)


def awaited_by(pod: Pod, orphans: Sequence[PodRecord], *, pod_runs: bool) -> list[PodRecord]:
    """The orphans for whose end a static pod waits. ``pod_runs``: something runs under its UID. Then an orphan of its
    name, which runs beside that, is no version of it, but of the API server, if that may have brought it: it must not
    be waited for, since the API server may be what this pod runs. One under the UID itself is all that runs there."""
    earlier = earlier_versions(orphans, [pod])
    if not pod_runs or any(orphan.uid == pod.metadata.uid for orphan in earlier):
        return earlier
    return [orphan for orphan in earlier if not may_be_of_api_server(orphan)]
