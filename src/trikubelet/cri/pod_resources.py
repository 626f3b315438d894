"""The pod resources API over gRPC, v1 and its older form v1alpha1 (``ports.PodResourcesSocket``)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from trikubelet.cri.plugin_v1 import pod_resources_pb2 as pb
from trikubelet.cri.plugin_v1.pod_resources_grpc import PodResourcesListerBase
from trikubelet.cri.server import serve

if TYPE_CHECKING:
    from grpclib.const import Handler

    from trikubelet.cri.server import Stream
    from trikubelet.model.pod_resources import DeviceGroup, PodResources
    from trikubelet.ports import PodResourcesAnswers


class GrpcPodResources:
    """Serves the pod resources API. Owns no state."""

    async def serve(
        self,
        socket: str,
        answers: PodResourcesAnswers,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """See ``ports.PodResourcesSocket``."""
        await serve([_Lister(answers)], socket, task_status=task_status)


class _Lister(PodResourcesListerBase):
    def __init__(self, answers: PodResourcesAnswers) -> None:
        self._answers = answers

    def __mapping__(self) -> dict[str, Handler]:
        """Return the methods by path. The messages of v1alpha1 are those of v1 without the later fields, which its
        clients skip."""
        methods: dict[str, Handler] = super().__mapping__()
        older = methods["/v1.PodResourcesLister/List"]._replace(func=partial(self._list, version="v1alpha1"))
        return {**methods, "/v1alpha1.PodResourcesLister/List": older}

    async def List(self, stream: Stream[pb.ListPodResourcesRequest, pb.ListPodResourcesResponse]) -> None:  # noqa: N802 - the service's names
        await self._list(stream, version="v1")

    async def _list(
        self, stream: Stream[pb.ListPodResourcesRequest, pb.ListPodResourcesResponse], version: str
    ) -> None:
        await stream.recv_message()
        self._admit()
        await stream.send_message(pb.ListPodResourcesResponse(pod_resources=map(_pod, self._answers.all(version))))

    async def GetAllocatableResources(  # noqa: N802
        self, stream: Stream[pb.AllocatableResourcesRequest, pb.AllocatableResourcesResponse]
    ) -> None:
        await stream.recv_message()
        self._admit()
        await stream.send_message(pb.AllocatableResourcesResponse(devices=map(_devices, self._answers.allocatable())))

    async def Get(self, stream: Stream[pb.GetPodResourcesRequest, pb.GetPodResourcesResponse]) -> None:  # noqa: N802
        request = await stream.recv_message()
        if request is None:
            return
        self._admit()
        found = self._answers.of(request.pod_namespace, request.pod_name)
        if found is None:
            said = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
            raise GRPCError(Status.UNKNOWN, said)  # like Go's server for a plain error
        await stream.send_message(pb.GetPodResourcesResponse(pod_resources=_pod(found)))

    def _admit(self) -> None:
        if not self._answers.admits():
            raise GRPCError(Status.RESOURCE_EXHAUSTED, "rejected by rate limit")


def _pod(pod: PodResources) -> pb.PodResources:
    containers = [pb.ContainerResources(name=one.name, devices=map(_devices, one.devices)) for one in pod.containers]
    return pb.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)


def _devices(group: DeviceGroup) -> pb.ContainerDevices:
    nodes = [pb.NUMANode(ID=node) for node in group.numa_nodes]
    topology = pb.TopologyInfo(nodes=nodes) if nodes else None
    return pb.ContainerDevices(resource_name=group.resource, device_ids=group.ids, topology=topology)
