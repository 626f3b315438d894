"""The CRI's RuntimeService on the wire: requests are decoded, ``pods`` does the work, replies are built.

Unsupported methods answer UNIMPLEMENTED, with a message if an operator will read it. Errors are those of
``model.runtime_errors``; the server turns them into statuses.
"""

# ruff: noqa: N802 - a servicer has the methods of the service
from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import trio

from trikubelet import __version__
from trikubelet.cri.from_wire import standard_streams
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import RuntimeServiceBase
from trikubelet.embedded.stats import container_stats, process_tree, sandbox_stats
from trikubelet.model.runtime_errors import NotImplementedByRuntime, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.cri.event_board import EventBoard
    from trikubelet.cri.server import Stream
    from trikubelet.embedded.commands import Commands
    from trikubelet.embedded.pods import Pods
    from trikubelet.embedded.records import Container, Sandbox
    from trikubelet.ports import Clock
    from trikubelet.streaming.server import StreamingServer

NAME: Final = "trikubelet-embedded"
ITEMS_PER_MESSAGE: Final = 500
"""Items in a message of a streamed list."""

T = TypeVar("T")


async def _asked(stream: Stream[T, Any]) -> T:
    request = await stream.recv_message()
    assert request is not None, "a unary call without a request"
    return request


def _chunks(items: list[T]) -> list[list[T]]:
    return [items[at : at + ITEMS_PER_MESSAGE] for at in range(0, len(items), ITEMS_PER_MESSAGE)] or [[]]


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


