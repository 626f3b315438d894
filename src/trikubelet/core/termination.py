"""The order in which a pod's containers are stopped, and the grace of each.

Regular containers go first, together. Sidecars outlive them and are stopped in the reverse of their starting order, one
after another, so that a proxy or a log shipper serves to the last. The preStop hooks of all run at once, before that.
The grace is one budget: the time for its hook and the wait for its turn is deducted from a container's grace, but the
runtime always gets two seconds (upstream: kuberuntime_container.go, kuberuntime_termination_order.go).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trikubelet.core.actions.records import KillReason
from trikubelet.core.lifecycle import spec_grace
from trikubelet.core.restarts import is_sidecar
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ContainerStatus, PodObservation

RUNTIME_GRACE_SECONDS_MIN = 2


def kill_stages(pod: Pod, observed: PodObservation) -> tuple[tuple[ContainerStatus, ...], ...]:
    """Return the containers to stop, in stages: a stage's containers are stopped together, the next stage when they
    have ended. Every container that runs, or may run, is in exactly one stage; those that the spec does not name are in
    the first."""
    alive = [s for s in observed.containers if s.state in (ContainerState.RUNNING, ContainerState.UNKNOWN)]
    sidecars = [container.name for container in pod.spec.init_containers if is_sidecar(container)]
    stages = [tuple(s for s in alive if s.name not in sidecars)]
    stages += [tuple(s for s in alive if s.name == name) for name in reversed(sidecars)]
    return tuple(stage for stage in stages if stage)


def container_grace(pod: Pod, container: Container | None, reason: KillReason) -> int:
    """Return the grace in seconds of one container that is killed while its pod lives on: the deletion's, the failed
    probe's own, or the pod's."""
    deletion = pod.metadata.deletion_grace_period_seconds
    if deletion is not None:
        return deletion
    probe = None
    if container is not None and reason is KillReason.LIVENESS:
        probe = container.liveness_probe
    elif container is not None and reason is KillReason.STARTUP:
        probe = container.startup_probe
    if probe is not None and probe.termination_grace_period_seconds is not None:
        return probe.termination_grace_period_seconds
    return spec_grace(pod.spec.termination_grace_period_seconds)


def grace_left(grace_seconds: float, used_seconds: float) -> int:
    """Return the rest of a partly used grace: whole seconds, rounded up, and never less than the runtime needs."""
    return max(RUNTIME_GRACE_SECONDS_MIN, math.ceil(grace_seconds - used_seconds))
