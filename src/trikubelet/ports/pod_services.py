"""What is done beside a pod's worker: its probes are run, its images pulled, its events and status published."""

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
    """What the probes of this node's pods concluded. A pod's probes live beside its worker, which is woken when they
    conclude something new."""

    async def run_with_probes(self, pod: k8s.Pod, live: Callable[[], Awaitable[None]]) -> None:
        """Run ``live``, the pod's worker, with the pod's probes beside it; they end with it."""
        ...

    def look(self, pod: k8s.Pod, observed: PodObservation, shown: k8s.PodStatus | None) -> Verdicts:
        """The pod was observed: from now on these are the containers to probe. What is concluded about them so far;
        ``shown`` is the pod's status as last known, which counts where an earlier agent computed it."""
        ...

    def verdicts(self, uid: str) -> Verdicts:
        """What is concluded about the pod's containers so far."""
        ...

    def ending(self, uid: str) -> None:
        """The pod is being stopped: it is asked no more whether it is alive or has started."""
        ...

    def stopped(self, uid: str, container_id: str) -> None:
        """A container of the pod was stopped. It is asked nothing more and does not serve, whatever an observation from
        before says: the next of its name may answer at the same address by now."""
        ...


class ImagePuller(Protocol):
    """Decides whether an image must be pulled, pulls it within the node's limits, remembers failures."""

    async def ensure(
        self, pod: k8s.Pod, container: k8s.Container, sandbox: SandboxConfig, about: ObjectRef | None = None
    ) -> ImageInfo:
        """The image, present on the node. ``about``: the object of the events, None for the container. Raises
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
        """Say what happened to an object, in upstream's reasons and words; ``annotations`` of the event's object."""
        ...


class Statuses(Protocol):
    """Where a pod worker publishes the status it computed; the newest per pod counts."""

    def publish(self, uid: str, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """Set the pod's status. Never blocks."""
        ...

    def get(self, uid: str) -> k8s.PodStatus | None:
        """The status last published, or None."""
        ...

    def forget(self, uid: str) -> None:
        """The pod is finished: nothing of it is on this node any more."""
        ...
