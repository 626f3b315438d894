"""Having the image of a container on the node: look, pull, wait, remember (``ports.ImagePuller``).

    name valid? ─► present? ─► policy ─► back-off over? ─► pull (one pull per image, a bound on all) ─► look again

The same image asked for by many pods at once is pulled once; whoever comes while a pull is under way waits for it. A
failed pull starts a back-off per pod and image, doubling from 10 s to 5 min. Reasons, messages and events are
upstream's (pkg/kubelet/images), because scripts match them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import trio

from trikubelet.core.image_names import should_pull, with_default_tag
from trikubelet.core.names import object_ref
from trikubelet.model.duration import format_duration
from trikubelet.model.errors import ImageUnavailable, RetryAt
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeTimeout

if TYPE_CHECKING:
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ImageInfo
    from trikubelet.model.runtime_config import SandboxConfig
    from trikubelet.ports import Events, Images

log = logging.getLogger(__name__)

BACKOFF_FIRST_SECONDS, BACKOFF_SECONDS_MAX = 10.0, 300.0
FAILURES_KEPT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class _Failure:
    """The last failed pull of an image for a pod, and when the next may be tried (Trio's clock)."""

    message: str
    seconds: float
    at: float


class Puller:
    """Owns which pulls are under way and which have failed."""

    def __init__(self, images: Images, events: Events, bounds: Bounds, *, pulls_max: int) -> None:
        self._images = images
        self._events = events
        self._bounds = bounds
        self._limit = trio.CapacityLimiter(pulls_max)
        self._pulling: dict[str, trio.Lock] = {}
        self._failures: dict[tuple[str, str], _Failure] = {}

    async def ensure(self, pod: Pod, container: Container, sandbox: SandboxConfig) -> ImageInfo:
        """The image, present on the node. Raises ImageUnavailable, or RetryAt while a back-off runs."""
        try:
            image = with_default_tag(container.image)
        except ValueError as error:
            message = f'Failed to apply default image tag "{container.image}": {error}'
            raise self._refused(pod, container, "InvalidImageName", message) from error
        policy = container.image_pull_policy or "IfNotPresent"
        present = await self._look(pod, container, image)
        if not should_pull(policy, present=present is not None):
            if present is None:
                message = f'Container image "{image}" is not present with pull policy of Never'
                raise self._refused(pod, container, "ErrImageNeverPull", message, event="ErrImageNeverPull")
            said = f'Container image "{image}" already present on machine'
            self._tell(pod, container, "Normal", "Pulled", said)
            return present
        self._check_backoff(pod, container, image)
        return await self._pull(pod, container, image, sandbox)

    async def _look(self, pod: Pod, container: Container, image: str) -> ImageInfo | None:
        try:
            return await self._status(image)
        except RuntimeCallError as error:
            message = f'Failed to inspect image "{image}": {error}'
            raise self._refused(pod, container, "ImageInspectError", message, event="InspectFailed") from error

    async def _status(self, image: str) -> ImageInfo | None:
        seconds = self._bounds.runtime_call_seconds_max
        try:
            with trio.fail_after(seconds):
                return await self._images.image_status(image)
        except trio.TooSlowError as error:
            raise RuntimeTimeout(f"the container runtime did not answer within {seconds:.0f}s") from error

    def _check_backoff(self, pod: Pod, container: Container, image: str) -> None:
        failure = self._failures.get((pod.metadata.uid, image))
        if failure is None or trio.current_time() >= failure.at:
            return
        message = f'Back-off pulling image "{image}": {failure.message}'
        self._tell(pod, container, "Normal", "BackOff", f'Back-off pulling image "{image}"')
        raise RetryAt("ImagePullBackOff", message, failure.at, container.name)

    async def _pull(self, pod: Pod, container: Container, image: str, sandbox: SandboxConfig) -> ImageInfo:
        asked = trio.current_time()
        self._tell(pod, container, "Normal", "Pulling", f'Pulling image "{image}"')
        lock = self._pulling.setdefault(image, trio.Lock())
        waited_for_other = lock.locked()
        try:
            async with lock:
                found = await self._status(image) if waited_for_other else None
                began = trio.current_time()
                if found is None:
                    async with self._limit:
                        began = trio.current_time()
                        await self._images.pull_image(image, sandbox)
                    found = await self._status(image)
        except RuntimeCallError as error:
            raise self._failed(pod, container, image, str(error)) from error
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._pulling.pop(image, None)
        if found is None:
            raise self._failed(pod, container, image, "the runtime pulled it and does not have it")
        self._failures.pop((pod.metadata.uid, image), None)
        now = trio.current_time()
        took, whole = format_duration(round(now - began, 3)), format_duration(round(now - asked, 3))
        said = f'Successfully pulled image "{image}" in {took} ({whole} including waiting).'
        self._tell(pod, container, "Normal", "Pulled", f"{said} Image size: {found.size_bytes} bytes.")
        return found

    def _failed(self, pod: Pod, container: Container, image: str, why: str) -> ImageUnavailable:
        key = (pod.metadata.uid, image)
        before = self._failures.pop(key, None)
        seconds = BACKOFF_FIRST_SECONDS if before is None else min(before.seconds * 2, BACKOFF_SECONDS_MAX)
        message = f'failed to pull image "{image}": {why}'
        self._failures[key] = _Failure(f"ErrImagePull: {message}", seconds, trio.current_time() + seconds)
        while len(self._failures) > FAILURES_KEPT_MAX:
            del self._failures[next(iter(self._failures))]
        self._tell(pod, container, "Warning", "Failed", f'Failed to pull image "{image}": {why}')
        self._tell(pod, container, "Warning", "Failed", "Error: ErrImagePull")
        return ImageUnavailable("ErrImagePull", message, container.name)

    def _refused(
        self, pod: Pod, container: Container, reason: str, message: str, *, event: str = "Failed"
    ) -> ImageUnavailable:
        self._tell(pod, container, "Warning", event, message)
        return ImageUnavailable(reason, message, container.name)

    def _tell(
        self, pod: Pod, container: Container, type_: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        self._events.record(object_ref(pod, container.name), type_, reason, message)
