"""The CRI's RuntimeService of the fake runtime: requests are decoded, and answered from the population.

The two big lists are sent as they are in ``lists``, at the cost that ``figures`` records. Commands, terminals and ports
are echoes, because nothing runs there (``fake.echo``); methods that need a process answer UNIMPLEMENTED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from trikubelet import __version__
from trikubelet.core.names import POD_UID
from trikubelet.cri.from_wire import standard_streams
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import RuntimeServiceBase
from trikubelet.fake.echo import echo_process, open_echo
from trikubelet.fake.lists import chunked
from trikubelet.fake.pod_calls import write_log
from trikubelet.fake.stats import container_stats, sandbox_stats
from trikubelet.model.runtime_errors import NotImplementedByRuntime, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from trikubelet.cri.event_board import EventBoard
    from trikubelet.cri.server import Stream
    from trikubelet.cri.server_connection import Prompt
    from trikubelet.fake.conduct import Conduct
    from trikubelet.fake.figures import Figures
    from trikubelet.fake.lists import ElementList
    from trikubelet.fake.pod_calls import FakePods
    from trikubelet.fake.records import Container, Sandbox
    from trikubelet.streaming.server import StreamingServer

NAME: Final = "trikubelet-fake"
CHUNK_BYTES_MAX: Final = 1 * 2**20
"""Items in one message of a streamed list."""

STATS_PER_MESSAGE: Final = 500

T = TypeVar("T")


class FakeRuntime(RuntimeServiceBase):
    """The servicer. It owns nothing."""

    def __init__(
        self, pods: FakePods, streaming: StreamingServer, conduct: Conduct, events: EventBoard, figures: Figures
    ) -> None:
        self._pods = pods
        self._streaming = streaming
        self._population = pods.population
        self._conduct = conduct
        self._events = events
        self._figures = figures

    def prompts(self) -> Mapping[str, Prompt]:
        """The status calls, where nothing delays them: they are 30,000 when an agent starts on 10,000 pods."""
        population = self._population

        def sandbox_status(request: bytes) -> bytes | None:
            return at_once(population.sandboxes.get(pb.PodSandboxStatusRequest.FromString(request).pod_sandbox_id))

        def container_status(request: bytes) -> bytes | None:
            return at_once(population.containers.get(pb.ContainerStatusRequest.FromString(request).container_id))

        def at_once(one: Sandbox | Container | None) -> bytes | None:
            return population.reply(one) if one is not None and self._conduct.is_prompt(one.uid) else None

        service = "/runtime.v1.RuntimeService/"
        return {service + "PodSandboxStatus": sandbox_status, service + "ContainerStatus": container_status}

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
                runtime_handlers=[pb.RuntimeHandler(features=pb.RuntimeHandlerFeatures(user_namespaces=True))],
            )
        )

    async def RuntimeConfig(self, stream: Stream[pb.RuntimeConfigRequest, pb.RuntimeConfigResponse]) -> None:
        await _asked(stream)
        linux = pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS)
        await stream.send_message(pb.RuntimeConfigResponse(linux=linux))

    async def UpdateRuntimeConfig(
        self, stream: Stream[pb.UpdateRuntimeConfigRequest, pb.UpdateRuntimeConfigResponse]
    ) -> None:
        """The pod CIDR, which pods without a network do not need."""
        await _asked(stream)
        await stream.send_message(pb.UpdateRuntimeConfigResponse())

    async def GetContainerEvents(self, stream: Stream[pb.GetEventsRequest, pb.ContainerEventResponse]) -> None:
        await _asked(stream)
        if not self._conduct.events:
            _unknown("GetContainerEvents")
        with self._events.listen() as listener:
            while True:
                await stream.send_message(await listener.take())

    # ---- lists ----

    async def ListPodSandbox(self, stream: Stream[pb.ListPodSandboxRequest, pb.ListPodSandboxResponse]) -> None:
        only = (await _asked(stream)).filter
        await self._list(stream, "ListPodSandbox", self._population.listed_sandboxes, lambda: self._sandboxes(only))

    async def ListContainers(self, stream: Stream[pb.ListContainersRequest, pb.ListContainersResponse]) -> None:
        only = (await _asked(stream)).filter
        await self._list(stream, "ListContainers", self._population.listed_containers, lambda: self._containers(only))

    async def StreamPodSandboxes(
        self, stream: Stream[pb.StreamPodSandboxesRequest, pb.StreamPodSandboxesResponse]
    ) -> None:
        only = (await _asked(stream)).filter
        if not self._conduct.streaming:
            _unknown("StreamPodSandboxes")
        listed = self._population.listed_sandboxes
        await self._list(stream, "StreamPodSandboxes", listed, lambda: self._sandboxes(only), chunk=True)

    async def StreamContainers(self, stream: Stream[pb.StreamContainersRequest, pb.StreamContainersResponse]) -> None:
        only = (await _asked(stream)).filter
        if not self._conduct.streaming:
            _unknown("StreamContainers")
        listed = self._population.listed_containers
        await self._list(stream, "StreamContainers", listed, lambda: self._containers(only), chunk=True)

    async def _list(
        self,
        stream: Stream[Any, Any],
        method: str,
        listed: ElementList,
        choose: Callable[[], Iterable[str] | None],
        *,
        chunk: bool = False,
    ) -> None:
        """Answer with the elements of the chosen ids, or with all of them when None is chosen."""
        await self._conduct.before_list()
        cost = self._figures.of(method)
        with cost.building():
            chosen = choose()
            pieces = listed.pieces() if chosen is None else listed.some(chosen)
            messages = (
                list(chunked(pieces, min(CHUNK_BYTES_MAX, self._conduct.message_bytes_max))) if chunk else [pieces]
            )
        for message in messages:
            size = sum(map(len, message))
            if size > self._conduct.message_bytes_max:
                # The message of Go's gRPC library, by which clients recognize this failure.
                words = f"grpc: trying to send message larger than max ({size} vs. {self._conduct.message_bytes_max})"
                raise GRPCError(Status.RESOURCE_EXHAUSTED, words)
            with cost.sending(size):
                await stream.send_pieces(message)
        with cost.sending(0):
            await stream.written()

    def _sandboxes(self, only: pb.PodSandboxFilter) -> Iterable[str] | None:
        if not only.ByteSize():
            return None
        population = self._population
        uid = only.label_selector.get(POD_UID)
        among = population.sandboxes.values() if uid is None else population.pods.get(uid, {}).values()
        ready = (only.state.state == pb.SANDBOX_READY) if only.HasField("state") else None
        return [
            s.id
            for s in among
            if s.id.startswith(only.id) and ready in (None, s.ready) and _has(s.labels, only.label_selector)
        ]

    def _containers(self, only: pb.ContainerFilter) -> Iterable[str] | None:
        if not only.ByteSize():
            return None
        return [c.id for c in self._among(only) if not only.HasField("state") or c.state == only.state.state]

    def _among(self, only: pb.ContainerFilter | pb.ContainerStatsFilter) -> list[Container]:
        population = self._population
        uid = only.label_selector.get(POD_UID)
        among: Iterable[Container] = population.containers.values()
        if uid is not None:
            # Almost always that of its pod, and checking 20,000 others would be slow.
            among = (c for sandbox in population.pods.get(uid, {}).values() for c in sandbox.containers.values())
        return [
            c
            for c in among
            if c.id.startswith(only.id)
            and c.sandbox.id.startswith(only.pod_sandbox_id)
            and _has(c.labels, only.label_selector)
        ]

    # ---- sandboxes ----

    async def RunPodSandbox(self, stream: Stream[pb.RunPodSandboxRequest, pb.RunPodSandboxResponse]) -> None:
        asked = await _asked(stream)
        sandbox = self._pods.run_sandbox(asked.config, asked.runtime_handler)
        await stream.send_message(pb.RunPodSandboxResponse(pod_sandbox_id=sandbox.id))

    async def StopPodSandbox(self, stream: Stream[pb.StopPodSandboxRequest, pb.StopPodSandboxResponse]) -> None:
        self._pods.stop_sandbox((await _asked(stream)).pod_sandbox_id)
        await stream.send_message(pb.StopPodSandboxResponse())

    async def RemovePodSandbox(self, stream: Stream[pb.RemovePodSandboxRequest, pb.RemovePodSandboxResponse]) -> None:
        self._pods.remove_sandbox((await _asked(stream)).pod_sandbox_id)
        await stream.send_message(pb.RemovePodSandboxResponse())

    async def PodSandboxStatus(self, stream: Stream[pb.PodSandboxStatusRequest, pb.PodSandboxStatusResponse]) -> None:
        id_ = (await _asked(stream)).pod_sandbox_id
        await self._conduct.before_status(self._pods.sandbox(id_).uid)
        # Looked up again: it may have been removed in the meantime.
        await stream.answer(self._population.reply(self._pods.sandbox(id_)))

    async def UpdatePodSandboxResources(
        self, stream: Stream[pb.UpdatePodSandboxResourcesRequest, pb.UpdatePodSandboxResourcesResponse]
    ) -> None:
        """There is nothing to limit."""
        self._pods.sandbox((await _asked(stream)).pod_sandbox_id)
        await stream.send_message(pb.UpdatePodSandboxResourcesResponse())

    # ---- containers ----

    async def CreateContainer(self, stream: Stream[pb.CreateContainerRequest, pb.CreateContainerResponse]) -> None:
        asked = await _asked(stream)
        container = self._pods.create_container(asked.pod_sandbox_id, asked.config, asked.sandbox_config)
        await stream.send_message(pb.CreateContainerResponse(container_id=container.id))

    async def StartContainer(self, stream: Stream[pb.StartContainerRequest, pb.StartContainerResponse]) -> None:
        self._pods.start_container((await _asked(stream)).container_id)
        await stream.send_message(pb.StartContainerResponse())

    async def StopContainer(self, stream: Stream[pb.StopContainerRequest, pb.StopContainerResponse]) -> None:
        asked = await _asked(stream)
        await self._pods.stop_container(asked.container_id, asked.timeout)
        await stream.send_message(pb.StopContainerResponse())

    async def RemoveContainer(self, stream: Stream[pb.RemoveContainerRequest, pb.RemoveContainerResponse]) -> None:
        self._pods.remove_container((await _asked(stream)).container_id)
        await stream.send_message(pb.RemoveContainerResponse())

    async def ContainerStatus(self, stream: Stream[pb.ContainerStatusRequest, pb.ContainerStatusResponse]) -> None:
        id_ = (await _asked(stream)).container_id
        await self._conduct.before_status(self._pods.container(id_).sandbox.uid)
        await stream.answer(self._population.reply(self._pods.container(id_)))

    async def UpdateContainerResources(
        self, stream: Stream[pb.UpdateContainerResourcesRequest, pb.UpdateContainerResourcesResponse]
    ) -> None:
        """There is nothing to limit, but the limits are reported."""
        asked = await _asked(stream)
        self._pods.update_resources(asked.container_id, asked.linux)
        await stream.send_message(pb.UpdateContainerResourcesResponse())

    async def ReopenContainerLog(
        self, stream: Stream[pb.ReopenContainerLogRequest, pb.ReopenContainerLogResponse]
    ) -> None:
        container = self._pods.container((await _asked(stream)).container_id)
        try:
            write_log(container, "The log was reopened.")
        except OSError as error:
            raise RuntimeFailure(f"the log of container {container.name}: {error}") from error
        await stream.send_message(pb.ReopenContainerLogResponse())

    # ---- streams, which are echoes ----

    async def Exec(self, stream: Stream[pb.ExecRequest, pb.ExecResponse]) -> None:
        asked = await _asked(stream)
        self._running(asked.container_id)
        url = await self._streaming.process_url(standard_streams(asked), echo_process)
        await stream.send_message(pb.ExecResponse(url=url))

    async def Attach(self, stream: Stream[pb.AttachRequest, pb.AttachResponse]) -> None:
        asked = await _asked(stream)
        self._running(asked.container_id)
        url = await self._streaming.process_url(standard_streams(asked), echo_process)
        await stream.send_message(pb.AttachResponse(url=url))

    async def PortForward(self, stream: Stream[pb.PortForwardRequest, pb.PortForwardResponse]) -> None:
        sandbox = self._pods.sandbox((await _asked(stream)).pod_sandbox_id)
        if not sandbox.ready:
            raise RuntimeFailure(f"sandbox {sandbox.id} is not ready")
        await stream.send_message(pb.PortForwardResponse(url=await self._streaming.ports_url(open_echo)))

    # ---- statistics ----

    async def ContainerStats(self, stream: Stream[pb.ContainerStatsRequest, pb.ContainerStatsResponse]) -> None:
        container = self._pods.container((await _asked(stream)).container_id)
        await stream.send_message(
            pb.ContainerStatsResponse(stats=container_stats(container, self._population.now_ns()))
        )

    async def ListContainerStats(
        self, stream: Stream[pb.ListContainerStatsRequest, pb.ListContainerStatsResponse]
    ) -> None:
        found = self._container_stats((await _asked(stream)).filter)
        await stream.send_message(pb.ListContainerStatsResponse(stats=found))

    async def StreamContainerStats(
        self, stream: Stream[pb.StreamContainerStatsRequest, pb.StreamContainerStatsResponse]
    ) -> None:
        found = self._container_stats((await _asked(stream)).filter)
        for at in range(0, len(found), STATS_PER_MESSAGE):
            some = found[at : at + STATS_PER_MESSAGE]
            await stream.send_message(pb.StreamContainerStatsResponse(container_stats=some))

    def _container_stats(self, only: pb.ContainerStatsFilter) -> list[pb.ContainerStats]:
        now_ns = self._population.now_ns()
        return [container_stats(c, now_ns) for c in self._among(only) if c.state == pb.CONTAINER_RUNNING]

    async def PodSandboxStats(self, stream: Stream[pb.PodSandboxStatsRequest, pb.PodSandboxStatsResponse]) -> None:
        sandbox = self._pods.sandbox((await _asked(stream)).pod_sandbox_id)
        await stream.send_message(pb.PodSandboxStatsResponse(stats=sandbox_stats(sandbox, self._population.now_ns())))

    async def ListPodSandboxStats(
        self, stream: Stream[pb.ListPodSandboxStatsRequest, pb.ListPodSandboxStatsResponse]
    ) -> None:
        found = self._sandbox_stats((await _asked(stream)).filter)
        await stream.send_message(pb.ListPodSandboxStatsResponse(stats=found))

    async def StreamPodSandboxStats(
        self, stream: Stream[pb.StreamPodSandboxStatsRequest, pb.StreamPodSandboxStatsResponse]
    ) -> None:
        found = self._sandbox_stats((await _asked(stream)).filter)
        for at in range(0, len(found), STATS_PER_MESSAGE):
            some = found[at : at + STATS_PER_MESSAGE]
            await stream.send_message(pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=some))

    def _sandbox_stats(self, only: pb.PodSandboxStatsFilter) -> list[pb.PodSandboxStats]:
        now_ns = self._population.now_ns()
        return [
            sandbox_stats(s, now_ns)
            for s in self._population.sandboxes.values()
            if s.ready and s.id.startswith(only.id) and _has(s.labels, only.label_selector)
        ]

    # ---- not implemented ----

    async def _nothing_runs(self, stream: Stream[Any, Any]) -> NoReturn:
        await _asked(stream)
        raise NotImplementedByRuntime(
            "nothing runs in the containers of the fake runtime, so there is nothing to talk to or to look into; use "
            "containerd, or the embedded runtime, for programs that run"
        )

    async def ExecSync(self, stream: Stream[pb.ExecSyncRequest, pb.ExecSyncResponse]) -> None:
        """As if the command had succeeded, so that pods with exec probes get ready."""
        self._running((await _asked(stream)).container_id)
        await stream.send_message(pb.ExecSyncResponse())

    def _running(self, container_id: str) -> Container:
        container = self._pods.container(container_id)
        if container.state != pb.CONTAINER_RUNNING:
            raise RuntimeFailure(f"container {container.name} does not run")
        return container

    CheckpointContainer = CheckpointPod = RestorePod = _nothing_runs
    ListMetricDescriptors = ListPodSandboxMetrics = StreamPodSandboxMetrics = _nothing_runs


async def _asked(stream: Stream[T, Any]) -> T:
    request = await stream.recv_message()
    assert request is not None, "a unary call without a request"
    return request


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def _unknown(method: str) -> NoReturn:
    raise NotImplementedByRuntime(f"unknown method {method} for service runtime.v1.RuntimeService")
