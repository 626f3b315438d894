"""The interface of each kind of volume on this node, and what all kinds share.

    DiskVolumes ─► VolumePlugin of a pod's volume ─────────────► prepare, refresh, confirm; release, remove
                       └─ of a claim: PersistentPlugin of the bound volume ─► prepare_bound, confirm_bound

A plugin's volumes are below the pod's directory, in one with the plugin's name: upstream's layout, by which the next
agent finds the volumes of this one. So they are not recorded, and mounts and files there are removed for all kinds
alike when the pod's volumes are torn down (``volumes.volumes``). A plugin removes only the rest.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import trio

from trikubelet.core.containers.resources import pod_resources
from trikubelet.core.containers.volume_files import fs_group
from trikubelet.core.names import pod_directory
from trikubelet.model import quantity
from trikubelet.volumes.mounter import is_mounted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import ClassVar

    from trikubelet.core.containers import NodeFacts
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.k8s import Pod, Volume
    from trikubelet.volumes.claims import Bound
    from trikubelet.volumes.mounter import Mounter, UserMemory

TEARING_DOWN = "torn down"
"""The owner of the threads that tear pods' volumes down."""


class VolumePlugin(Protocol):
    """One kind of volume (upstream: volume.VolumePlugin)."""

    is_refreshed: ClassVar[bool] = True
    """True if a ready volume depends on something that may not answer: a server, a driver, the owner of a host path.
    Those that a pod has are then updated next to its syncs (``refresh``); any other is prepared again at each, which
    costs little and repairs it."""

    async def prepare(self, pod: Pod, volume: Volume) -> str:
        """Set the volume up and return its host path, empty if the runtime mounts it itself. A ready volume stays
        unchanged. Raises OSError, ValueError, StillRunning, or VolumeFailed with the whole message."""

    async def refresh(self, pod: Pod, volume: Volume, path: str) -> None:
        """Update a volume that the pod has at this path. Raises like ``prepare``, and leaves it unchanged then."""
        await self.prepare(pod, volume)

    async def confirm(self, pod: Pod, volume: Volume) -> None:
        """Confirm that a container may be created with this volume, which is ready and may have changed since. Most
        kinds belong to the agent and do not change by themselves. Raises ValueError, OSError, StillRunning."""
        return

    def release(self, uid: str) -> None:
        """Stop all watches and records for the volumes of a terminated pod. Never blocks; called before ``remove``, and
        again with it if that failed."""
        return

    async def remove(self, uid: str) -> None:
        """Remove the resources of a terminated pod that are not below its directory, also those of an earlier process.
        Raises OSError, StillRunning, VolumeFailed."""
        await trio.lowlevel.checkpoint()


class PersistentPlugin(Protocol):
    """A kind of volume that a claim may be bound to."""

    takes_devices: ClassVar[bool] = False
    """True if it supports block mode, where the host path is a device."""

    async def prepare_bound(self, pod: Pod, bound: Bound) -> str:
        """Set it up and return its host path. Raises like ``VolumePlugin.prepare``."""

    async def confirm_bound(self, pod: Pod, bound: Bound) -> None:
        """See ``VolumePlugin.confirm``."""
        return


class PodPlaces:
    """The places of pods' volumes, and making a mount there once. Owns nothing: the state is the disk's and the
    kernel's."""

    def __init__(
        self,
        pods: Path,
        facts: NodeFacts,
        mounter: Mounter,
        threads: ThreadPool,
        user_memory: UserMemory | None = None,
    ) -> None:
        """``pods``: the directory of the pods, as the kernel names it; ``user_memory``: see ``DiskVolumes``."""
        self.mounter = mounter
        self.threads = threads
        self.user_memory = user_memory
        self._pods = pods
        self._facts = facts

    def of_pod(self, uid: str) -> Path:
        """Return the pod's directory. Raises ValueError if the argument is not a UID."""
        return pod_directory(self._pods, uid)

    def of(self, pod: Pod, plugin: str, name: str) -> Path:
        """Return a volume's place, by the name of its plugin and its own."""
        return self.of_pod(pod.metadata.uid) / "volumes" / plugin / name

    async def tear_down(self, uid: str, work: Callable[[], object]) -> None:
        """Run ``work``, which tears down volumes of the pod, in a thread, at most one for a pod. A thread that is
        running when this is cancelled continues. Raises its errors, and StillRunning."""
        await self.threads.run(work, f"{TEARING_DOWN}/{uid}", may_hang=True)

    def is_being_torn_down(self, uid: str) -> bool:
        """True if a thread is tearing the pod's volumes down, perhaps one that is no longer awaited."""
        return uid in self.threads.running(TEARING_DOWN)

    def memory_bytes(self, pod: Pod, size_limit: str | float | None = None) -> int | None:
        """Return the size of a memory-backed volume of the pod, in bytes, given its own limit; None: no limit."""
        limits = (pod_resources(pod, self._facts).memory_limit_bytes, self._facts.allocatable.get("memory", 0))
        return memory_bytes(size_limit, *limits)

    def fs_group(self, pod: Pod) -> int | None:
        """Return the group of the files of the pod's own volumes, or None. Raises ValueError for one that this agent
        may not set."""
        group = fs_group(pod)
        if group is None or self.user_memory is None or may_give(group):
            return group
        raise ValueError(
            f"fsGroup {group}: the agent runs as user {os.geteuid()}, group {os.getegid()}, and only root may change; "
            "start the agent as root or leave fsGroup out"
        )

    def mount_memory(self, path: Path, size_bytes: int | None, mode: int, group: int | None) -> None:
        """Mount a tmpfs there, or link to a directory on the user's, which has no size of its own. Blocks. Raises
        OSError."""
        if self.user_memory is not None:
            self.user_memory.link(path, mode, group)
        else:
            self.mount_once(path, lambda: self.mounter.mount_tmpfs(str(path), size_bytes, mode, group))

    def mount_once(self, path: Path, mount: Callable[[], None]) -> None:
        """Mount, unless something is mounted there, which is not touched. Blocks. Raises OSError."""
        if not is_mounted(self.mounter, path):
            path.mkdir(mode=0o750, parents=True, exist_ok=True)
            mount()


def may_give(group: int) -> bool:
    """True if this process may give its files to the group (chown(2))."""
    return os.geteuid() == 0 or group in {os.getegid(), *os.getgroups()}


def memory_bytes(size_limit: str | float | None, *others: int) -> int | None:
    """Return the size of a memory-backed volume: the smallest of its own limit and the pod's and the node's (0: none),
    or None."""
    sizes = [limit for limit in others if limit]
    if size_limit is not None and quantity.whole(size_limit) > 0:
        sizes.append(quantity.whole(size_limit))
    return min(sizes, default=None)


def is_there(directory: Path) -> bool:
    """True if the directory exists and is not a link, which would lead to a foreign directory. Most pods have none, and
    checking that first saves reading a node's long list of mounts."""
    return directory.is_dir() and not directory.is_symlink()
