"""Makes a pod's status, from the observation and other facts, and publishes it.

    observation, verdicts of probes, ─► facts ─► core.pod_status generates ─► statuses, and their listeners
    why containers wait, messages

A pod's syncs (``pods.pod_syncer``) call this: before and after each of them, and between them if only probe results
have changed. Facts that only the disk has are read before (``read_termination_messages``); nothing else waits, so a
status is consistent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.admission import Rejection, rejected
from trikubelet.core.names import is_static, object_ref
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
    from trikubelet.model.errors import DevicesRefused
    from trikubelet.model.runtime import PodObservation
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.noted_lives import NotedLives
    from trikubelet.pods.resize_notes import ResizeNotes
    from trikubelet.pods.termination_messages import TerminationMessages
    from trikubelet.pods.waiting_reasons import WaitingReasons
    from trikubelet.ports import Clock, Events, HostIps, PodDevices, Probes, RuntimeHealth, Statuses


class StatusPublisher:
    """Makes the statuses of pods and publishes them. Owns no state: ``statuses`` has the last published ones."""

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
        devices: PodDevices,
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
        self._devices = devices
        self._health = health
        self._host_ips = host_ips
        self._events = events
        self._clock = clock

    async def read_termination_messages(self, pod: k8s.Pod, observed: PodObservation) -> None:
        """Read the facts of the observation that only the disk has, before the status is made, which waits for
        nothing."""
        await self._messages.read(pod, observed)

    def publish(self, pod: k8s.Pod, observed: PodObservation, *, is_ending: bool) -> k8s.PodStatus:
        """Make the pod's status and publish it. ``is_ending``: nothing of the pod runs any more or ever will, so this
        is its final status."""
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
        """Return the facts for a status besides the pod and the observation."""
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
                devices=self._devices.health(uid),
                recursive_read_only=self._health.supports_recursive_read_only(handler),
                previous={status.name: status for status in shown},
            ),
        )

    def refuse(self, pod: k8s.Pod, why: DevicesRefused) -> None:
        """Report that the pod cannot begin. Only a pod of the API server has failed then, like a rejected one."""
        self._events.record(object_ref(pod), "Warning", why.reason, why.message)
        if not is_static(pod):
            now = rfc3339(self._clock.now_ns())
            self._statuses.publish(pod.metadata.uid, pod, rejected(pod, Rejection(why.reason, why.message), now))

    def note_life(self, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """Note the facts for the next agent in the pod's directory, which exists now."""
        self._noted_lives.note(pod, status)

    def record_end(self, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """Note that the pod has ended by itself, and report it if its deadline was the reason."""
        self.note_life(pod, status)
        if status.reason == DEADLINE_EXCEEDED:
            self._events.record(object_ref(pod), "Normal", DEADLINE_EXCEEDED, DEADLINE_MESSAGE)

    def publish_readiness(self, pod: k8s.Pod) -> None:
        """Publish the present results of probes and readiness gates, during a sync or without one."""
        uid = pod.metadata.uid
        shown = self._statuses.get(uid)
        if shown is not None:
            now = rfc3339(self._clock.now_ns())
            self._statuses.publish(uid, pod, with_verdicts(pod, shown, self._probes.verdicts(uid), now))

    def seconds_left(self, pod: k8s.Pod) -> float | None:
        """Return the seconds until the pod's activeDeadlineSeconds are over, by its published start; 0 if that was
        during the last sync, whose status does not show it yet. None if it has no deadline or has ended."""
        status = self._statuses.get(pod.metadata.uid)
        if status is None or status.phase in TERMINAL:
            return None
        return deadline_left(pod, status.start_time, self._clock.now_ns())

    def last_attempts(self, pod: k8s.Pod) -> Mapping[str, int]:
        """Return the restart counts that the pod's containers reached in this life, or before it, by name."""
        status = self._statuses.get(pod.metadata.uid) or k8s.PodStatus()
        return {**self._noted_lives.of(pod).attempts, **last_attempts(status)}

    def go_on_from(self, uid: str, attempts: Mapping[str, int]) -> None:
        """Record that another life of the pod begins, whose restart counts continue these, by the names of
        containers."""
        self._noted_lives.go_on_from(uid, attempts)

    def forget(self, uid: str) -> None:
        """Forget this instance of the pod, which left nothing to show. (``pods.start`` owns the waiting reasons.)"""
        self._messages.forget(uid)
        self._noted_lives.forget(uid)
        self._statuses.forget(uid)
