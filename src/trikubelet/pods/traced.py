"""Attempts at pods and the images they wait for, with a span for each, under upstream's names.

Put in front of those who do the work where traces are wanted. (upstream-behaviour.md §1.25)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from trikubelet.core.lifecycle import Outcome, Terminated, Terminating
    from trikubelet.kit.spans import Spans
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ImageInfo, PodObservation
    from trikubelet.model.runtime_config import SandboxConfig
    from trikubelet.pods.worker import Attempts
    from trikubelet.ports import ImagePuller


class TracedAttempts:
    """Makes attempts as ``attempts`` does (``pods.worker.Attempts``). Owns nothing."""

    def __init__(self, attempts: Attempts, spans: Spans) -> None:
        self._attempts = attempts
        self._spans = spans
        self.run_with_probes = attempts.run_with_probes
        self.observe = attempts.observe
        self.seconds_left = attempts.seconds_left
        self.publish_readiness = attempts.publish_readiness
        self.forget = attempts.forget
        self.begin_despite_leftovers = attempts.begin_despite_leftovers

    async def sync(self, pod: Pod, observed: PodObservation) -> Outcome:
        """See ``Attempts``; so for all below."""
        with self._span("syncPod", pod):
            return await self._attempts.sync(pod, observed)

    async def terminate(self, pod: Pod, state: Terminating, observed: PodObservation) -> Outcome:
        with self._span("syncTerminatingPod", pod):
            return await self._attempts.terminate(pod, state, observed)

    async def clean_up(self, pod: Pod, state: Terminated) -> Outcome:
        with self._span("syncTerminatedPod", pod):
            return await self._attempts.clean_up(pod, state)

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
    """Has images on the node as ``puller`` does (``ports.ImagePuller``). Owns nothing."""

    def __init__(self, puller: ImagePuller, spans: Spans) -> None:
        self._puller = puller
        self._spans = spans

    async def ensure(self, pod: Pod, container: Container, sandbox: SandboxConfig) -> ImageInfo:
        """See ``ports.ImagePuller``."""
        with self._spans.span("Images/EnsureImageExists", k8s_pod_uid=pod.metadata.uid, image_name=container.image):
            return await self._puller.ensure(pod, container, sandbox)
