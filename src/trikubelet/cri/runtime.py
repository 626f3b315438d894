"""The container runtime behind a CRI socket (``ports.Runtime``, ``ports.Images``).

Converts between protobuf and frozen records, and decides nothing. Lists are passed on undecoded, because the relist
reads them outside Python; ``cri.lists`` handles the message limit.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from google.protobuf.message import DecodeError

from trikubelet.cri import from_wire, to_wire
from trikubelet.cri.lists import RuntimeLists
from trikubelet.cri.network_setup import KEY as NETWORK_SETUP
from trikubelet.cri.network_setup import read_network_setup
from trikubelet.cri.round import UnaryCall
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import ImageServiceStub, RuntimeServiceStub
from trikubelet.model.runtime import ExecResult, StatusReplies, Undecoded
from trikubelet.model.runtime_errors import NotFound, NotImplementedByRuntime, RuntimeFailure, RuntimeTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence

    from trikubelet.cri.channel import Channel
    from trikubelet.model.registry import Login
    from trikubelet.model.runtime import (
        ContainerEvent,
        ContainerStatus,
        ImageInfo,
        NetworkSetup,
        RuntimeInfo,
        SandboxStatus,
    )
    from trikubelet.model.runtime_config import ContainerConfig, LinuxResources, SandboxConfig
    from trikubelet.model.standard_streams import StandardStreams
    from trikubelet.model.usage import ContainerStats, ImageStores

log = logging.getLogger(__name__)

Record = TypeVar("Record", "SandboxStatus", "ContainerStatus")

API_VERSION: Final = "0.1.0"
"""The kubelet's version in ``Version``; runtimes ignore it."""
_TIMED_OUT_CODE: Final = -1
"""No process has this exit code."""
_TIMED_OUT: Final = b"command timed out"
"""CRI-O's answer for a command that it killed at its time limit; containerd returns an error."""


class CriRuntime:
    """Calls a CRI v1 runtime over a channel, which owns the connection."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._stub = RuntimeServiceStub(channel)
        self._lists = RuntimeLists(channel)

    async def wait_connected(self) -> None:
        """Return once the channel is connected."""
        await self._channel.wait_connected()

    async def info(self) -> RuntimeInfo:
        """Return the results of ``Version`` and ``Status``, and a warning about the lists."""
        version = await self._stub.Version(pb.VersionRequest(version=API_VERSION))
        info = from_wire.runtime_info(version, await self._stub.Status(pb.StatusRequest()))
        return replace(info, list_warning=self._lists.warning)

    async def network_setup(self) -> NetworkSetup | None:
        """Return the runtime's CNI configuration and plugins; None if it does not report them."""
        reply = await self._stub.Status(pb.StatusRequest(verbose=True))
        return read_network_setup(reply.info.get(NETWORK_SETUP, ""))

    async def cgroup_driver(self) -> str:
        """Return the driver in ``RuntimeConfig``; "" if the runtime has no such method, or if the value is unknown,
        which means that the runtime is newer than this agent and is logged."""
        try:
            reply = await self._stub.RuntimeConfig(pb.RuntimeConfigRequest())
        except NotImplementedByRuntime:
            return ""
        number = reply.linux.cgroup_driver
        if number not in pb.CgroupDriver.values():
            log.warning("The container runtime has an unknown cgroup driver: number %d", number)
            return ""
        return pb.CgroupDriver.Name(number).lower() if reply.HasField("linux") else ""

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The undecoded list; of one pod when ``pod_uid`` is given. Raises MessageTooLarge when it cannot be had in any
        way."""
        return await self._lists.sandboxes(pod_uid)

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The undecoded list; of one pod when ``pod_uid`` is given. Raises MessageTooLarge when it cannot be had in any
        way."""
        return await self._lists.containers(pod_uid)

    async def sandbox_status(self, sandbox_id: str) -> Undecoded[SandboxStatus]:
        """Return one sandbox. Raises NotFound."""
        raw = await self._stub.PodSandboxStatus.raw(pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id))
        return Undecoded(sandbox_id, raw, from_wire.decode_sandbox_status)

    async def container_status(self, container_id: str) -> Undecoded[ContainerStatus]:
        """Return one container. Raises NotFound."""
        raw = await self._stub.ContainerStatus.raw(pb.ContainerStatusRequest(container_id=container_id))
        return Undecoded(container_id, raw, from_wire.decode_container_status)

    async def statuses(self, sandbox_ids: Sequence[str], container_ids: Sequence[str]) -> StatusReplies:
        """Return many sandboxes and containers, requested concurrently; those that do not exist are left out."""
        of_sandbox, of_container = self._stub.PodSandboxStatus.name, self._stub.ContainerStatus.name
        calls = [
            UnaryCall(of_sandbox, pb.PodSandboxStatusRequest(pod_sandbox_id=id_).SerializeToString())
            for id_ in sandbox_ids
        ]
        calls += [
            UnaryCall(of_container, pb.ContainerStatusRequest(container_id=id_).SerializeToString())
            for id_ in container_ids
        ]
        answers = await self._channel.round(calls)
        sandboxes, containers = answers[: len(sandbox_ids)], answers[len(sandbox_ids) :]
        return StatusReplies(
            list(_undecoded(sandbox_ids, sandboxes, from_wire.decode_sandbox_status)),
            list(_undecoded(container_ids, containers, from_wire.decode_container_status)),
        )

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """Create and start a sandbox. Return its id."""
        request = pb.RunPodSandboxRequest(config=to_wire.sandbox_config(config), runtime_handler=config.runtime_handler)
        return (await self._stub.RunPodSandbox(request)).pod_sandbox_id

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox and its containers. Raises NotFound with some runtimes."""
        await self._stub.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id))

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox and its containers. No error if it is gone already, whatever the runtime returns."""
        with suppress(NotFound):
            await self._stub.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id))

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create a container. Return its id."""
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
        """Send the stop signal, and SIGKILL after the grace period."""
        await self._stub.StopContainer(pb.StopContainerRequest(container_id=container_id, timeout=grace_seconds))

    async def remove_container(self, container_id: str) -> None:
        """Remove a container. No error if it is gone already, whatever the runtime returns."""
        with suppress(NotFound):
            await self._stub.RemoveContainer(pb.RemoveContainerRequest(container_id=container_id))

    async def update_resources(self, container_id: str, resources: LinuxResources) -> None:
        """Change the resources of a running container. Raises NotFound, NotImplementedByRuntime."""
        request = pb.UpdateContainerResourcesRequest(container_id=container_id, linux=to_wire.resources(resources))
        await self._stub.UpdateContainerResources(request)

    async def exec_sync(self, container_id: str, command: Sequence[str], limit_seconds: int) -> ExecResult:
        """Run a command to its end. Raises RuntimeTimeout if it was killed at the limit."""
        request = pb.ExecSyncRequest(container_id=container_id, cmd=command, timeout=limit_seconds)
        reply = await self._stub.ExecSync(request)
        if reply.exit_code == _TIMED_OUT_CODE and reply.stderr == _TIMED_OUT:
            raise RuntimeTimeout(f"the command was killed: it took longer than {limit_seconds} s")
        return ExecResult(reply.exit_code, reply.stdout, reply.stderr)

    async def container_stats(self) -> Sequence[ContainerStats]:
        """Return the usage of each running container. Raises NotImplementedByRuntime."""
        reply = await self._stub.ListContainerStats(pb.ListContainerStatsRequest())
        return [from_wire.container_stats(stats) for stats in reply.stats]

    async def checkpoint_container(self, container_id: str, path: str, limit_seconds: int) -> None:
        """Write the state of a container into an archive. Raises NotFound, NotImplementedByRuntime."""
        await self._stub.CheckpointContainer(
            pb.CheckpointContainerRequest(container_id=container_id, location=path, timeout=limit_seconds)
        )

    async def reopen_log(self, container_id: str) -> None:
        """Make the runtime reopen the container's log file."""
        await self._stub.ReopenContainerLog(pb.ReopenContainerLogRequest(container_id=container_id))

    async def exec_url(self, container_id: str, command: Sequence[str], streams: StandardStreams) -> str:
        """Return the URL of the streams of a new command in a running container."""
        request = pb.ExecRequest(
            container_id=container_id,
            cmd=command,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            tty=streams.tty,
        )
        return (await self._stub.Exec(request)).url

    async def attach_url(self, container_id: str, streams: StandardStreams) -> str:
        """Return the URL of the streams of the running container's main process."""
        request = pb.AttachRequest(
            container_id=container_id,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            tty=streams.tty,
        )
        return (await self._stub.Attach(request)).url

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        """Return the URL for connections into a sandbox's network."""
        return (await self._stub.PortForward(pb.PortForwardRequest(pod_sandbox_id=sandbox_id, port=ports))).url

    @asynccontextmanager
    async def events(self) -> AsyncGenerator[AsyncIterator[ContainerEvent], None]:
        """Yield an iterator of the runtime's container events, valid in the block."""
        async with self._stub.GetContainerEvents.raw(pb.GetEventsRequest()) as replies:
            yield _Events(replies)


