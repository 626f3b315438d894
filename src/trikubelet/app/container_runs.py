"""Finds the run of a container that a reader means: for its log, or for a command."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from trikubelet.app.shown_pods import observed
from trikubelet.core.names import log_directory_name, log_path, with_ephemeral
from trikubelet.kit.disk import DISK_SECONDS_MAX, disk_in_time
from trikubelet.kit.thread_shares import ThreadShares
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState
from trikubelet.server.node_view import LogPlace, NotShown, RunningContainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trikubelet.app.node import Node
    from trikubelet.app.shown_pods import ShownPods
    from trikubelet.model.runtime import ContainerStatus


class ContainerRuns:
    """Finds runs by the names of pods and containers. Owns the threads that their logs are read in."""

    def __init__(self, node: Node, pods: ShownPods, pod_logs: str) -> None:
        """``pod_logs``: the directory of the pods' log directories."""
        self._node = node
        self._pods = pods
        self._pod_logs = pod_logs
        self._threads = ThreadShares("logs that are read")

    async def log(self, namespace: str, name: str, container: str, *, previous: bool) -> LogPlace:
        """Return the log of a container's newest run, or of the one before. Raises NotShown or NoSuchPod."""
        pod = self._pods.named(namespace, name)
        names = _containers(pod)
        if container not in names:
            raise NotShown(f'pod "{name}" has no container "{container}"; it has {", ".join(names)}')
        uid = pod.metadata.uid
        run = _run(observed(self._node, pod).history(container), _is_waiting(pod, container), previous=previous)
        if run is not None and run.log_path:
            path = os.path.join(self._log_directory(pod), run.log_path)
            return LogPlace(path, self._is_over(uid, run.id), self._threads)
        left = await self._log_on_disk(pod, container, previous=previous)
        if left is not None:
            return LogPlace(left, lambda: True, self._threads)
        if previous:
            raise NotShown(f'container "{container}" of pod "{name}" has no earlier run on this node')
        why = _waits_for(pod, container)
        raise NotShown(f'container "{container}" of pod "{name}" has not started{f": {why}" if why else ""}')

    def running_container(self, namespace: str, name: str, container: str, uid: str = "") -> RunningContainer:
        """Return the current run of a container. Raises NotShown or NoSuchPod."""
        pod = self._pods.named(namespace, name)
        run = observed(self._node, pod).latest(container)
        if uid not in ("", pod.metadata.uid) or run is None or run.state is not ContainerState.RUNNING:
            raise NotShown(f'container not found ("{container}")')
        terminals = [one.name for one in with_ephemeral(pod) if one.tty]
        return RunningContainer(run.id, container in terminals)

    def running_sandbox(self, namespace: str, name: str, uid: str = "") -> str:
        """Return the id of a pod's ready sandbox. Raises NotShown or NoSuchPod."""
        pod = self._pods.named(namespace, name)
        sandbox = observed(self._node, pod).ready_sandbox
        if uid not in ("", pod.metadata.uid) or sandbox is None:
            raise NotShown(f'pod not found ("{name}_{namespace}")')
        return sandbox.id

    def _log_directory(self, pod: k8s.Pod) -> str:
        meta = pod.metadata
        return os.path.join(self._pod_logs, log_directory_name(meta.namespace, meta.name, meta.uid))

    async def _log_on_disk(self, pod: k8s.Pod, container: str, *, previous: bool) -> str | None:
        """Return the log of a run that the runtime does not have any more. Raises NotShown if the disk cannot be
        read."""
        directory = self._log_directory(pod)
        try:
            attempts = await disk_in_time(
                DISK_SECONDS_MAX, partial(self._node.files.log_attempts, directory, container)
            )
        except OSError as error:
            raise NotShown(f"cannot list the log directory {directory}: {error.strerror}") from error
        wanted = attempts[1:] if previous else attempts
        return os.path.join(directory, log_path(container, wanted[0])) if wanted else None

    def _is_over(self, uid: str, container_id: str) -> Callable[[], bool]:
        def is_over() -> bool:
            return all(one.id != container_id for one in self._node.cache.get(uid).running)

        return is_over


def _containers(pod: k8s.Pod) -> list[str]:
    return [one.name for one in with_ephemeral(pod)]


def _statuses(pod: k8s.Pod) -> Iterable[k8s.ContainerStatus]:
    status = pod.status or k8s.PodStatus()
    return (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)


def _waits_for(pod: k8s.Pod, container: str) -> str:
    """Return why a container waits; empty if it does not."""
    states = (status.state for status in _statuses(pod) if status.name == container)
    return next((state.waiting.reason for state in states if state is not None and state.waiting is not None), "")


def _is_waiting(pod: k8s.Pod, container: str) -> bool:
    return bool(_waits_for(pod, container))


def _run(history: Sequence[ContainerStatus], waiting: bool, *, previous: bool) -> ContainerStatus | None:
    """Return the newest run or the previous one. For a container that waits for its restart its last run is both: its
    state and its last state both refer to it."""
    runs = [one for one in history if one.state in (ContainerState.RUNNING, ContainerState.EXITED)]
    if previous and not (waiting and runs and runs[0].state is ContainerState.EXITED):
        runs = runs[1:]
    return runs[0] if runs else None
