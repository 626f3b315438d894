"""The facts a status needs besides spec and observation, gathered from notes, files, the runtime and the clock.

``pods.status_publisher`` asks; what becomes of them ``core.pod_status`` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.pod_status import StatusFacts
from trikubelet.core.pod_status.containers import ContainerFacts
from trikubelet.core.timestamps import rfc3339

if TYPE_CHECKING:
    from trikubelet.core.actions import Verdicts
    from trikubelet.core.pod_status.resizing import ResizeFacts
    from trikubelet.model import k8s
    from trikubelet.model.runtime import PodObservation
    from trikubelet.pods.termination_messages import TerminationMessages
    from trikubelet.pods.waiting_reasons import WaitingReasons
    from trikubelet.ports import Clock, RuntimeHealth


class FactFinder:
    """Gathers facts for statuses. Owns no state."""

    def __init__(
        self,
        clock: Clock,
        health: RuntimeHealth,
        reasons: WaitingReasons,
        messages: TerminationMessages,
        host_ips: tuple[str, ...],
    ) -> None:
        self._clock = clock
        self._health = health
        self._reasons = reasons
        self._messages = messages
        self._host_ips = host_ips

    async def learn(self, pod: k8s.Pod, observed: PodObservation) -> None:
        """Read what is new of what ended containers left to say (see ``TerminationMessages``)."""
        await self._messages.learn(pod, observed)

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
        shown = (*previous.init_container_statuses, *previous.container_statuses) if previous else ()
        handler = observed.sandboxes[0].runtime_handler if observed.sandboxes else ""
        return StatusFacts(
            now=rfc3339(self._clock.now_ns()),
            host_ips=self._host_ips,
            previous=previous,
            is_ending=is_ending,
            resize=resize,
            containers=ContainerFacts(
                runtime_name=self._health.name,
                waiting=self._reasons.of(pod.metadata.uid),
                messages=self._messages.of(pod.metadata.uid, observed),
                verdicts=verdicts,
                recursive_read_only=self._health.supports_recursive_read_only(handler),
                previous={status.name: status for status in shown},
            ),
        )

    def forget(self, uid: str) -> None:
        """The pod is over, and so is what was read of its messages. (Why containers wait is ``pods.start``'s.)"""
        self._messages.forget(uid)
