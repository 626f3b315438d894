"""Ports of the services around a pod's worker: probes, image pulls, events and statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from trikubelet.core.actions import Verdicts
    from trikubelet.model import k8s
    from trikubelet.model.objects import ObjectRef
    from trikubelet.model.runtime import (
        ImageInfo,
        PodObservation,
    )
    from trikubelet.model.runtime_config import SandboxConfig


class Probes(Protocol):
    """The probes of this node's pods and their verdicts. A pod's probes run next to its worker, and wake it when a
    verdict changes."""

    async def run_with_probes(self, pod: k8s.Pod, live: Callable[[], Awaitable[None]]) -> None:
        """Run ``live``, the pod's worker, with the pod's probes next to it; they end with it."""
        ...

    def look(self, pod: k8s.Pod, observed: PodObservation, shown: k8s.PodStatus | None) -> Verdicts:
        """Take an observation of the pod: its containers are probed from now on. Return the verdicts so far; ``shown``
        is the pod's last known status, which counts if an earlier agent computed it."""
        ...

    def verdicts(self, uid: str) -> Verdicts:
        """Return the verdicts about the pod's containers so far."""
        ...

    def ending(self, uid: str) -> None:
        """Stop the pod's liveness and startup probes, because it is being stopped."""
        ...

    def stopped(self, uid: str, container_id: str) -> None:
        """Stop the probes of a stopped container, which is not ready from now on, whatever an earlier observation
        shows: the next container of its name may use the same address already."""
        ...


class ImagePuller(Protocol):
    """Decides whether an image must be pulled, pulls it within the node's limits, and backs off after failures."""

    async def ensure(
        self, pod: k8s.Pod, container: k8s.Container, sandbox: SandboxConfig, about: ObjectRef | None = None
    ) -> ImageInfo:
        """Return the image, present on the node. ``about``: the object of the events, None for the container. Raises
        ``model.errors.ImageUnavailable``."""
        ...


class Events(Protocol):
    """The event recorder. Never blocks, never fails; bounded by its owner."""

    def record(
        self,
        about: ObjectRef,
        type_: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Record an event about an object, in upstream's reasons and words; ``annotations`` of the event's object."""
        ...


class Statuses(Protocol):
    """Receives the statuses that pod workers compute; the newest per pod counts."""

    def publish(self, uid: str, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """Set the pod's status. Never blocks."""
        ...

    def get(self, uid: str) -> k8s.PodStatus | None:
        """Return the last published status, or None."""
        ...

    def forget(self, uid: str) -> None:
        """Forget the pod, which has finished: nothing of it is left on this node."""
        ...