class _Events:
    """The decoded events, in order. Not an async generator, because those need cleanup when a loop is left early."""

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
    """The CRI's image service over a channel, which may differ from the runtime's."""

    def __init__(self, channel: Channel) -> None:
        self._stub = ImageServiceStub(channel)

    async def image_status(self, image: str) -> ImageInfo | None:
        """Return the image, or None if the node does not have it."""
        try:
            reply = await self._stub.ImageStatus(pb.ImageStatusRequest(image=pb.ImageSpec(image=image)))
        except NotFound:
            return None
        return from_wire.image_info(reply.image) if reply.HasField("image") and reply.image.id else None

    async def pull_image(self, image: str, sandbox: SandboxConfig | None = None, login: Login | None = None) -> str:
        """Pull an image. Return its reference."""
        request = pb.PullImageRequest(image=pb.ImageSpec(image=image, user_specified_image=image))
        if login is not None:
            request.auth.CopyFrom(pb.AuthConfig(username=login.username, password=login.password))
        if sandbox is not None:
            request.sandbox_config.CopyFrom(to_wire.sandbox_config(sandbox))
        return (await self._stub.PullImage(request)).image_ref

    async def list_images(self) -> Sequence[ImageInfo]:
        """Return all images on the node."""
        reply = await self._stub.ListImages(pb.ListImagesRequest())
        return [from_wire.image_info(image) for image in reply.images]

    async def remove_image(self, image: str) -> None:
        """Remove an image. No error if it is gone already, whatever the runtime returns."""
        with suppress(NotFound):
            await self._stub.RemoveImage(pb.RemoveImageRequest(image=pb.ImageSpec(image=image)))

    async def stores(self) -> ImageStores:
        """Return the stores of images and of containers' layers. Raises NotImplementedByRuntime."""
        return from_wire.image_stores(await self._stub.ImageFsInfo(pb.ImageFsInfoRequest()))


def _undecoded(
    ids: Sequence[str], answers: Sequence[bytes | NotFound], decoder: Callable[[bytes], Record]
) -> Iterator[Undecoded[Record]]:
    """Yield the replies among the answers, each with the id of its request."""
    for id_, answer in zip(ids, answers, strict=True):
        if isinstance(answer, bytes):
            yield Undecoded(id_, answer, decoder)
