"""Volumes of claims: they exist before the pod and stay after it.

    claim ─► its PersistentVolume ─► the plugin of its kind: hostPath, local, nfs, csi

Other kinds are reported as not supported. Mounts are recognised by the kernel's list alone, so no state is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.claims import BLOCK, claim_of
from trikubelet.volumes.claims import ClaimedVolumes
from trikubelet.volumes.plugin import VolumePlugin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Pod, Volume
    from trikubelet.volumes.claims import Bound
    from trikubelet.volumes.local import LocalVolumes
    from trikubelet.volumes.plugin import PersistentPlugin


class PersistentVolumes(VolumePlugin):
    """Finds the volumes that claims are bound to (``claims``), and has the plugin of their kind prepare them."""

    def __init__(self, kinds: Mapping[str, PersistentPlugin], local: LocalVolumes) -> None:
        """``kinds``: plugins by the field of a PersistentVolume's spec."""
        self.claims = ClaimedVolumes()
        self._kinds = kinds
        self._local = local

    async def prepare(self, pod: Pod, volume: Volume) -> str:
        """See ``VolumePlugin``."""
        bound, plugin = await self._find(pod, volume)
        spec = bound.volume.spec
        if spec.volume_mode == BLOCK and not (plugin is not None and plugin.takes_devices):
            raise ValueError("only block devices of the types local and csi are supported")
        if plugin is None:
            raise ValueError("persistent volumes of this type are not supported yet; hostPath, local, nfs and csi are")
        return await plugin.prepare_bound(pod, bound)

    async def confirm(self, pod: Pod, volume: Volume) -> None:
        """See ``VolumePlugin``."""
        bound, plugin = await self._find(pod, volume)
        if plugin is not None:
            await plugin.confirm_bound(pod, bound)

    async def _find(self, pod: Pod, volume: Volume) -> tuple[Bound, PersistentPlugin | None]:
        """Return the volume of a claim, and the plugin of its kind. Raises VolumeFailed."""
        claim = claim_of(pod, volume)
        assert claim is not None
        bound = await self.claims.find(pod, volume.name, claim)
        spec = bound.volume.spec
        return bound, next((one for field, one in self._kinds.items() if getattr(spec, field) is not None), None)

    def release(self, uid: str) -> None:
        """See ``VolumePlugin``."""
        self.claims.release(uid)

    async def remove(self, uid: str) -> None:
        """See ``VolumePlugin``."""
        await self._local.remove(uid)
