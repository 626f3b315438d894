"""What containers that ended left to say: their termination messages, or the end of their logs where that counts.

Read from the disk once per container, since one that has ended says nothing new; asked for every status
(``pods.facts``). Of a pod with containers that have ended only those that are still there are remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.ports import ContainerFiles

MESSAGE_BYTES_MAX: Final = 4096
LOG_TAIL_LINES_MAX: Final = 80
LOG_TAIL_BYTES_MAX: Final = 2048


class TerminationMessages:
    """Owns what was read of the termination messages of containers that are there: per pod, container id → message."""

    def __init__(self, files: ContainerFiles) -> None:
        self._files = files
        self._messages: dict[str, dict[str, str]] = {}

    def of(self, pod: Pod, observed: PodObservation) -> Mapping[str, str]:
        """What each container that has ended left to say, by its id."""
        known = self._messages.get(pod.metadata.uid, {})
        ended = [status for status in observed.containers if status.state is ContainerState.EXITED]
        messages = {s.id: known[s.id] if s.id in known else self._read(pod, s) for s in ended}
        if messages:
            self._messages[pod.metadata.uid] = messages
        return messages

    def forget(self, uid: str) -> None:
        """The pod is over."""
        self._messages.pop(uid, None)

    def _read(self, pod: Pod, status: ContainerStatus) -> str:
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        container = next((c for c in containers if c.name == status.name), None)
        if container is None or not status.termination_path:
            return ""
        message = self._files.read_termination_log(pod.metadata.uid, status.name, status.attempt, MESSAGE_BYTES_MAX)
        falls_back = container.termination_message_policy == "FallbackToLogsOnError" and status.exit_code != 0
        if not message and falls_back and status.log_path:
            return self._files.tail_log(status.log_path, LOG_TAIL_LINES_MAX, LOG_TAIL_BYTES_MAX)
        return message
