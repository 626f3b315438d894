"""image: the content of an image, mounted by the runtime; ``pods.start`` has the image pulled."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import trio

from trikubelet.volumes.plugin import VolumePlugin

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod, Volume


class ImageVolumes(VolumePlugin):
    """Leaves them to the runtime."""

    is_refreshed: ClassVar[bool] = False

    async def prepare(self, pod: Pod, volume: Volume) -> str:
        """Return no path. See ``VolumePlugin``."""
        await trio.lowlevel.checkpoint()
        return ""
