"""Volumes that are there before the pod and stay after it: those of claims, and directories of servers (nfs).

    claim ─► its PersistentVolume ─┬─ hostPath ─► checked
                                   ├─ local ────► given to the pod's group, mounted; a device: checked
                                   ├─ nfs ──────► mounted
                                   └─ csi ──────► asked of its driver (``volumes.csi``)

Other types are told of as not supported. What is mounted is known by its mount alone, so there is nothing to remember.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trikubelet.core.claims import BLOCK
from trikubelet.core.csi import claimed
from trikubelet.core.names import pod_directory
from trikubelet.volumes import host_path, local
from trikubelet.volumes.claims import ClaimedVolumes
from trikubelet.volumes.giving import give_in_thread
from trikubelet.volumes.ownership import group_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trikubelet.core.claims import Claim
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.k8s import NFSVolumeSource, PersistentVolume, Pod
    from trikubelet.volumes.csi import CsiVolumes
    from trikubelet.volumes.mounter import Mounter

NFS_PLUGIN: Final = "kubernetes.io~nfs"


class PersistentVolumes:
    """Sets them up below the pods' directories. Owns no state; ``claims`` knows what is bound to what."""

    def __init__(self, pods: Path, mounter: Mounter, threads: ThreadPool, csi: CsiVolumes | None) -> None:
        self.claims = ClaimedVolumes()
        self._csi = csi
        self._pods = pods
        self._mounter = mounter
        self._threads = threads

    async def set_up(self, pod: Pod, name: str, claim: Claim) -> str:
        """Make the volume behind a claim ready; its host path, which is a device for one in block mode. Raises
        VolumeFailed, OSError, ValueError and StillRunning."""
        volume, grows = await self.claims.find(pod, name, claim)
        spec, key = volume.spec, f"{pod.metadata.uid}/{name}"
        if spec.csi is not None and self._csi is not None:
            return await self._csi.set_up(pod, name, claimed(volume, spec.csi, claim, grows=grows))
        if spec.local is not None and spec.volume_mode == BLOCK:
            await self._threads.run(partial(local.check_device, spec.local.path), key, may_hang=True)
            return spec.local.path
        if spec.volume_mode == BLOCK:
            raise ValueError("of block devices only local ones and those of CSI drivers are supported")
        if spec.host_path is not None:
            look = partial(host_path.prepare, spec.host_path.path, spec.host_path.type)
            await self._threads.run(look, key, may_hang=True)
            return spec.host_path.path
        if spec.local is not None:
            return await self._local(pod, name, volume, spec.local.path, claim)
        if spec.nfs is not None:
            read_only = claim.read_only or bool(spec.nfs.read_only)
            return await self._nfs(pod, name, volume.metadata.name, spec.nfs, spec.mount_options, read_only)
        raise ValueError("persistent volumes of this type are not supported yet; hostPath, local, nfs and csi are")

    async def set_up_nfs(self, pod: Pod, name: str, source: NFSVolumeSource) -> str:
        """Mount the directory of a server that the pod itself names; its host path. Raises OSError, StillRunning."""
        return await self._nfs(pod, name, name, source, (), bool(source.read_only))

    async def _nfs(
        self, pod: Pod, name: str, directory: str, source: NFSVolumeSource, options: Sequence[str], read_only: bool
    ) -> str:
        place = self._place(pod, NFS_PLUGIN, directory)
        server = f"[{source.server}]" if ":" in source.server else source.server
        options = [*(["ro"] if read_only else []), *options]
        mount = partial(self._mount_nfs, f"{server}:{source.path}", place, options)
        await self._threads.run(mount, f"{pod.metadata.uid}/{name}", may_hang=True)
        return str(place)

    def _mount_nfs(self, source: str, place: Path, options: Sequence[str]) -> None:
        if str(place) not in self._mounter.mounted_below(str(place)):
            place.mkdir(mode=local.MODE, parents=True, exist_ok=True)
            self._mounter.mount_nfs(source, str(place), options)

    async def _local(self, pod: Pod, name: str, volume: PersistentVolume, path: str, claim: Claim) -> str:
        place = self._place(pod, local.PLUGIN, volume.metadata.name)
        mount = partial(local.mount, path, place, group_of(pod, read_only=claim.read_only), self._mounter)
        await give_in_thread(pod, name, self._threads, mount)
        return str(place)

    def _place(self, pod: Pod, plugin: str, directory: str) -> Path:
        return pod_directory(self._pods, pod.metadata.uid) / "volumes" / plugin / directory
