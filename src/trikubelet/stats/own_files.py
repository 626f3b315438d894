"""The files in pods' own directories that containers can write: the managed hosts file and termination messages.

Each is bind-mounted read-write into containers, so that a container can fill the node's disk with it (CVE-2020-8557).
Only the agent makes entries there, so counting takes a few system calls for each pod. Therefore all pods are counted
together, in one thread, and much more often than directories that containers can fill with files. For 110 pods that
takes 6 ms of processor time with one container each, and 15 ms with three.
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from trikubelet.core.names import pod_directory, with_ephemeral
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.threads import StillRunning, ThreadPool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trikubelet.model import k8s
    from trikubelet.model.usage import FsUsage
    from trikubelet.ports import Gauges

log = logging.getLogger(__name__)

BELIEVED_SECONDS: Final = 5.0
HOSTS_FILE, MESSAGES_DIRECTORY = "etc-hosts", "containers"


class PodFiles(NamedTuple):
    """The files of one pod: its hosts file, None where it has none, and termination message files by container."""

    hosts: FsUsage | None = None
    messages: Mapping[str, FsUsage] = MappingProxyType({})


class OwnFiles:
    """Owns the measured sizes of the files in pods' own directories, by the pod's UID."""

    def __init__(self, gauges: Gauges, pods: Path) -> None:
        """``pods``: the directory of the pods' directories."""
        self._gauges = gauges
        self._pods = pods
        self._threads = ThreadPool("pods' own files", 1)
        self._found: Mapping[str, PodFiles] = {}
        self._at = -math.inf
        self._barriers = FaultBarriers(log, "%s: a bug in measuring them; the last results stay")

    async def measure(self, pods: Sequence[k8s.Pod]) -> None:
        """Count the files of these pods, unless that was done just now. Other pods are forgotten. Returns when it is
        done, or at once while an earlier count hangs."""
        await trio.lowlevel.checkpoint()
        uids = {pod.metadata.uid for pod in pods}
        if trio.current_time() - self._at <= BELIEVED_SECONDS and uids <= self._found.keys():
            return
        # If no thread can be started, the last results stay, and the next caller starts again.
        with self._barriers.of("Pods' own files"), suppress(OSError, StillRunning):
            self._found = await self._threads.run(partial(self._count, pods), "all")
            self._at = trio.current_time()

    def of(self, uid: str) -> PodFiles:
        """Return the results for the pod's files."""
        return self._found.get(uid, PodFiles())

    def _count(self, pods: Sequence[k8s.Pod]) -> Mapping[str, PodFiles]:
        """Runs in a thread."""
        return {pod.metadata.uid: self._of_pod(pod) for pod in pods}

    def _of_pod(self, pod: k8s.Pod) -> PodFiles:
        try:
            directory = pod_directory(self._pods, pod.metadata.uid)
        except ValueError:  # it can have no directory
            return PodFiles()
        hosts: FsUsage | None = None
        with suppress(OSError):  # a pod on the node's network has none
            hosts = self._gauges.files(str(directory / HOSTS_FILE))
        messages: dict[str, FsUsage] = {}
        for container in with_ephemeral(pod):
            with suppress(OSError):  # one that was never made
                messages[container.name] = self._gauges.files(str(directory / MESSAGES_DIRECTORY / container.name))
        return PodFiles(hosts, messages)

    def __repr__(self) -> str:
        return f"<OwnFiles: of {len(self._found)} pods>"
