"""The container runtime behind a CRI socket, as the rest of the agent knows it (``ports.Runtime``, ``ports.Images``).

The seam: protobuf on one side, frozen records on the other. Nothing is decided here. Lists are handed over undecoded,
because the relist reads them outside Python. One that has outgrown the message limit is asked for as a stream from then
on (CRI has it since 1.36); a runtime without streams cannot be listed any more, and the error says so.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from trikubelet.core.names import POD_UID
from trikubelet.cri import from_wire, to_wire
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import ImageServiceStub, RuntimeServiceStub
from trikubelet.model.runtime import ExecResult
from trikubelet.model.runtime_errors import MessageTooLarge, NotFound, NotImplementedByRuntime, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from trikubelet.cri.channel import Channel
    from trikubelet.cri.methods import Message, UnaryStreamMethod, UnaryUnaryMethod
    from trikubelet.model.runtime import (
        ContainerEvent,
        ContainerStatus,
        ImageInfo,
        RuntimeInfo,
        SandboxStatus,
    )
    from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig

API_VERSION: Final = "0.1.0"
"""What a kubelet says in ``Version``; runtimes ignore it."""

LIST_BYTES_MAX: Final = 256 * 2**20
"""Of a streamed list, whose messages are each within the channel's limit: a quarter of a million containers."""


class CriRuntime:
    """Speaks CRI v1 over a channel. Owns which lists have outgrown one message; the channel owns the connection."""

    def __init__(self, channel: Channel) -> None:
        self._stub = RuntimeServiceStub(channel)
        self._outgrown: set[str] = set()  # methods

    async def info(self) -> RuntimeInfo:
        """``Version`` and ``Status``."""
        version = await self._stub.Version(pb.VersionRequest(version=API_VERSION))
        return from_wire.runtime_info(version, await self._stub.Status(pb.StatusRequest()))

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The undecoded list; of one pod when ``pod_uid`` is given. Raises MessageTooLarge when neither one message nor
        a stream can carry it."""
        only = None if pod_uid is None else pb.PodSandboxFilter(label_selector={POD_UID: pod_uid})
        whole, pieces = pb.ListPodSandboxRequest(filter=only), pb.StreamPodSandboxesRequest(filter=only)
        return await self._listed(self._stub.ListPodSandbox, whole, self._stub.StreamPodSandboxes, pieces)

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The undecoded list; of one pod when ``pod_uid`` is given. Raises MessageTooLarge when neither one message nor
        a stream can carry it."""
        only = None if pod_uid is None else pb.ContainerFilter(label_selector={POD_UID: pod_uid})
        whole, pieces = pb.ListContainersRequest(filter=only), pb.StreamContainersRequest(filter=only)
        return await self._listed(self._stub.ListContainers, whole, self._stub.StreamContainers, pieces)

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
        """Stop a sandbox and its containers. Raises NotFound where the runtime minds."""
        await self._stub.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id))

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox and its containers. That it is gone already is not an error, whatever the runtime says."""
        with suppress(NotFound):
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
        """Remove a container. That it is gone already is not an error, whatever the runtime says."""
        with suppress(NotFound):
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
            yield _Events(replies)

    async def _listed(
        self,
        unary: UnaryUnaryMethod[Any, Any],
        whole: Message,
        stream: UnaryStreamMethod[Any, Any],
        pieces: Message,
    ) -> Sequence[bytes]:
        if unary.name in self._outgrown:
            try:
                return await _collect(stream, pieces)
            except NotImplementedByRuntime:  # it was exchanged for an older one
                self._outgrown.discard(unary.name)
        try:
            return [await unary.raw(whole)]
        except MessageTooLarge as too_large:
            try:
                found = await _collect(stream, pieces)
            except NotImplementedByRuntime:
                raise MessageTooLarge(
                    f"{unary.name}: {too_large}; this runtime has no streamed lists: remove dead containers, or raise "
                    "the message limit on both sides"
                ) from too_large
            self._outgrown.add(unary.name)
            return found


async def _collect(stream: UnaryStreamMethod[Any, Any], request: Message) -> Sequence[bytes]:
    chunks: list[bytes] = []
    total_bytes = 0
    async with stream.raw(request) as replies:
        async for reply in replies:
            total_bytes += len(reply)
            if total_bytes > LIST_BYTES_MAX:
                raise MessageTooLarge(f"{stream.name}: the list is longer than {LIST_BYTES_MAX} bytes")
            chunks.append(reply)
    return chunks


class _Events:
    """The decoded events, in order. No async generator: those mind being left half-way."""

    def __init__(self, replies: AsyncIterator[bytes]) -> None:
        self._replies = replies

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> ContainerEvent:
        reply = await self._replies.__anext__()
        try:
            return from_wire.container_event(pb.ContainerEventResponse.FromString(reply))
        except DecodeError as error:
            raise RuntimeFailure(f"a container event cannot be read: {error}", "INTERNAL") from error


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
        """Remove an image. That it is gone already is not an error, whatever the runtime says."""
        with suppress(NotFound):
            await self._stub.RemoveImage(pb.RemoveImageRequest(image=pb.ImageSpec(image=image)))
