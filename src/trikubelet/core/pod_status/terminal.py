"""The final status of a pod, once nothing of it runs any more (upstream: TerminatePod).

Computed when the pod's worker has stopped the containers. Ends that were not observed must not look like success, so
every container without a known end counts as killed; only containers that could never start, because an init container
did not finish, keep waiting. The pod itself gets a terminal phase, because only then do controllers replace a pod and
does the API server delete it. Static pods keep their phase: they are not over while their manifest exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trikubelet.core.names import is_static
from trikubelet.core.pod_status.containers import NOT_FOUND_EXIT_CODE, NOT_FOUND_MESSAGE
from trikubelet.core.pod_status.merged import unready_at_end
from trikubelet.core.pod_status.phase import FAILED, TERMINAL, last_exit
from trikubelet.core.restarts import init_exit_code, is_sidecar
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Sequence


def terminate(pod: k8s.Pod, status: k8s.PodStatus, now: str) -> k8s.PodStatus:
    """Return the pod's final status. ``now`` (RFC 3339) becomes the transition time of its changes. A second call
    changes nothing more."""
    regular = status.container_statuses
    if _was_initialized(pod, status):
        regular = tuple(map(_ended, regular))
    reached = _reached(status.init_container_statuses)
    init = (*map(_ended, status.init_container_statuses[:reached]), *status.init_container_statuses[reached:])
    phase = status.phase if status.phase in TERMINAL or is_static(pod) else FAILED
    final = replace(status, phase=phase, container_statuses=regular, init_container_statuses=init)
    return unready_at_end(final, now)


def _ended(status: k8s.ContainerStatus) -> k8s.ContainerStatus:
    if status.state is not None and status.state.terminated is not None:
        return status
    unknown = k8s.ContainerStateTerminated(
        exit_code=NOT_FOUND_EXIT_CODE, reason="ContainerStatusUnknown", message=NOT_FOUND_MESSAGE
    )
    return replace(status, state=k8s.ContainerState(terminated=unknown), ready=False, started=False)


def _has_moved(status: k8s.ContainerStatus) -> bool:
    """True if the container ever left the state of waiting."""
    return status.state is None or status.state.waiting is None or last_exit(status) is not None


def _was_initialized(pod: k8s.Pod, status: k8s.PodStatus) -> bool:
    """True if the pod was initialised, so that its regular containers could start."""
    if not pod.spec.init_containers or any(map(_has_moved, status.container_statuses)):
        return True
    newest = pod.spec.init_containers[-1]
    shown = next((s for s in status.init_container_statuses if s.name == newest.name), None)
    if shown is None:
        return False
    if is_sidecar(newest):
        return shown.state is not None and shown.state.running is not None and bool(shown.started)
    exit_ = last_exit(shown)
    return exit_ is not None and init_exit_code(exit_.exit_code, exit_.reason) == 0


def _reached(init: Sequence[k8s.ContainerStatus]) -> int:
    """Return how many init containers had their turn: all up to the last that moved, and always the first."""
    moved = [index for index, status in enumerate(init) if _has_moved(status)]
    return moved[-1] + 1 if moved else 1
