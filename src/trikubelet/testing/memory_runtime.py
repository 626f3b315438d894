"""A container runtime in memory (``ports.Runtime``, ``ports.Images``): the face of a ``World``, with troubles.

Its lists are real protobuf bytes, items and maps in an order drawn anew each time, as a real runtime's are: whoever
compares raw bytes is found out.
"""

from __future__ import annotations

import math
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from trikubelet.core.names import POD_UID
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime import (
    ContainerEvent,
    ContainerState,
    ExecResult,
    ImageInfo,
    RuntimeCondition,
    RuntimeInfo,
)
from trikubelet.model.runtime_errors import NotFound, RuntimeFailure
from trikubelet.testing.chance import Troubles
from trikubelet.testing.world import SIGKILL_CODE, SIGTERM_CODE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

    from trikubelet.model.runtime import ContainerStatus, SandboxStatus
    from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
    from trikubelet.testing.world import World

EVENTS_WAITING_MAX = 1000


class MemoryRuntime:
    """One agent's connection to a world. A new agent makes a new one; the world stays.

    ``watcher`` is told of every call as it comes in, before anything is done: its CRI name and whom it is about."""

    def __init__(
        self,
        world: World,
        troubles: Troubles | None = None,
        chance: random.Random | None = None,
        watcher: Callable[[str, str], None] | None = None,
    ) -> None:
        self._world = world
        self._troubles = troubles or Troubles()
        self._watcher = watcher
        self._chance = chance or random.Random(0)  # noqa: S311 - a simulation's seed

    async def _come(self, call: str, subject: str = "") -> None:
        self._world.note(f"{call} {subject}")
        if self._watcher is not None:
            self._watcher(call, subject)
        await self._troubles.before(call)

    async def info(self) -> RuntimeInfo:
        """Always well, when it answers."""
        await self._come("Status")
        conditions = (RuntimeCondition("RuntimeReady", True), RuntimeCondition("NetworkReady", True))
        return RuntimeInfo("memory", "1", "v1", conditions)

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Every sandbox, in one chunk."""
        await self._come("ListPodSandbox", pod_uid or "")
        listed = [s for s in self._world.sandboxes.values() if pod_uid in (None, s.uid)]
        items = [
            pb.PodSandbox(
                id=s.id,
                metadata=pb.PodSandboxMetadata(name=s.name, uid=s.uid, namespace=s.namespace, attempt=s.attempt),
                state=s.state.value,  # type: ignore[arg-type] # protobuf's stubs want its own enum
                created_at=s.created_at,
                labels=self._shuffled(s.labels),
            )
            for s in self._chance.sample(listed, len(listed))
        ]
        return [pb.ListPodSandboxResponse(items=items).SerializeToString()]

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Every container, in one chunk."""
        await self._come("ListContainers", pod_uid or "")
        listed = [c for c in self._world.all_containers() if pod_uid in (None, c.labels.get(POD_UID))]
        items = [
            pb.Container(
                id=c.id,
                pod_sandbox_id=c.sandbox_id,
                metadata=pb.ContainerMetadata(name=c.name, attempt=c.attempt),
                state=c.state.value,  # type: ignore[arg-type] # protobuf's stubs want its own enum
                created_at=c.created_at,
                labels=self._shuffled(c.labels),
            )
            for c in self._chance.sample(listed, len(listed))
        ]
        return [pb.ListContainersResponse(containers=items).SerializeToString()]

    def _shuffled(self, labels: Mapping[str, str]) -> dict[str, str]:
        return dict(self._chance.sample(sorted(labels.items()), len(labels)))

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        """One sandbox. Raises NotFound."""
        await self._come("PodSandboxStatus", sandbox_id)
        return self._world.sandbox(sandbox_id)

    async def container_status(self, container_id: str) -> ContainerStatus:
        """One container. Raises NotFound."""
        await self._come("ContainerStatus", container_id)
        return self._world.container(container_id)

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """Create and start a sandbox; its id."""
        await self._come("RunPodSandbox", config.uid)
        made = self._world.run_sandbox(config)
        await self._troubles.after("RunPodSandbox")
        return made

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox and its containers."""
        await self._come("StopPodSandbox", sandbox_id)
        self._world.stop_sandbox(sandbox_id)
        await self._troubles.after("StopPodSandbox")

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox and its containers."""
        await self._come("RemovePodSandbox", sandbox_id)
        self._world.remove_sandbox(sandbox_id)
        await self._troubles.after("RemovePodSandbox")

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create a container; its id."""
        await self._come("CreateContainer", sandbox_id)
        made = self._world.create_container(sandbox_id, config)
        await self._troubles.after("CreateContainer")
        return made

    async def start_container(self, container_id: str) -> None:
        """Start a created container."""
        await self._come("StartContainer", container_id)
        self._world.start_container(container_id)
        await self._troubles.after("StartContainer")

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Stop signal, then SIGKILL after the grace."""
        await self._come("StopContainer", container_id)
        status = self._world.container(container_id)
        if status.state in (ContainerState.RUNNING, ContainerState.UNKNOWN):
            seconds = self._world.stop_seconds(container_id, grace_seconds)
            await trio.sleep(seconds)
            self._world.end(container_id, SIGKILL_CODE if math.isclose(seconds, grace_seconds) else SIGTERM_CODE)
        await self._troubles.after("StopContainer")

    async def remove_container(self, container_id: str) -> None:
        """Remove a container; a running one is killed."""
        await self._come("RemoveContainer", container_id)
        self._world.end(container_id, SIGKILL_CODE)
        self._world.remove_container(container_id)
        await self._troubles.after("RemoveContainer")

    async def exec_sync(self, container_id: str, command: Sequence[str], limit_seconds: int) -> ExecResult:
        """Answer ``echo`` as a shell would, and fail the rest with 127."""
        await self._come("ExecSync", container_id)
        if self._world.container(container_id).state is not ContainerState.RUNNING:
            raise RuntimeFailure(f"container {container_id} is not running")
        if command[:1] == ["echo"]:
            return ExecResult(0, " ".join(command[1:]).encode() + b"\n")
        return ExecResult(127, b"", b"not found\n")

    async def reopen_log(self, container_id: str) -> None:
        """There are no log files; the container must exist and run."""
        await self._come("ReopenContainerLog", container_id)
        if self._world.container(container_id).state is not ContainerState.RUNNING:
            raise RuntimeFailure(f"container {container_id} is not running")

    @asynccontextmanager
    async def events(self) -> AsyncGenerator[AsyncIterator[ContainerEvent], None]:
        """What happens in the world from now on; dropped when nobody takes it."""
        await self._come("GetContainerEvents")
        send, receive = trio.open_memory_channel[ContainerEvent](EVENTS_WAITING_MAX)

        def tell(uid: str, id_: str) -> None:
            try:
                send.send_nowait(ContainerEvent(uid, id_, 0, 0))
            except trio.WouldBlock:
                return

        self._world.watchers.append(tell)
        try:
            async with receive:
                yield receive
        finally:
            self._world.watchers.remove(tell)


