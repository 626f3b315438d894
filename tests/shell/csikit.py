"""A node's CSI volumes on a real disk, with a driver in memory and mounts that are noted: what the tests share."""

from __future__ import annotations

import random
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import msgspec
import trio
import trio.testing

from core.podkit import pod
from shell.mountkit import NotedMounts
from trikubelet.core.containers import NodeFacts
from trikubelet.model import k8s
from trikubelet.model.csi import CSI_PLUGIN
from trikubelet.model.objects import ServiceAccountToken
from trikubelet.plugins.watcher import PluginWatcher
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.apiserver.patches import merge
from trikubelet.testing.memory_host import VirtualClock
from trikubelet.testing.memory_plugins import MemoryDriver, MemoryPlugins
from trikubelet.volumes.csi import CsiVolumes
from trikubelet.volumes.csi_attachments import CsiAttachments
from trikubelet.volumes.csi_records import CsiRecords
from trikubelet.volumes.csi_registration import RegisteredDrivers
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool

T = TypeVar("T")

DRIVER = "disk.example.com"
UNIQUE = f"kubernetes.io/csi/{DRIVER}^handle"
CLAIM = k8s.Volume(name="v", persistent_volume_claim=k8s.PersistentVolumeClaimVolumeSource(claim_name="data"))


class NoThreads:
    """Does at once what would be done in a thread: virtual time does not wait for threads."""

    async def run(self, work: Callable[[], T], key: str = "", *, may_hang: bool = False) -> T:
        await trio.lowlevel.checkpoint()
        return work()

    def running(self, owner: str) -> frozenset[str]:
        return frozenset()


class Notices:
    """A watcher that notices what it is told of."""

    def __init__(self) -> None:
        self.heard = trio.open_memory_channel[frozenset[str]](100)

    def change(self) -> None:
        self.heard[0].send_nowait(frozenset())

    @asynccontextmanager
    async def watch(self, path: str) -> AsyncGenerator[AsyncIterator[frozenset[str]], None]:
        yield self.heard[1]


@dataclass
class Cluster:
    """What an API server has: one claim, its volume, its driver, an attachment, secrets, and this node."""

    driver: k8s.CSIDriverSpec | None = field(default_factory=lambda: k8s.CSIDriverSpec(attach_required=False))
    attachments: dict[str, k8s.VolumeAttachment] = field(default_factory=dict)
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    source: dict[str, object] = field(default_factory=dict)
    spec: dict[str, object] = field(default_factory=dict)
    claimed: k8s.PersistentVolumeClaimStatus = field(
        default_factory=lambda: k8s.PersistentVolumeClaimStatus(phase="Bound", capacity={"storage": "1Mi"})
    )
    claim_modes: tuple[str, ...] = ()
    claim_told: list[dict[str, object]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=lambda: ["first", "second", "third"])
    status: k8s.NodeStatus = field(default_factory=k8s.NodeStatus)
    changes: int = 0

    async def claim(self, namespace: str, name: str) -> k8s.PersistentVolumeClaim:
        return k8s.PersistentVolumeClaim(
            metadata=k8s.ObjectMeta(name=name, namespace=namespace, uid="c", resource_version="7"),
            spec=k8s.PersistentVolumeClaimSpec(volume_name="pv", access_modes=self.claim_modes),
            status=self.claimed,
        )

    async def patch_claim_status(
        self, claim: k8s.PersistentVolumeClaim, body: dict[str, dict[str, object]]
    ) -> k8s.PersistentVolumeClaim:
        assert {"resourceVersion": "7"} == body["metadata"]
        self.claim_told.append(body["status"])
        status = merge(msgspec.to_builtins(self.claimed), body["status"])
        self.claimed = msgspec.convert(status, k8s.PersistentVolumeClaimStatus)
        return await self.claim(claim.metadata.namespace, claim.metadata.name)

    async def volume(self, name: str) -> k8s.PersistentVolume:
        source = k8s.CSIPersistentVolumeSource(driver=DRIVER, volume_handle="handle", **self.source)  # type: ignore[arg-type]
        spec = k8s.PersistentVolumeSpec(claim_ref=k8s.ObjectReference(uid="c"), csi=source, **self.spec)  # type: ignore[arg-type]
        return k8s.PersistentVolume(metadata=k8s.ObjectMeta(name=name, uid="p"), spec=spec)

    async def csi_driver(self, name: str) -> k8s.CSIDriver | None:
        return None if self.driver is None else k8s.CSIDriver(metadata=k8s.ObjectMeta(name=name), spec=self.driver)

    async def attachment(self, name: str) -> k8s.VolumeAttachment | None:
        return self.attachments.get(name)

    async def secret(self, namespace: str, name: str) -> k8s.Secret:
        return k8s.Secret(metadata=k8s.ObjectMeta(name=name), data=self.secrets[f"{namespace}/{name}"])

    async def token(self, _: k8s.Pod, audience: str, seconds: int) -> ServiceAccountToken:
        return ServiceAccountToken(f"{self.tokens.pop(0)} {seconds}", "2026-01-01T00:00:00Z")

    def release(self, uid: str) -> None:
        """Nothing is held."""

    def node(self) -> k8s.Node:
        return k8s.Node(metadata=k8s.ObjectMeta(name="n"), status=self.status)

    def changed(self) -> None:
        self.changes += 1


