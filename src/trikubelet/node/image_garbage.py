"""Image garbage collection: removes unused images when their disk is full, or when they are old.

    every five minutes ─► observe (core.image_garbage) ─► outdated ones ─► disk above the threshold? ─► oldest first
    disk pressure ──► observe ─► every unused one

The used images are read from the pod cache, which has every container, running or not, and again before each removal,
which may take long: a pod may have begun with the next one meanwhile. While a pod is not inspected yet nothing is
removed, because one of its containers may use any image. (upstream: image_gc_manager.go)
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from trikubelet.core import image_garbage
from trikubelet.core.image_names import is_sandbox_image, normalized
from trikubelet.kit.every import Every
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.log_rate_limit import LogRateLimit
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.core.image_garbage import ImageRules, Seen
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.objects import ObjectRef
    from trikubelet.ports import Events, Images, NodeUsage, PodCache, RuntimePods
    from trikubelet.sources.desired import DesiredPods

log = logging.getLogger(__name__)

AGE, SPACE = "age", "space"
"""The reasons for removing an image, for metrics."""


class ImageGarbage:
    """Owns the known images of the node with their times, and how many were ``removed``, by reason."""

    def __init__(
        self,
        *,
        images: Images,
        runtime_pods: RuntimePods,
        cache: PodCache,
        desired: DesiredPods,
        events: Events,
        node: ObjectRef,
        rules: ImageRules,
        bounds: Bounds,
    ) -> None:
        self._images = images
        self._runtime_pods = runtime_pods
        self._cache = cache
        self._desired = desired
        self._events = events
        self._node = node
        self._rules = rules
        self._bounds = bounds
        self._seen: dict[str, Seen] = {}
        self._began: float | None = None
        self._uninspected = LogRateLimit(bounds.eviction_silence_seconds)
        self._turn = trio.Lock()
        self._failure_log = FailureLog()
        self._failures = 0
        self._barriers = FaultBarriers(log, "%s: a bug in collecting them; they stay")
        self.removed: Counter[str] = Counter()

    async def run(self, usage: NodeUsage, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Check every few minutes and remove images by the rules, until cancelled."""
        task_status.started()
        async for _ in Every(self._bounds.image_garbage_period_seconds):
            with self._barriers.of("Unused images"):
                await self._collect(usage)

    async def remove_unused(self) -> None:
        """Remove every image that may be removed, because the node is short of disk."""
        async with self._turn:
            try:
                if await self._look():
                    await self._remove(image_garbage.removable(self._seen.values(), *self._now_and_age()), SPACE)
            except RuntimeCallError as error:
                self._failed(f"images cannot be listed: {error}")

    async def _collect(self, usage: NodeUsage) -> None:
        async with self._turn:
            try:
                if not await self._look() or self._began is None or not self._rules.collects:
                    return
                old = image_garbage.outdated(self._seen.values(), trio.current_time(), self._began, self._rules)
                await self._remove(old, AGE)
                if short := await self._free(usage):
                    self._events.record(self._node, "Warning", "FreeDiskSpaceFailed", short)
                    self._failed(short)
                    return
            except (RuntimeCallError, OSError) as error:
                self._failed(str(error))
            except ValueError as error:
                self._events.record(self._node, "Warning", "InvalidDiskCapacity", str(error))
                self._failed(str(error))
            else:
                self._failures = 0

    async def _free(self, usage: NodeUsage) -> str:
        """Remove images until their disk is below the low threshold, if it is above the high one; return a message if
        that was not enough. Raises OSError, and ValueError if the disk's size is unknown."""
        disk = (await usage.node()).images
        if disk is None:
            return ""  # the runtime does not report their disk
        wanted = image_garbage.bytes_to_free(disk, self._rules)
        if not wanted or (self._seen and all(one.image.pinned for one in self._seen.values())):
            return ""  # the embedded runtime has no removable images, whatever fills the disk
        log.info("Images' disk is above %d %%: removing unused images of %d bytes", self._rules.high_percent, wanted)
        freed = await self._remove(image_garbage.removable(self._seen.values(), *self._now_and_age()), SPACE, wanted)
        if freed >= wanted:
            return ""
        return (
            f"Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only "
            f"found {freed} bytes eligible to free."
        )

    def _now_and_age(self) -> tuple[float, float]:
        return trio.current_time(), self._rules.age_seconds_min

    async def _look(self) -> bool:
        """Update the known images; True if any may be removed. Raises RuntimeCallError."""
        seconds = self._bounds.runtime_call_seconds_max
        try:
            with trio.fail_after(seconds):
                images = await self._images.list_images()
        except trio.TooSlowError as error:
            raise RuntimeTimeout(f"the runtime did not answer in {seconds:g} s") from error
        references = self._references()
        if references is None:
            return False
        known_for = 0.0 if self._began is not None else self._rules.age_seconds_min
        self._seen = image_garbage.look(self._seen, images, references, trio.current_time(), known_for)
        self._began = trio.current_time() if self._began is None else self._began
        return True

    def _references(self) -> frozenset[str] | None:
        """Return the names and ids of images in use; None while they are unknown."""
        if not self._runtime_pods.has_listed or not self._desired.all_ready:
            return None
        found: set[str] = set()
        for uid in self._runtime_pods.uids():
            record, seen = self._runtime_pods.pod(uid), self._cache.get(uid)
            if record is not None and {one.id for one in record.containers} - {one.id for one in seen.containers}:
                if self._uninspected.may_log():
                    log.warning("No image is removed while pod %s cannot be inspected: it may use any of them", uid)
                return None
            for container in seen.containers:
                found |= {container.image, container.image_ref, container.image_id} - {""}
        return frozenset((*found, *self._mounted()))

    def _mounted(self) -> Iterator[str]:
        """Yield the image volumes of the desired pods."""
        for pod in self._desired:
            for volume in pod.spec.volumes:
                if volume.image is not None and volume.image.reference:
                    with suppress(ValueError):  # no reference, so it cannot have been pulled
                        yield normalized(volume.image.reference)

    async def _remove(self, images: Sequence[Seen], why: str, bytes_wanted: int | None = None) -> int:
        """Remove these in turn, until so many bytes are free; return the number of freed bytes."""
        freed = 0
        for one in images:
            if bytes_wanted is not None and freed >= bytes_wanted:
                break
            if _is_sandbox_image(one):
                continue
            references = self._references()
            if references is None:
                break
            if image_garbage.is_used(one.image, references):
                continue
            try:
                with trio.fail_after(self._bounds.runtime_call_seconds_max):
                    await self._images.remove_image(one.image.id)
            except trio.TooSlowError:
                if self._failure_log.may_log(one.image.id):
                    log.warning("Image %s cannot be removed, will try again: the runtime does not answer", _name(one))
                break  # each of the others would take as long
            except RuntimeCallError as error:
                if self._failure_log.may_log(one.image.id):
                    log.warning("Image %s cannot be removed, will try again: %s", _name(one), error)
                continue
            log.info("Removed image %s, unused, of %d bytes", _name(one), one.image.size_bytes)
            self._failure_log.works_again(one.image.id)
            self._seen.pop(one.image.id, None)
            self.removed[why] += 1
            freed += one.image.size_bytes
        return freed

    def _failed(self, why: str) -> None:
        """Report a failure. Like upstream, with an event from the second on: the first is often a restarting
        runtime."""
        self._failures += 1
        log.warning("Image garbage collection failed: %s", why)
        if self._failures > 1:
            self._events.record(self._node, "Warning", "ImageGCFailed", why)


def _is_sandbox_image(one: Seen) -> bool:
    """True if it may be the image of sandboxes. Runtimes pin that, except containerd before 1.7; a node that cannot
    reach its registry would start no pod without it."""
    return any(map(is_sandbox_image, (*one.image.repo_tags, *one.image.repo_digests)))


def _name(one: Seen) -> str:
    return next(iter((*one.image.repo_tags, *one.image.repo_digests)), one.image.id)
