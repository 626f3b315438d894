"""Counting the pods of a node by their state, on request (``server.node_figures.Tally``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.lifecycle import Finished, StopReason, Terminated, Terminating
from trikubelet.core.names import is_static
from trikubelet.core.pod_status.resizing import IN_PROGRESS
from trikubelet.core.resize.priority import priority_bucket
from trikubelet.core.volume_plugins import plugin_name
from trikubelet.server.node_figures import Tally, Work

if TYPE_CHECKING:
    from trikubelet.app.node import Node
    from trikubelet.model import k8s
    from trikubelet.pods.worker import PodWorker


def tally(node: Node, *, in_cluster: bool) -> Tally:
    """Return the current pods. ``in_cluster``: static pods have mirror pods, which stay as long as a manifest has the
    pod, terminated or not (``core.mirror``)."""
    found = Tally()
    desired = {pod.metadata.uid: pod for pod in node.desired}
    for pod in desired.values():
        found.desired[is_static(pod)] += 1
        found.ephemeral_containers += len(pod.spec.ephemeral_containers)
        found.volumes.update(map(plugin_name, pod.spec.volumes))
    for worker in node.workers:
        is_wanted = worker.pod.metadata.uid in desired
        found.working[_work(worker, is_wanted=is_wanted)] += 1
        if is_wanted and _is_active(worker):
            found.active[is_static(worker.pod)] += 1
        shown = node.statuses.get(worker.pod.metadata.uid)
        found.resizes_under_way += shown is not None and any(one.type == IN_PROGRESS for one in shown.conditions)
    for uid, waiting in node.resize_notes.all_pending().items():
        found.resizes_pending[waiting.reason, priority_bucket(desired.get(uid))] += 1
    if in_cluster:
        found.mirrors = found.desired[True]
    return found


def active_pods(node: Node) -> list[k8s.Pod]:
    """Return the pods that run, end, or are to run."""
    return [worker.pod for worker in node.workers if _is_active(worker)]


def _is_active(worker: PodWorker) -> bool:
    return not isinstance(worker.state, Terminated | Finished)


def _work(worker: PodWorker, *, is_wanted: bool) -> Work:
    state = worker.state
    if isinstance(state, Terminating):
        lifecycle = "terminating"
    else:
        lifecycle = "terminated" if isinstance(state, Terminated | Finished) else "sync"
    if isinstance(state, Terminating | Terminated | Finished) and state.reason is StopReason.ORPHANED:
        return Work(lifecycle, "runtime_only", "unknown")
    return Work(lifecycle, "desired" if is_wanted else "orphan", "true" if is_static(worker.pod) else "")
