"""Updates a status from the probes and readiness gates alone.

A sync of a pod may take minutes: an image is pulled, a container stops within its grace. Probe results must not wait
for its end, above all the result that a container which is being stopped is no longer ready. So the last status is
corrected where it depends on probes, and nowhere else, because the sync will compute the rest from the observation it
began with (upstream: SetContainerReadiness and SetContainerStartup). The conditions of others are read again as well;
if one of them is a readiness gate, this correction is all that is needed, without a sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trikubelet.core.pod_status.conditions import known_conditions, of_serving
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.core.restarts import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.actions import Verdicts
    from trikubelet.model import k8s


def with_verdicts(pod: k8s.Pod, shown: k8s.PodStatus, verdicts: Verdicts, now: str) -> k8s.PodStatus:
    """Return the status with the present probe results of its running containers. ``now`` is RFC 3339."""
    if shown.phase in TERMINAL:
        return shown
    sidecars = [container for container in pod.spec.init_containers if is_sidecar(container)]
    init = _updated(shown.init_container_statuses, sidecars, verdicts)
    regular = _updated(shown.container_statuses, pod.spec.containers, verdicts)
    by_name = {status.name: status for status in (*init, *regular)}
    return replace(
        shown,
        init_container_statuses=init,
        container_statuses=regular,
        conditions=of_serving(pod, by_name, shown.phase, known_conditions(pod, shown), now),
    )


def _updated(
    statuses: Iterable[k8s.ContainerStatus], containers: Iterable[k8s.Container], verdicts: Verdicts
) -> tuple[k8s.ContainerStatus, ...]:
    probed = {container.name: container for container in containers}
    found = []
    for status in statuses:
        container, id_ = probed.get(status.name), status.container_id.rpartition("://")[2]
        if container is not None and status.state is not None and status.state.running is not None:
            found.append(
                replace(status, started=verdicts.is_started(container, id_), ready=verdicts.is_ready(container, id_))
            )
        else:
            found.append(status)
    return tuple(found)