class CsiNodeBench:
    """One life of an agent's volumes after the other, on one disk, with one driver."""

    def __init__(self, root: Path, driver: MemoryDriver | None = None) -> None:
        self.root = root
        self.driver = driver or MemoryDriver()
        self.cluster = Cluster()
        self.mounts = NotedMounts()
        self.plugins = MemoryPlugins()
        self.registry = root / "plugins_registry"
        self.registry.mkdir(exist_ok=True)
        self.notices = Notices()
        self.events = EventRecorder(VirtualClock(), 100)
        self._sockets: dict[str, socket.socket] = {}

    @asynccontextmanager
    async def life(self, *, registered: bool = True) -> AsyncGenerator[DiskVolumes, None]:
        """The agent, as long as it lives."""
        if registered and DRIVER not in self._sockets:
            self.plug_in(DRIVER, self.driver)
        threads: ThreadPool = NoThreads()  # type: ignore[assignment]
        seen = RegisteredDrivers(self.plugins)
        handlers = {CSI_PLUGIN: seen}
        watcher = PluginWatcher(self.registry, handlers, self.plugins, self.notices, random.Random(1), threads)
        csi = CsiVolumes(
            "n", seen, CsiAttachments("n"), CsiRecords(self.root, self.mounts, threads), self.mounts, threads
        )
        volumes = DiskVolumes(self.root, NodeFacts("n"), self.mounts, threads, csi=csi)
        volumes.use_objects(self.cluster)  # type: ignore[arg-type]
        volumes.use_claims(self.cluster, self.cluster.node, self.cluster.changed, self.events)
        async with trio.open_nursery() as nursery:
            await nursery.start(watcher.run)
            await nursery.start(volumes.run)
            await trio.testing.wait_all_tasks_blocked()
            yield volumes
            nursery.cancel_scope.cancel()

    def plug_in(self, name: str, driver: MemoryDriver, **info: str) -> str:
        """A plugin registers by a socket."""
        path = str(self.registry / f"{name}-reg.sock")
        self._sockets[name] = socket.socket(socket.AF_UNIX)
        self._sockets[name].bind(path)
        self.plugins.listen(path, name, driver, **info)
        self.notices.change()
        return path

    def pull_out(self, name: str) -> None:
        """It is gone, and its socket with it, which nobody notices at once."""
        self._sockets.pop(name).close()
        (self.registry / f"{name}-reg.sock").unlink()

    def close(self) -> None:
        """No socket is left open."""
        for one in self._sockets.values():
            one.close()


def claiming(uid: str = "12345678", **spec: object) -> k8s.Pod:
    """A pod with the claim."""
    return pod(volumes=(CLAIM,), meta={"uid": uid}, **spec)


def with_inline(**source: object) -> k8s.Pod:
    """A pod with a volume of its own."""
    csi = k8s.CSIVolumeSource(driver=DRIVER, **source)  # type: ignore[arg-type]
    return pod(volumes=(k8s.Volume(name="v", csi=csi),))
