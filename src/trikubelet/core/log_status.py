"""Judges by a pod's status if a container has a log to show, and if not, why.

The API server passes the node's texts on, so ``kubectl logs`` prints these. They are upstream's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.names import with_ephemeral

if TYPE_CHECKING:
    from trikubelet.model import k8s

_OF_REASONS: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


def has_container(pod: k8s.Pod, container: str) -> bool:
    """True if the pod's spec has a container of that name, of any kind."""
    return any(one.name == container for one in with_ephemeral(pod))


def why_no_log(pod: k8s.Pod, container: str, *, previous: bool) -> str | None:
    """Return why the container's newest run, or the one before, has no log; None if it should have one."""
    where = f'"{container}" in pod "{pod.metadata.name}"'
    status = _status(pod, container)
    if status is None:
        return f"container {where} is not available"
    last = status.last_state.terminated if status.last_state is not None else None
    ran_before = last is not None and bool(last.container_id)
    if previous:
        return None if ran_before else f"previous terminated container {where} not found"
    state = status.state
    if state is not None and state.running is not None:
        return None
    if state is not None and state.terminated is not None:
        ran = bool(state.terminated.container_id) or ran_before
        return None if ran else f"container {where} is terminated"
    if last is not None:
        return None if ran_before else f"container {where} is terminated"
    if state is not None and state.waiting is not None:
        reason = state.waiting.reason
        return f"container {where} is waiting to start: {_OF_REASONS.get(reason, reason)}"
    return f"container {where} is waiting to start - no logs yet"


def _status(pod: k8s.Pod, container: str) -> k8s.ContainerStatus | None:
    if pod.status is None:
        return None
    statuses = (
        *pod.status.container_statuses,
        *pod.status.init_container_statuses,
        *pod.status.ephemeral_container_statuses,
    )
    return next((status for status in statuses if status.name == container), None)
