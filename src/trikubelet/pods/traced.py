"""Wraps syncs of pods and their image pulls in spans, under upstream's names.

Used in front of the real parts if traces are enabled. (upstream-behaviour.md §1.25)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from trikubelet.core.lifecycle import Outcome, Terminated, Terminating
    from trikubelet.kit.spans import Spans
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.objects import ObjectRef
    from trikubelet.model.runtime import ImageInfo, PodObservation
    from trikubelet.model.runtime_config import SandboxConfig
    from trikubelet.pods.worker import Syncer
    from trikubelet.ports import ImagePuller


class TracedPodSyncer:
    """Syncs like ``syncer`` (``pods.worker.Syncer``), with spans. Owns nothing."""

    def __init__(self, syncer: Syncer, spans: Spans) -> None:
        self._syncer = syncer
        self._spans = spans
        self.run_with_probes = syncer.run_with_probes
        self.observe = syncer.observe
        self.seconds_left = syncer.seconds_left
        self.publish_readiness = syncer.publish_readiness
        self.forget = syncer.forget
        self.begin_despite_leftovers = syncer.begin_despite_leftovers
        self.last_attempts = syncer.last_attempts
        self.go_on_from = syncer.go_on_from

    async def sync(self, pod: Pod, observed: PodObservation) -> Outcome:
        """See ``Syncer``; the same holds for all below."""
        with self._span("syncPod", pod):
            return await self._syncer.sync(pod, observed)

    async def terminate(self, pod: Pod, state: Terminating, observed: PodObservation) -> Outcome:
        with self._span("syncTerminatingPod", pod):
            return await self._syncer.terminate(pod, state, observed)

    async def clean_up(self, pod: Pod, state: Terminated) -> Outcome:
        with self._span("syncTerminatedPod", pod):
            return await self._syncer.clean_up(pod, state)

    def _span(self, name: str, pod: Pod) -> AbstractContextManager[None]:
        meta = pod.metadata
        return self._spans.span(
            name,
            k8s_pod_uid=meta.uid,
            k8s_pod=f"{meta.namespace}/{meta.name}",
            k8s_pod_name=meta.name,
            k8s_namespace_name=meta.namespace,
        )


class TracedPuller:
    """Pulls images like ``puller`` (``ports.ImagePuller``), with spans. Owns nothing."""

    def __init__(self, puller: ImagePuller, spans: Spans) -> None:
        self._puller = puller
        self._spans = spans

    async def ensure(
        self, pod: Pod, container: Container, sandbox: SandboxConfig, about: ObjectRef | None = None
    ) -> ImageInfo:
        """See ``ports.ImagePuller``."""
        with self._spans.span("Images/EnsureImageExists", k8s_pod_uid=pod.metadata.uid, image_name=container.image):
            return await self._puller.ensure(pod, container, sandbox, about)
