"""Expanding volumes on the node while pods use them: a controller made the disk larger, the driver expands its file
system.

    sync of a pod ─► last check too recent? ─► get the claim and the volume ─► due? (core.volume_expansion)
        ─► the claim's status: resize in progress ─► the driver ─► the claim's status: its size; events

A node may not watch claims, so each sync of a pod checks again; a pod is synced at least every 90 seconds. Nothing
waits for a check: each volume has its own task, and one at a time asks the API server. A failure is retried at the next
check, unless the driver cannot expand volumes that are in use.

A volume of such a driver is expanded before the next pod uses it, when it is staged and not yet published. The first
pod waits for that if the claim asks for it, and starts whatever the result.
"""

from __future__ import annotations

import logging
import math
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import volume_expansion
from trikubelet.core.names import object_ref
from trikubelet.kit.background import BackgroundTasks
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.model.csi import Capability, Expand
from trikubelet.model.errors import ObjectUnavailable
from trikubelet.model.objects import ObjectRef
from trikubelet.model.plugins import PluginFailed
from trikubelet.plugins.asking import within
from trikubelet.volumes.csi_registration import CALL_SECONDS_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection
    from contextlib import AbstractAsyncContextManager

    from trikubelet.core.csi import Volume
    from trikubelet.model.csi import Publish
    from trikubelet.model.k8s import PersistentVolumeClaim, Pod
    from trikubelet.volumes.csi_attachments import CsiAttachments
    from trikubelet.volumes.csi_registration import RegisteredDrivers

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 15.0
"""Minimum pause between two checks of a volume, because each asks the API server for two objects."""
BEFORE_USE_SECONDS_MAX: Final = 30.0
"""How long a pod's start waits for a volume's expansion, which may happen later: a part of ``PATIENCE_SECONDS``."""
LOOKS_ASKING_MAX: Final = 1
"""Concurrent checks that ask the API server: pods that are starting wait in the same queue (``ports.Claims``)."""


@dataclass(slots=True)
class _Seen:
    """A volume's size on this node, None before the first check, and the time of the next check (Trio's clock)."""

    size_bytes: int | None = None
    next_at: float = -math.inf


@dataclass(frozen=True, slots=True)
class _Way:
    """The parameters of a check: the API server is asked inside ``line``; the driver is called inside ``turn``, about
    the volume at ``path``. ``asked``: the driver's last publish or stage request for the volume."""

    asked: Publish
    path: str
    line: AbstractAsyncContextManager[object]
    turn: Callable[[], AbstractAsyncContextManager[None]]


