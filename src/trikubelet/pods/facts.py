"""The facts a status and a container need besides spec and observation, gathered from notes, files and the clock.

Why containers wait are notes of this process: after a restart they are found again by trying again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.pod_status import StatusFacts
from trikubelet.core.pod_status.containers import ContainerFacts
from trikubelet.core.timestamps import rfc3339
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.core.actions import Verdicts
    from trikubelet.core.pod_status.resizing import ResizeFacts
    from trikubelet.model import k8s
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.ports import Clock, PodFiles

TERMINATION_MESSAGE_BYTES_MAX = 4096
LOG_TAIL_LINES_MAX = 80
LOG_TAIL_BYTES_MAX = 2048


class FactFinder:
    """Owns the reasons why containers wait: per pod, container name → (reason, message)."""

    def __init__(
        self,
        clock: Clock,
        files: PodFiles,
        host_ips: tuple[str, ...],
        runtime_name: Callable[[], str],
        reads_only_below: Callable[[str], bool],
    ) -> None:
        """``reads_only_below``: whether a runtime handler can make a mount read-only with all that is mounted in it."""
        self._clock = clock
        self._files = files
        self._host_ips = host_ips
        self._runtime_name = runtime_name
        self._reads_only_below = reads_only_below
        self._reasons: dict[str, dict[str, tuple[str, str]]] = {}
        self._messages: dict[str, dict[str, str]] = {}

    def now_ns(self) -> int:
        """Wall time, in nanoseconds since the epoch."""
        return self._clock.now_ns()

    def note(self, uid: str, container: str, reason: str, message: str) -> None:
        """The container waits for this reason."""
        self._reasons.setdefault(uid, {})[container] = (reason, message)

    def note_gone(self, uid: str, container: str) -> None:
        """The container does not wait any more."""
        self._reasons.get(uid, {}).pop(container, None)

    def forget(self, uid: str) -> None:
        """The pod is over."""
        self._reasons.pop(uid, None)
        self._messages.pop(uid, None)

    def status_facts(
        self,
        pod: k8s.Pod,
        observed: PodObservation,
        previous: k8s.PodStatus | None,
        verdicts: Verdicts,
        resize: ResizeFacts,
        *,
        is_ending: bool,
    ) -> StatusFacts:
        """Everything ``core.pod_status.generate`` needs."""
        uid = pod.metadata.uid
        shown = (*previous.init_container_statuses, *previous.container_statuses) if previous else ()
        return StatusFacts(
            now=rfc3339(self._clock.now_ns()),
            host_ips=self._host_ips,
            previous=previous,
            is_ending=is_ending,
            resize=resize,
            containers=ContainerFacts(
                runtime_name=self._runtime_name(),
                waiting=self._reasons.get(uid, {}),
                messages=self._termination_messages(pod, observed),
                verdicts=verdicts,
                recursive_read_only=self._reads_only_below(
                    observed.sandboxes[0].runtime_handler if observed.sandboxes else ""
                ),
                previous={status.name: status for status in shown},
            ),
        )

    def _termination_messages(self, pod: k8s.Pod, observed: PodObservation) -> dict[str, str]:
        """What each ended container left to say. Read once per container: an ended one says nothing new."""
        known = self._messages.get(pod.metadata.uid, {})
        ended = [status for status in observed.containers if status.state is ContainerState.EXITED]
        messages = {s.id: known[s.id] if s.id in known else self._read_message(pod, s) for s in ended}
        if messages:
            self._messages[pod.metadata.uid] = messages
        return messages

    def _read_message(self, pod: k8s.Pod, status: ContainerStatus) -> str:
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        container = next((c for c in containers if c.name == status.name), None)
        if container is None or not status.termination_path:
            return ""
        message = self._files.read_termination_log(
            pod.metadata.uid, status.name, status.attempt, TERMINATION_MESSAGE_BYTES_MAX
        )
        falls_back = container.termination_message_policy == "FallbackToLogsOnError" and status.exit_code != 0
        if not message and falls_back and status.log_path:
            return self._files.tail_log(status.log_path, LOG_TAIL_LINES_MAX, LOG_TAIL_BYTES_MAX)
        return message