class MemoryImages:
    """An image service in memory: it has what it is given, and can pull what its registry has."""

    def __init__(
        self, present: Sequence[str] = (), registry: Sequence[str] = (), troubles: Troubles | None = None
    ) -> None:
        self._present = set(present)
        self._registry = set(registry)
        self._troubles = troubles or Troubles()
        self.pulls: list[str] = []

    async def image_status(self, image: str) -> ImageInfo | None:
        """The image, or None."""
        await self._troubles.before("ImageStatus")
        return ImageInfo(f"sha256:{image}", (image,), size_bytes=1000) if image in self._present else None

    async def pull_image(self, image: str, sandbox: SandboxConfig | None = None) -> str:
        """Pull an image; its reference. Raises NotFound."""
        await self._troubles.before("PullImage")
        self.pulls.append(image)
        if image not in self._registry:
            raise NotFound(f"{image}: not found")
        self._present.add(image)
        return f"sha256:{image}"

    async def list_images(self) -> Sequence[ImageInfo]:
        """Every image on the node."""
        await self._troubles.before("ListImages")
        return [ImageInfo(f"sha256:{image}", (image,), size_bytes=1000) for image in sorted(self._present)]

    async def remove_image(self, image: str) -> None:
        """Remove an image."""
        await self._troubles.before("RemoveImage")
        self._present.discard(image)
