"""The volumes of this node's pods (``ports.Volumes``), each handled by its kind's plugin (``volumes.plugin``).

    set up:     each volume ─► its plugin ─┬─ the pod has it, and it ``is_refreshed`` ─► refreshed next to the sync
                                           └─ else ─► prepared, all concurrently ─► their host paths
    torn down:  sub-paths ─► each plugin's own resources ─► mounts and files below the pod's directory

Set-up is part of the pod's own sync; there is no loop and nothing to poll. Work that may hang runs in threads of a
bounded pool and delays its own pod only, and that only until the pod has the volume. Tearing down reads the disk and
the kernel's mounts, not a record, so leftovers of an earlier process are removed the same way.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.containers.unsupported import why_not_mounted
from trikubelet.core.containers.volume_files import PLUGINS
from trikubelet.core.names import object_ref
from trikubelet.host.removal import remove_tree
from trikubelet.kit.threads import StillRunning
from trikubelet.model.errors import VolumeFailed
from trikubelet.model.volume_figures import VolumeFigures
from trikubelet.volumes import inside
from trikubelet.volumes.csi_plugin import CsiPlugin, NoCsiPlugin
from trikubelet.volumes.data import DataVolumes
from trikubelet.volumes.empty_dir import EmptyDirs
from trikubelet.volumes.host_path import HostPaths
from trikubelet.volumes.image import ImageVolumes
from trikubelet.volumes.local import LocalVolumes
from trikubelet.volumes.nfs import NfsVolumes
from trikubelet.volumes.persistent import PersistentVolumes
from trikubelet.volumes.plugin import PodPlaces, is_there
from trikubelet.volumes.refreshing import Refreshing
from trikubelet.volumes.side_by_side import set_up_all
from trikubelet.volumes.sub_path import DIRECTORY, SubPaths

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.containers.env_file import EnvFile
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.csi import DriverInfo, VolumeStats
    from trikubelet.model.k8s import Container, Node, Pod, Volume
    from trikubelet.model.runtime_config import Mount
    from trikubelet.ports import Claims, Events, PodObjects
    from trikubelet.volumes.csi import CsiVolumes
    from trikubelet.volumes.mounter import Mounter, UserMemory
    from trikubelet.volumes.plugin import PersistentPlugin, VolumePlugin

log = logging.getLogger(__name__)

_PROBLEMS: Final = (OSError, ValueError, StillRunning, VolumeFailed)
_NOT_YET: Final = "no volume is set up yet: those of an earlier instance of the pod are still being removed"


class _State(msgspec.Struct):
    """The state of a volume: in words, its host path once it was ready, and whether it is below the root."""

    said: str = ""
    path: str = ""
    is_own: bool = False


class DiskVolumes:
    """Owns the pods whose volumes are being torn down, and the last state of each volume, for debugging; existing
    volumes are the disk's and the kernel's. Sets volumes up below the pods' directories."""

    def __init__(
        self,
        root: Path,
        facts: NodeFacts,
        mounter: Mounter,
        threads: ThreadPool,
        *,
        csi: CsiVolumes | None = None,
        user_memory: UserMemory | None = None,
    ) -> None:
        """``csi``: volumes of CSI drivers, if there is a cluster to read them from; ``user_memory``: for an agent that
        may not mount, whose containers are processes of its own user and see the same files."""
        # The real path, by which the kernel knows what is mounted there.
        self._root = root.resolve()
        self._mounter = mounter
        self._threads = threads
        self._csi = csi
        self._user_memory = user_memory
        self._places = PodPlaces(self._root / "pods", facts, mounter, threads, user_memory)
        self._sub_paths = SubPaths(self._places)
        self._data = DataVolumes(self._places, facts)
        host_paths, nfs, local = HostPaths(threads), NfsVolumes(self._places), LocalVolumes(self._places)
        kinds: dict[str, PersistentPlugin] = {"host_path": host_paths, "local": local, "nfs": nfs}
        drivers = CsiPlugin(csi) if csi is not None else None
        if drivers is not None:
            kinds["csi"] = drivers
        self._persistent = PersistentVolumes(kinds, local)
        # By the field of a volume that is set.
        self._plugins: Mapping[str, VolumePlugin] = {
            "host_path": host_paths,
            "empty_dir": EmptyDirs(self._places),
            **dict.fromkeys(PLUGINS, self._data),
            "nfs": nfs,
            **dict.fromkeys(("persistent_volume_claim", "ephemeral"), self._persistent),
            "csi": drivers or NoCsiPlugin(),
            "image": ImageVolumes(),
        }
        self._refreshing = Refreshing()
        self._states: dict[str, dict[str, _State]] = {}
        # By UID, because there may be two: a worker's, and that for an earlier process's leftovers.
        self._tear_downs: Counter[str] = Counter()
        self._figures = VolumeFigures()

    def use_objects(self, objects: PodObjects) -> None:
        """Use this source for the objects of volumes from now on."""
        self._data.use_objects(objects)
        if self._csi is not None:
            self._csi.attachments.use_objects(objects)

    def use_claims(
        self, claims: Claims, node: Callable[[], Node | None], changed: Callable[[], None], events: Events
    ) -> None:
        """Use this API server for claims from now on."""
        self._persistent.claims.use_objects(claims, node)
        if self._csi is not None:
            self._csi.attachments.use_claims(claims, node, changed, events)

    def node_changed(self) -> None:
        """Note that a volume may have been attached to this node."""
        if self._csi is not None:
            self._csi.attachments.node_changed()

    def in_use(self) -> Collection[str]:
        """Return the volumes of CSI drivers: controllers attach no others."""
        return self._csi.in_use() if self._csi is not None else ()

    def drivers(self) -> Mapping[str, DriverInfo]:
        """Return the registered CSI drivers."""
        return self._csi.drivers() if self._csi is not None else {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Refresh volumes, register drivers, and unstage volumes of no pod, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._refreshing.run)
            if self._csi is not None:
                await nursery.start(self._csi.run)
            task_status.started()
            if self._user_memory is not None:
                await self._sweep(self._user_memory)

    async def _sweep(self, user_memory: UserMemory) -> None:
        try:
            await self._threads.run(user_memory.sweep, "what is left in memory", may_hang=True)
        except (OSError, StillRunning) as error:
            log.warning("Cannot remove leftovers of earlier pods in memory; the next start retries: %s", error)

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        """Set up every volume and return host paths by name. Raises VolumeFailed, naming all that are not ready, and
        while leftovers of an earlier instance of the pod are still being removed, because new volumes would be removed
        with them."""
        uid = pod.metadata.uid
        if pod.spec.volumes and (self._tear_downs[uid] or self._places.is_being_torn_down(uid)):
            raise VolumeFailed("FailedMount", _NOT_YET)
        volumes = {volume.name: volume for volume in pod.spec.volumes}
        had = {name: state for name, state in self._had(uid).items() if self._plugin(volumes[name]).is_refreshed}
        # Volumes that the pod has delay no sync, and take no place from missing ones.
        await self._refreshing.refresh(
            uid, {name: partial(self._refresh, pod, volumes[name], state) for name, state in had.items()}
        )
        missing = [volume for name, volume in volumes.items() if name not in had]
        hanging = [key for key in self._threads.running(uid) if key.partition("/")[0] not in had]
        made = await set_up_all(pod, missing, partial(self._set_up, pod), self._figures, hanging)
        return {**{name: state.path for name, state in had.items()}, **made}

    async def _set_up(self, pod: Pod, volume: Volume) -> str:
        state = self._states.setdefault(pod.metadata.uid, {}).setdefault(volume.name, _State())
        state.said = "not ready yet"
        try:
            path = await self._plugin(volume).prepare(pod, volume)
        except _PROBLEMS as error:
            state.said = f"not ready: {error}"
            raise
        state.said = f"ready at {path}" if path else "mounted by the runtime"
        state.path = path
        # A path outside the root is not this node's volume: a problem found there later must not stop the pod's sync.
        state.is_own = volume.host_path is None and path.startswith(f"{self._root}/")
        return path

    async def _refresh(self, pod: Pod, volume: Volume, state: _State) -> None:
        said = f"ready at {state.path}"
        try:
            await self._plugin(volume).refresh(pod, volume, state.path)
        except _PROBLEMS as error:
            said += f", but not refreshed: {error}"
            if state.said != said:
                log.warning("Volume %s of pod %s stays as it was: %s", volume.name, object_ref(pod), error)
        state.said = said

    def figures(self) -> VolumeFigures:
        """Return the volume metrics."""
        return self._figures

    def places(self, uid: str) -> Mapping[str, str]:
        """Return the host path of each ready volume below the root directory, including devices of drivers; of one in a
        user's memory, the path there."""
        target = str if self._user_memory is None else self._user_memory.target
        return {name: target(state.path) for name, state in self._had(uid).items() if state.is_own}

    def _had(self, uid: str) -> Mapping[str, _State]:
        """Return every volume of the pod that was ready once, and has a path."""
        return {name: state for name, state in self._states.get(uid, {}).items() if state.path}

    async def volume_stats(self, uid: str, path: str) -> VolumeStats | None:
        """Return the driver's stats and condition; None for volumes without a driver."""
        return await self._csi.volume_stats(uid, path) if self._csi is not None else None

    def groups(self, uid: str) -> tuple[int, ...]:
        """Return the supplemental groups of persistent volumes that name one."""
        return self._persistent.claims.groups(uid)

    def progress(self, uid: str) -> Mapping[str, str]:
        """Return the last state of each of the pod's volumes, in words."""
        states = {name: state.said for name, state in self._states.get(uid, {}).items()}
        had = self._had(uid)
        for name in {key.partition("/")[0] for key in self._threads.running(uid)}:
            begun = "earlier work has not ended yet"
            states[name] = f"{states[name]}; {begun}" if name in had else begun
        return states

    def _plugin(self, volume: Volume) -> VolumePlugin:
        """Return the plugin of the volume's kind. Raises ValueError for an unsupported one."""
        for field, plugin in self._plugins.items():
            if getattr(volume, field) is not None:
                return plugin
        raise ValueError(why_not_mounted(volume))

    async def resolve(self, pod: Pod, container: Container, mounts: Sequence[Mount]) -> tuple[Mount, ...]:
        """Return host paths in place of sub-paths, once each volume of the container was confirmed. Raises
        ConfigError."""
        await self._confirm(pod, container)
        return await self._sub_paths.resolve(pod, container, mounts)

    async def _confirm(self, pod: Pod, container: Container) -> None:
        mounted = {mount.name for mount in container.volume_mounts}
        for volume in pod.spec.volumes:
            if volume.name in mounted:
                try:
                    await self._plugin(volume).confirm(pod, volume)
                except _PROBLEMS as error:
                    why = "an earlier check of it has not ended" if isinstance(error, StillRunning) else error
                    message = f'volume "{volume.name}" of container "{container.name}" is not ready: {why}'
                    raise ConfigError(message, container.name) from error

    async def read_env_file(self, volume_path: str, path: str, keys: Collection[str]) -> EnvFile:
        """See ``volumes.inside``. Raises OSError, also while an earlier read of the volume hangs."""
        try:
            read = partial(inside.read_variables, volume_path, path, keys)
            return await self._threads.run(read, volume_path, may_hang=True)
        except StillRunning as error:
            # The key is a path of the node, and users see this message about their containers.
            raise OSError(errno.EBUSY, "an earlier read of the volume has not ended yet") from error

    async def tear_down(self, uid: str) -> None:
        """Unmount and remove every volume of the pod. A thread that is running when this is cancelled continues. Raises
        VolumeFailed, and ValueError if the argument is not a UID."""
        self._tear_downs[uid] += 1
        try:
            await self._take_down(uid)
        finally:
            self._tear_downs[uid] -= 1
            if not self._tear_downs[uid]:
                del self._tear_downs[uid]

    async def _take_down(self, uid: str) -> None:
        directory, plugins = self._places.of_pod(uid), dict.fromkeys(self._plugins.values())
        await self._refreshing.end(uid)
        for state in self._states.get(uid, {}).values():  # a recreated instance has none of them
            state.path = ""
        for plugin in plugins:
            plugin.release(uid)
        try:
            # Parts of volumes before the volumes, which their drivers unmount.
            await self._sub_paths.unmount_below(uid)
            for plugin in plugins:
                await plugin.remove(uid)
            await self._places.tear_down(uid, partial(self._remove_rest, directory))
        except (OSError, StillRunning) as error:
            raise VolumeFailed("FailedUnmount", f"UnmountVolume.TearDown failed for pod {uid}: {error}") from error
        self._figures.released(uid)
        self._states.pop(uid, None)

    def _remove_rest(self, directory: Path) -> None:
        """Remove the volumes in the pod's directory, of any plugin, known to this agent or not."""
        if self._user_memory is not None:
            self._user_memory.remove(directory.name)
        for below in filter(is_there, (directory / DIRECTORY, directory / "volumes")):
            self._remove_all(below)

    def _remove_all(self, directory: Path) -> None:
        for path in self._mounter.mounted_below(str(directory)):
            self._mounter.unmount(path)
        # A mount may have appeared by propagation out of a container: continuing would remove its content.
        if still := self._mounter.mounted_below(str(directory)):
            raise OSError(f"{still[0]} is mounted again")
        with os.scandir(directory) as entries:
            for entry in entries:
                remove_tree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
