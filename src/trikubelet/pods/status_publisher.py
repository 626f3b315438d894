"""Making a pod's status, from what is observed and what is known besides, and publishing it.

    observation, verdicts of probes, ─► facts ─► core.pod_status generates ─► statuses, and who listens
    why containers wait, messages

Called by a pod's syncs (``pods.pod_syncer``): before and after each of them, and between them where only what probes
conclude has changed. What only the disk has is read before (``read_termination_messages``); nothing else waits, so a
status is made of one moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.names import object_ref
from trikubelet.core.pod_status import (
    StatusFacts,
    deadline_left,
    every_status,
    generate,
    last_attempts,
    with_verdicts,
)
from trikubelet.core.pod_status import terminate as last_word
from trikubelet.core.pod_status.containers import ContainerFacts
from trikubelet.core.pod_status.deadline import DEADLINE_EXCEEDED, DEADLINE_MESSAGE
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.core.pod_status.resizing import happened
from trikubelet.core.timestamps import rfc3339
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.actions import Verdicts
    from trikubelet.model.runtime import PodObservation
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.noted_lives import NotedLives
    from trikubelet.pods.resize_notes import ResizeNotes
    from trikubelet.pods.termination_messages import TerminationMessages
    from trikubelet.pods.waiting_reasons import WaitingReasons
    from trikubelet.ports import Clock, Events, HostIps, Probes, RuntimeHealth, Statuses


class StatusPublisher:
    """Makes the statuses of pods and publishes them. Owns no state: what was published last is the statuses'."""

    def __init__(
        self,
        *,
        statuses: Statuses,
        probes: Probes,
        allocations: Allocations,
        resize_notes: ResizeNotes,
        reasons: WaitingReasons,
        messages: TerminationMessages,
        noted_lives: NotedLives,
        health: RuntimeHealth,
        host_ips: HostIps,
        events: Events,
        clock: Clock,
    ) -> None:
        self._statuses = statuses
        self._probes = probes
        self._allocations = allocations
        self._resize_notes = resize_notes
        self._reasons = reasons
        self._messages = messages
        self._noted_lives = noted_lives
        self._health = health
        self._host_ips = host_ips
        self._events = events
        self._clock = clock

    async def read_termination_messages(self, pod: k8s.Pod, observed: PodObservation) -> None:
        """Read what only the disk has of what is observed, before its status is made: that waits for nothing."""
        await self._messages.read(pod, observed)

    def publish(self, pod: k8s.Pod, observed: PodObservation, *, is_ending: bool) -> k8s.PodStatus:
        """Make the pod's status and publish it. ``is_ending``: nothing of the pod runs any more or ever will; its last
        word."""
        previous = self._statuses.get(pod.metadata.uid)
        verdicts = self._probes.look(pod, observed, previous or pod.status)
        pod = self._allocations.as_allocated(pod)
        facts = self._facts(pod, observed, previous, verdicts, is_ending=is_ending)
        status = generate(pod, observed, facts)
        if is_ending:
            status = last_word(pod, status, facts.now)
        else:
            for event in happened(pod, previous or pod.status, status):
                self._events.record(object_ref(pod), *event)
        self._statuses.publish(pod.metadata.uid, pod, status)
        return status

    def _facts(
        self,
        pod: k8s.Pod,
        observed: PodObservation,
        previous: k8s.PodStatus | None,
        verdicts: Verdicts,
        *,
        is_ending: bool,
    ) -> StatusFacts:
        """What a status needs besides the pod and the observation."""
        uid = pod.metadata.uid
        shown = tuple(every_status(previous)) if previous else ()
        handler = observed.sandboxes[0].runtime_handler if observed.sandboxes else ""
        return StatusFacts(
            now=rfc3339(self._clock.now_ns()),
            host_ips=self._host_ips(),
            previous=previous,
            is_ending=is_ending,
            noted=self._noted_lives.of(pod),
            resize=self._resize_notes.facts(pod),
            containers=ContainerFacts(
                runtime_name=self._health.name,
                waiting=self._reasons.of(uid),
                messages=self._messages.of(uid, observed),
                verdicts=verdicts,
                recursive_read_only=self._health.supports_recursive_read_only(handler),
                previous={status.name: status for status in shown},
            ),
        )

    def note_life(self, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """The pod has a directory and this status: note there what the next agent needs of it."""
        self._noted_lives.note(pod, status)

    def record_end(self, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """The pod has ended by itself: note it, and report it where that was for its deadline."""
        self.note_life(pod, status)
        if status.reason == DEADLINE_EXCEEDED:
            self._events.record(object_ref(pod), "Normal", DEADLINE_EXCEEDED, DEADLINE_MESSAGE)

    def publish_readiness(self, pod: k8s.Pod) -> None:
        """Publish what probes and readiness gates say now, in the middle of a sync or without one."""
        uid = pod.metadata.uid
        shown = self._statuses.get(uid)
        if shown is not None:
            now = rfc3339(self._clock.now_ns())
            self._statuses.publish(uid, pod, with_verdicts(pod, shown, self._probes.verdicts(uid), now))

    def seconds_left(self, pod: k8s.Pod) -> float | None:
        """Until the pod's activeDeadlineSeconds are over, by its published start; 0 when they ended during the sync
        just made, whose status does not say so yet. None when it has no end or has ended."""
        status = self._statuses.get(pod.metadata.uid)
        if status is None or status.phase in TERMINAL:
            return None
        return deadline_left(pod, status.start_time, self._clock.now_ns())

    def last_attempts(self, pod: k8s.Pod) -> Mapping[str, int]:
        """Return the restart counts that the pod's containers reached in this life, or before it, by name."""
        status = self._statuses.get(pod.metadata.uid) or k8s.PodStatus()
        return {**self._noted_lives.of(pod).attempts, **last_attempts(status)}

    def go_on_from(self, uid: str, attempts: Mapping[str, int]) -> None:
        """Another life of the pod begins, whose restart counts go on from these, by the names of containers."""
        self._noted_lives.go_on_from(uid, attempts)

    def forget(self, uid: str) -> None:
        """This instance of the pod is over and left nothing to show. (Why containers wait is ``pods.start``'s.)"""
        self._messages.forget(uid)
        self._noted_lives.forget(uid)
        self._statuses.forget(uid)