class EmbeddedRuntime(RuntimeServiceBase):
    """The servicer. It owns nothing."""

    def __init__(
        self, pods: Pods, commands: Commands, streaming: StreamingServer, events: EventBoard, clock: Clock
    ) -> None:
        self._pods = pods
        self._commands = commands
        self._streaming = streaming
        self._events = events
        self._clock = clock

    # ---- the runtime itself ----

    async def Version(self, stream: Stream[pb.VersionRequest, pb.VersionResponse]) -> None:
        await _asked(stream)
        await stream.send_message(
            pb.VersionResponse(
                version="0.1.0", runtime_name=NAME, runtime_version=__version__, runtime_api_version="v1"
            )
        )

    async def Status(self, stream: Stream[pb.StatusRequest, pb.StatusResponse]) -> None:
        await _asked(stream)
        conditions = [pb.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
        await stream.send_message(
            pb.StatusResponse(
                status=pb.RuntimeStatus(conditions=conditions),
                info={"isolation": self._pods.isolation.kind, "reason": self._pods.isolation.reason},
                runtime_handlers=[
                    pb.RuntimeHandler(features=pb.RuntimeHandlerFeatures(recursive_read_only_mounts=True))
                ],
                features=pb.RuntimeFeatures(supplemental_groups_policy=True),
            )
        )

    async def UpdateRuntimeConfig(
        self, stream: Stream[pb.UpdateRuntimeConfigRequest, pb.UpdateRuntimeConfigResponse]
    ) -> None:
        """Accept the pod CIDR, which pods on the machine's network do not need."""
        await _asked(stream)
        await stream.send_message(pb.UpdateRuntimeConfigResponse())

    async def GetContainerEvents(self, stream: Stream[pb.GetEventsRequest, pb.ContainerEventResponse]) -> None:
        await _asked(stream)
        with self._events.listen() as listener:
            while True:
                await stream.send_message(await listener.take())

    # ---- sandboxes ----

    async def RunPodSandbox(self, stream: Stream[pb.RunPodSandboxRequest, pb.RunPodSandboxResponse]) -> None:
        request = await _asked(stream)
        sandbox = await self._pods.run_sandbox(request.config, request.runtime_handler)
        await stream.send_message(pb.RunPodSandboxResponse(pod_sandbox_id=sandbox.id))

    async def StopPodSandbox(self, stream: Stream[pb.StopPodSandboxRequest, pb.StopPodSandboxResponse]) -> None:
        await self._pods.stop_sandbox((await _asked(stream)).pod_sandbox_id)
        await stream.send_message(pb.StopPodSandboxResponse())

    async def RemovePodSandbox(self, stream: Stream[pb.RemovePodSandboxRequest, pb.RemovePodSandboxResponse]) -> None:
        await self._pods.remove_sandbox((await _asked(stream)).pod_sandbox_id)
        await stream.send_message(pb.RemovePodSandboxResponse())

    async def PodSandboxStatus(self, stream: Stream[pb.PodSandboxStatusRequest, pb.PodSandboxStatusResponse]) -> None:
        sandbox = self._pods.sandbox((await _asked(stream)).pod_sandbox_id)
        await stream.send_message(pb.PodSandboxStatusResponse(status=sandbox.status()))

    async def ListPodSandbox(self, stream: Stream[pb.ListPodSandboxRequest, pb.ListPodSandboxResponse]) -> None:
        items = self._sandboxes((await _asked(stream)).filter)
        await stream.send_message(pb.ListPodSandboxResponse(items=items))

    async def StreamPodSandboxes(
        self, stream: Stream[pb.StreamPodSandboxesRequest, pb.StreamPodSandboxesResponse]
    ) -> None:
        for items in _chunks(self._sandboxes((await _asked(stream)).filter)):
            await stream.send_message(pb.StreamPodSandboxesResponse(pod_sandboxes=items))

    def _sandboxes(self, only: pb.PodSandboxFilter) -> list[pb.PodSandbox]:
        items = [
            s.item()
            for s in self._pods.sandboxes.values()
            if s.id.startswith(only.id) and _has(s.config.labels, only.label_selector)
        ]
        return [i for i in items if not only.HasField("state") or i.state == only.state.state]

    # ---- containers ----

    async def CreateContainer(self, stream: Stream[pb.CreateContainerRequest, pb.CreateContainerResponse]) -> None:
        asked = await _asked(stream)
        container = self._pods.create_container(asked.pod_sandbox_id, asked.config, asked.sandbox_config)
        await stream.send_message(pb.CreateContainerResponse(container_id=container.id))

    async def StartContainer(self, stream: Stream[pb.StartContainerRequest, pb.StartContainerResponse]) -> None:
        await self._pods.start_container((await _asked(stream)).container_id)
        await stream.send_message(pb.StartContainerResponse())

    async def StopContainer(self, stream: Stream[pb.StopContainerRequest, pb.StopContainerResponse]) -> None:
        asked = await _asked(stream)
        await self._pods.stop_container(asked.container_id, asked.timeout)
        await stream.send_message(pb.StopContainerResponse())

    async def RemoveContainer(self, stream: Stream[pb.RemoveContainerRequest, pb.RemoveContainerResponse]) -> None:
        await self._pods.remove_container((await _asked(stream)).container_id)
        await stream.send_message(pb.RemoveContainerResponse())

    async def ListContainers(self, stream: Stream[pb.ListContainersRequest, pb.ListContainersResponse]) -> None:
        items = self._containers((await _asked(stream)).filter)
        await stream.send_message(pb.ListContainersResponse(containers=items))

    async def StreamContainers(self, stream: Stream[pb.StreamContainersRequest, pb.StreamContainersResponse]) -> None:
        for items in _chunks(self._containers((await _asked(stream)).filter)):
            await stream.send_message(pb.StreamContainersResponse(containers=items))

    def _containers(self, only: pb.ContainerFilter) -> list[pb.Container]:
        items = [
            c.item()
            for c in self._pods.containers.values()
            if c.id.startswith(only.id)
            and c.sandbox.id.startswith(only.pod_sandbox_id)
            and _has(c.config.labels, only.label_selector)
        ]
        return [i for i in items if not only.HasField("state") or i.state == only.state.state]

    async def ContainerStatus(self, stream: Stream[pb.ContainerStatusRequest, pb.ContainerStatusResponse]) -> None:
        asked = await _asked(stream)
        container = self._pods.container(asked.container_id)
        info = {"pid": str(container.command.pid)} if asked.verbose and container.command else {}
        await stream.send_message(pb.ContainerStatusResponse(status=container.status(), info=info))

    async def UpdateContainerResources(
        self, stream: Stream[pb.UpdateContainerResourcesRequest, pb.UpdateContainerResourcesResponse]
    ) -> None:
        await _asked(stream)
        raise NotImplementedByRuntime("the embedded runtime does not limit a container's resources; use containerd")

    async def ReopenContainerLog(
        self, stream: Stream[pb.ReopenContainerLogRequest, pb.ReopenContainerLogResponse]
    ) -> None:
        self._pods.reopen_log((await _asked(stream)).container_id)
        await stream.send_message(pb.ReopenContainerLogResponse())

    async def ExecSync(self, stream: Stream[pb.ExecSyncRequest, pb.ExecSyncResponse]) -> None:
        asked = await _asked(stream)
        code, stdout, stderr = await self._commands.execute(asked.container_id, list(asked.cmd), asked.timeout)
        await stream.send_message(pb.ExecSyncResponse(stdout=stdout, stderr=stderr, exit_code=code))

    async def Exec(self, stream: Stream[pb.ExecRequest, pb.ExecResponse]) -> None:
        asked = await _asked(stream)
        container, wanted = self._pods.running(asked.container_id), standard_streams(asked)
        talk = partial(self._commands.converse, container.id, list(asked.cmd), tty=wanted.tty)
        await stream.send_message(pb.ExecResponse(url=await self._streaming.process_url(wanted, talk)))

    async def Attach(self, stream: Stream[pb.AttachRequest, pb.AttachResponse]) -> None:
        asked = await _asked(stream)
        container = self._pods.running(asked.container_id)
        talk = partial(self._commands.attach, container.id)
        await stream.send_message(
            pb.AttachResponse(url=await self._streaming.process_url(standard_streams(asked), talk))
        )

    async def PortForward(self, stream: Stream[pb.PortForwardRequest, pb.PortForwardResponse]) -> None:
        """Pods are on the machine's network, so their ports are loopback's."""
        sandbox = self._pods.sandbox((await _asked(stream)).pod_sandbox_id)
        if not sandbox.ready:
            raise RuntimeFailure(f"sandbox {sandbox.id} is not ready")
        url = await self._streaming.ports_url(partial(trio.open_tcp_stream, "127.0.0.1"))
        await stream.send_message(pb.PortForwardResponse(url=url))

    # ---- statistics ----

    async def ContainerStats(self, stream: Stream[pb.ContainerStatsRequest, pb.ContainerStatsResponse]) -> None:
        container = self._pods.container((await _asked(stream)).container_id)
        await stream.send_message(pb.ContainerStatsResponse(stats=self._measure([container])[0]))

    async def ListContainerStats(
        self, stream: Stream[pb.ListContainerStatsRequest, pb.ListContainerStatsResponse]
    ) -> None:
        found = self._measure(self._running((await _asked(stream)).filter))
        await stream.send_message(pb.ListContainerStatsResponse(stats=found))

    async def StreamContainerStats(
        self, stream: Stream[pb.StreamContainerStatsRequest, pb.StreamContainerStatsResponse]
    ) -> None:
        for chunk in _chunks(self._measure(self._running((await _asked(stream)).filter))):
            await stream.send_message(pb.StreamContainerStatsResponse(container_stats=chunk))

    def _running(self, only: pb.ContainerStatsFilter) -> list[Container]:
        return [
            c
            for c in self._pods.containers.values()
            if c.state == pb.CONTAINER_RUNNING
            and c.id.startswith(only.id)
            and c.sandbox.id.startswith(only.pod_sandbox_id)
            and _has(c.config.labels, only.label_selector)
        ]

    def _measure(self, containers: list[Container]) -> list[pb.ContainerStats]:
        tree, now_ns = process_tree(), self._clock.now_ns()
        return [container_stats(container, tree, now_ns) for container in containers]

    async def PodSandboxStats(self, stream: Stream[pb.PodSandboxStatsRequest, pb.PodSandboxStatsResponse]) -> None:
        sandbox = self._pods.sandbox((await _asked(stream)).pod_sandbox_id)
        await stream.send_message(pb.PodSandboxStatsResponse(stats=self._measure_pods([sandbox])[0]))

    async def ListPodSandboxStats(
        self, stream: Stream[pb.ListPodSandboxStatsRequest, pb.ListPodSandboxStatsResponse]
    ) -> None:
        found = self._measure_pods(self._ready((await _asked(stream)).filter))
        await stream.send_message(pb.ListPodSandboxStatsResponse(stats=found))

    async def StreamPodSandboxStats(
        self, stream: Stream[pb.StreamPodSandboxStatsRequest, pb.StreamPodSandboxStatsResponse]
    ) -> None:
        for chunk in _chunks(self._measure_pods(self._ready((await _asked(stream)).filter))):
            await stream.send_message(pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=chunk))

    def _ready(self, only: pb.PodSandboxStatsFilter) -> list[Sandbox]:
        return [
            s
            for s in self._pods.sandboxes.values()
            if s.ready and s.id.startswith(only.id) and _has(s.config.labels, only.label_selector)
        ]

    def _measure_pods(self, sandboxes: list[Sandbox]) -> list[pb.PodSandboxStats]:
        tree, now_ns = process_tree(), self._clock.now_ns()
        return [
            sandbox_stats(
                sandbox,
                [c for c in self._pods.of_sandbox(sandbox.id) if c.state == pb.CONTAINER_RUNNING],
                tree,
                now_ns,
            )
            for sandbox in sandboxes
        ]

    # ---- not implemented ----

    async def _not_here(self, stream: Stream[Any, Any]) -> NoReturn:
        await _asked(stream)
        raise NotImplementedByRuntime("the embedded runtime does not have this method")

    CheckpointContainer = CheckpointPod = RestorePod = _not_here
    ListMetricDescriptors = ListPodSandboxMetrics = StreamPodSandboxMetrics = _not_here
    RuntimeConfig = UpdatePodSandboxResources = _not_here
