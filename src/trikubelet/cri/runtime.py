"""The container runtime behind a CRI socket, as the rest of the agent knows it (``ports.Runtime``, ``ports.Images``).

The seam: protobuf on one side, frozen records on the other. Lists are handed over undecoded, because the relist reads
them outside Python. Nothing is decided or remembered here.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from trikubelet.core.names import POD_UID
from trikubelet.cri import from_wire, to_wire
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import ImageServiceStub, RuntimeServiceStub
from trikubelet.model.runtime import ExecResult
from trikubelet.model.runtime_errors import NotFound

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from trikubelet.cri.channel import Channel
    from trikubelet.model.runtime import (
        ContainerEvent,
        ContainerStatus,
        ImageInfo,
        RuntimeInfo,
        SandboxStatus,
    )
    from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig

API_VERSION = "0.1.0"
"""What a kubelet says in ``Version``; runtimes ignore it."""


class CriRuntime:
    """Speaks CRI v1 over a channel. Owns no state; the channel owns the connection."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._stub = RuntimeServiceStub(channel)

    async def info(self) -> RuntimeInfo:
        """``Version`` and ``Status``."""
        version = await self._stub.Version(pb.VersionRequest(version=API_VERSION))
        return from_wire.runtime_info(version, await self._stub.Status(pb.StatusRequest()))

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The undecoded list; of one pod when ``pod_uid`` is given."""
        request = pb.ListPodSandboxRequest()
        if pod_uid is not None:
            request.filter.label_selector[POD_UID] = pod_uid
        return [await self._stub.ListPodSandbox.raw(request)]

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The undecoded list; of one pod when ``pod_uid`` is given."""
        request = pb.ListContainersRequest()
        if pod_uid is not None:
            request.filter.label_selector[POD_UID] = pod_uid
        return [await self._stub.ListContainers.raw(request)]

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        """One sandbox. Raises NotFound."""
        reply = await self._stub.PodSandboxStatus(pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id))
        return from_wire.sandbox_status(reply)

    async def container_status(self, container_id: str) -> ContainerStatus:
        """One container. Raises NotFound."""
        reply = await self._stub.ContainerStatus(pb.ContainerStatusRequest(container_id=container_id))
        return from_wire.container_status(reply)

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """Create and start a sandbox; its id."""
        request = pb.RunPodSandboxRequest(config=to_wire.sandbox_config(config), runtime_handler=config.runtime_handler)
        return (await self._stub.RunPodSandbox(request)).pod_sandbox_id

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox and its containers."""
        await self._stub.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id))

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox and its containers."""
        await self._stub.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id))

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create a container; its id."""
        request = pb.CreateContainerRequest(
            pod_sandbox_id=sandbox_id,
            config=to_wire.container_config(config),
            sandbox_config=to_wire.sandbox_config(sandbox),
        )
        return (await self._stub.CreateContainer(request)).container_id

    async def start_container(self, container_id: str) -> None:
        """Start a created container."""
        await self._stub.StartContainer(pb.StartContainerRequest(container_id=container_id))

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Stop signal, then SIGKILL after the grace."""
        await self._stub.StopContainer(pb.StopContainerRequest(container_id=container_id, timeout=grace_seconds))

    async def remove_container(self, container_id: str) -> None:
        """Remove a container."""
        await self._stub.RemoveContainer(pb.RemoveContainerRequest(container_id=container_id))

    async def exec_sync(self, container_id: str, command: Sequence[str], limit_seconds: int) -> ExecResult:
        """Run a command to its end."""
        request = pb.ExecSyncRequest(container_id=container_id, cmd=command, timeout=limit_seconds)
        reply = await self._stub.ExecSync(request)
        return ExecResult(reply.exit_code, reply.stdout, reply.stderr)

    async def reopen_log(self, container_id: str) -> None:
        """Make the runtime reopen the container's log file."""
        await self._stub.ReopenContainerLog(pb.ReopenContainerLogRequest(container_id=container_id))

    @asynccontextmanager
    async def events(self) -> AsyncGenerator[AsyncIterator[ContainerEvent], None]:
        """The runtime's container events, for the length of the block."""
        async with self._stub.GetContainerEvents.raw(pb.GetEventsRequest()) as replies:
            yield _decoded(replies)


async def _decoded(replies: AsyncIterator[bytes]) -> AsyncIterator[ContainerEvent]:
    async for reply in replies:
        yield from_wire.container_event(pb.ContainerEventResponse.FromString(reply))


class CriImages:
    """The CRI's image service over a channel, which may be another than the runtime's."""

    def __init__(self, channel: Channel) -> None:
        self._stub = ImageServiceStub(channel)

    async def image_status(self, image: str) -> ImageInfo | None:
        """The image, or None when the node does not have it."""
        try:
            reply = await self._stub.ImageStatus(pb.ImageStatusRequest(image=pb.ImageSpec(image=image)))
        except NotFound:
            return None
        return from_wire.image_info(reply.image) if reply.HasField("image") and reply.image.id else None

    async def pull_image(self, image: str, sandbox: SandboxConfig | None = None) -> str:
        """Pull an image; its reference."""
        request = pb.PullImageRequest(image=pb.ImageSpec(image=image, user_specified_image=image))
        if sandbox is not None:
            request.sandbox_config.CopyFrom(to_wire.sandbox_config(sandbox))
        return (await self._stub.PullImage(request)).image_ref

    async def list_images(self) -> Sequence[ImageInfo]:
        """Every image on the node."""
        reply = await self._stub.ListImages(pb.ListImagesRequest())
        return [from_wire.image_info(image) for image in reply.images]

    async def remove_image(self, image: str) -> None:
        """Remove an image."""
        await self._stub.RemoveImage(pb.RemoveImageRequest(image=pb.ImageSpec(image=image)))