class NodeExpansion:
    """Owns the known sizes of the volumes on this node, by driver and handle."""

    def __init__(
        self,
        node_name: str,
        registration: RegisteredDrivers,
        attachments: CsiAttachments,
        turn: Callable[[tuple[str, str]], AbstractAsyncContextManager[None]],
        is_ready: Callable[[tuple[str, str]], bool],
    ) -> None:
        """``turn``: exclusive access to a volume, by driver and handle. ``is_ready``: True if a volume is published to
        a pod, by the pod's UID and the volume's name."""
        self._node_name = node_name
        self._registration = registration
        self._attachments = attachments
        self._turn = turn
        self._is_ready = is_ready
        self._asking = trio.CapacityLimiter(LOOKS_ASKING_MAX)
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._tasks = BackgroundTasks()
        self._barriers = FaultBarriers(log, "Volume %s: a bug in checking if it needs expansion; checking again later")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the checks that are started, until cancelled."""
        await self._tasks.run(task_status=task_status)

    def look(self, pod: Pod, volume: Volume, published: Publish) -> None:
        """Start a check if the volume behind a claim needs expansion, unless the last check is too recent."""
        if not self._can_expand(volume):
            return
        seen = self._seen.setdefault(volume.identity, _Seen())
        if trio.current_time() >= seen.next_at:
            seen.next_at = math.inf  # until this check ends: a volume has one at a time
            way = _Way(published, published.target_path, self._asking, partial(self._turn_at_ready, pod, volume))
            self._tasks.start_soon(self._look, pod, volume, seen, way)

    async def before_use(self, pod: Pod, volume: Volume, staged: Publish) -> None:
        """Check now if a volume that is staged, and not published to any pod, needs expansion. The caller holds the
        volume's lock."""
        if self._can_expand(volume):
            seen = self._seen.setdefault(volume.identity, _Seen())
            with trio.move_on_after(BEFORE_USE_SECONDS_MAX):
                await self._look(pod, volume, seen, _Way(staged, staged.staging_path, nullcontext(), nullcontext))

    def _can_expand(self, volume: Volume) -> bool:
        registered = self._registration.drivers.get(volume.driver)
        can = registered is not None and Capability.EXPAND_VOLUME in registered.capabilities
        return can and bool(volume.claim)

    def keep(self, volumes: Collection[tuple[str, str]]) -> None:
        """Forget all other volumes, because no pod uses them any more."""
        self._seen = {identity: seen for identity, seen in self._seen.items() if identity in volumes}

    async def _look(self, pod: Pod, volume: Volume, seen: _Seen, way: _Way) -> None:
        pause_seconds = LOOK_SECONDS
        try:
            with self._barriers.of(volume.name):
                pause_seconds = await self._look_and_expand(pod, volume, seen, way)
        finally:
            seen.next_at = trio.current_time() + pause_seconds

    async def _look_and_expand(self, pod: Pod, volume: Volume, seen: _Seen, way: _Way) -> float:
        """Return the seconds until the next check."""
        try:
            claims = self._attachments.claims
            async with way.line:
                held = await claims.claim(pod.metadata.namespace, volume.claim)
                persistent = await claims.volume(volume.name)
            if seen.size_bytes is None:
                seen.size_bytes = volume_expansion.claimed_bytes(held)
            wanted = volume_expansion.due(held, persistent, seen.size_bytes or 0)
            if wanted is not None:
                await self._expand_claimed(pod, volume, held, wanted, way)
                seen.size_bytes = wanted.size_bytes
        except (PluginFailed, ObjectUnavailable, ValueError) as error:
            log.debug("Volume %s: cannot check or expand it; retrying later: %s", volume.name, error)
            if isinstance(error, PluginFailed) and error.is_for_in_use:
                return math.inf
        return LOOK_SECONDS

    async def _expand_claimed(
        self, pod: Pod, volume: Volume, held: PersistentVolumeClaim, wanted: volume_expansion.Expansion, way: _Way
    ) -> None:
        """Expand the volume and record that in the claim's status. Raises PluginFailed, ObjectUnavailable, and
        ValueError for a driver or a pod that has gone."""
        about = (object_ref(pod), _ref(held))
        failed = f'NodeExpandVolume.NodeExpandVolume failed for volume "{volume.name}" : '
        if volume.read_only:
            self._attachments.record(
                about[:1], "Warning", "FileSystemResizeFailed", f"{failed}requested read-only file system"
            )
            return
        if wanted.is_claims and (begun_status := volume_expansion.begun(held)) is not None:
            held = await self._attachments.claims.patch_claim_status(held, begun_status)
        try:
            await self._call_driver(volume, way, wanted.size_bytes)
        except PluginFailed as error:
            self._attachments.record(about[:1], "Warning", "VolumeResizeFailed", f"{failed}{error}")
            if wanted.is_claims and error.is_final:
                await self._attachments.claims.patch_claim_status(held, volume_expansion.failed(held, wanted, error))
            raise
        if wanted.is_claims:
            await self._attachments.claims.patch_claim_status(held, volume_expansion.ended(held, wanted))
        said = f'MountVolume.NodeExpandVolume succeeded for volume "{volume.name}" {self._node_name}'
        self._attachments.record(about, "Normal", "FileSystemResizeSuccessful", said)

    async def _call_driver(self, volume: Volume, way: _Way, size_bytes: int) -> None:
        registered = self._registration.registered(volume.driver)
        secrets = await self._attachments.secrets(volume.expand_secret)
        request = Expand(volume.handle, way.path, size_bytes, way.asked.use, way.asked.staging_path, secrets)
        async with way.turn():
            with within(CALL_SECONDS_MAX):
                await registered.driver.expand(request)

    @asynccontextmanager
    async def _turn_at_ready(self, pod: Pod, volume: Volume) -> AsyncGenerator[None, None]:
        """Hold the volume's lock, if the volume is still published to the pod then: otherwise the driver would return
        NotFound, which marks the claim permanently. Raises ValueError."""
        async with self._turn(volume.identity):
            if not self._is_ready((pod.metadata.uid, volume.name)):
                raise ValueError("the volume is no longer published to the pod")
            yield

    def __repr__(self) -> str:
        return f"<NodeExpansion: {len(self._seen)} volumes checked>"


def _ref(held: PersistentVolumeClaim) -> ObjectRef:
    return ObjectRef("PersistentVolumeClaim", held.metadata.name, held.metadata.namespace, held.metadata.uid)
