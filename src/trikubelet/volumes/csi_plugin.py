"""Volumes of CSI drivers as a volume plugin: inline volumes of pods, and volumes behind claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from trikubelet.core.csi import claimed, inline
from trikubelet.volumes.plugin import PersistentPlugin, VolumePlugin

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod, Volume
    from trikubelet.volumes.claims import Bound
    from trikubelet.volumes.csi import CsiVolumes


class CsiPlugin(VolumePlugin, PersistentPlugin):
    """Sets up and removes the volumes of CSI drivers (``volumes.csi``)."""

    takes_devices: ClassVar[bool] = True

    def __init__(self, csi: CsiVolumes) -> None:
        self._csi = csi

    async def prepare(self, pod: Pod, volume: Volume) -> str:
        """See ``VolumePlugin``."""
        assert volume.csi is not None
        return await self._csi.set_up(pod, volume.name, inline(pod, volume.name, volume.csi))

    async def prepare_bound(self, pod: Pod, bound: Bound) -> str:
        """See ``PersistentPlugin``."""
        source = bound.volume.spec.csi
        assert source is not None
        return await self._csi.set_up(
            pod, bound.name, claimed(bound.volume, source, bound.claim, needs_expansion=bound.needs_expansion)
        )

    async def remove(self, uid: str) -> None:
        """Have the drivers unpublish the pod's volumes. See ``VolumePlugin``."""
        await self._csi.tear_down(uid)


class NoCsiPlugin(VolumePlugin):
    """Rejects the volumes of CSI drivers on a node without an API server, where they cannot be looked up."""

    async def prepare(self, pod: Pod, volume: Volume) -> str:
        """See ``VolumePlugin``. Raises ValueError."""
        assert volume.csi is not None
        raise ValueError(f"volumes of CSI driver {volume.csi.driver} need an API server, and this node has none")
