"""nfs: a directory of a server, mounted for each pod; an existing mount shows that all steps before it were done."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from trikubelet.model.names import nfs_server_problem
from trikubelet.volumes.plugin import PersistentPlugin, VolumePlugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import NFSVolumeSource, Pod, Volume
    from trikubelet.volumes.claims import Bound
    from trikubelet.volumes.plugin import PodPlaces

PLUGIN: Final = "kubernetes.io~nfs"


class NfsVolumes(VolumePlugin, PersistentPlugin):
    """Mounts them. A mount needs nothing more from the agent, whatever state its server is in."""

    is_refreshed: ClassVar[bool] = False

    def __init__(self, places: PodPlaces) -> None:
        self._places = places

    async def prepare(self, pod: Pod, volume: Volume) -> str:
        """See ``VolumePlugin``."""
        source = volume.nfs
        assert source is not None
        return await self._mount(pod, volume.name, volume.name, source, _options((), read_only=bool(source.read_only)))

    async def prepare_bound(self, pod: Pod, bound: Bound) -> str:
        """See ``PersistentPlugin``."""
        spec = bound.volume.spec
        assert spec.nfs is not None
        options = _options(spec.mount_options, read_only=bound.claim.read_only or bool(spec.nfs.read_only))
        return await self._mount(pod, bound.name, bound.volume.metadata.name, spec.nfs, options)

    async def _mount(self, pod: Pod, name: str, directory: str, source: NFSVolumeSource, options: Sequence[str]) -> str:
        if problem := nfs_server_problem(source.server):
            raise ValueError(f"its server {problem}: {source.server}")
        places, place = self._places, self._places.of(pod, PLUGIN, directory)
        server = f"[{source.server}]" if ":" in source.server else source.server
        mount = partial(places.mounter.mount_nfs, f"{server}:{source.path}", str(place), options)
        key = f"{pod.metadata.uid}/{name}"
        await places.threads.run(partial(places.mount_once, place, mount), key, may_hang=True)
        return str(place)


def _options(options: Sequence[str], *, read_only: bool) -> Sequence[str]:
    return [*(["ro"] if read_only else []), *options]
