"""A container runtime that runs nothing and answers at once: what the agent costs is then the agent's own.

    python bench/fast_runtime.py SOCKET JOURNAL

Started as a process of its own by the benchmarks, spoken to over a real socket by an agent that takes it for any other
CRI v1 runtime. Pods and containers exist as protobuf messages; what is started runs until it is stopped; lists are
serialised when something has changed and otherwise answered with the bytes of last time. Every call is written to the
journal as one JSON line: method, pod, and when it began and ended on the machine's monotonic clock.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import trio
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError

from trikubelet.cri.server import serve
from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

POD_UID = "io.kubernetes.pod.uid"


class FastRuntime:
    """Owns the sandboxes and containers that are said to exist."""

    def __init__(self, journal: IO[str]) -> None:
        self._journal = journal
        self._numbers = itertools.count(1)
        self._sandboxes: dict[str, pb.PodSandboxStatus] = {}
        self._containers: dict[str, pb.ContainerStatus] = {}
        self._sandbox_of: dict[str, str] = {}
        self._lists: dict[str, bytes] = {}

    def __mapping__(self) -> dict[str, Handler]:
        """Every method this class has, by its gRPC path."""
        found = {}
        for service in pb.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                answer = getattr(self, method.name, None)
                if answer is not None:
                    types = [getattr(pb, kind.name) for kind in (method.input_type, method.output_type)]
                    path = f"/{service.full_name}/{method.name}"
                    found[path] = Handler(self._journaled(method.name, answer), Cardinality.UNARY_UNARY, *types)
        return found

    def _journaled(self, name: str, answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def handle(stream: Any) -> None:
            began = time.monotonic_ns()
            request = await stream.recv_message()
            reply = answer(request)
            if isinstance(reply, bytes):
                await stream.send_raw(reply)
            else:
                await stream.send_message(reply)
            line = {"method": name, "pod": self._pod_of(request), "began": began, "ended": time.monotonic_ns()}
            self._journal.write(json.dumps(line) + "\n")

        return handle

    def _pod_of(self, request: Any) -> str:
        """The pod a call is about, as far as it names one."""
        if isinstance(request, pb.RunPodSandboxRequest):
            return request.config.metadata.uid
        container = getattr(request, "container_id", "")
        sandbox = self._sandbox_of.get(container) or getattr(request, "pod_sandbox_id", "")
        return self._sandboxes[sandbox].metadata.uid if sandbox in self._sandboxes else ""

    # ---- the node ----

    def Version(self, request: pb.VersionRequest) -> pb.VersionResponse:
        return pb.VersionResponse(
            version="0.1.0", runtime_name="fast", runtime_version="1", runtime_api_version=request.version or "v1"
        )

    def Status(self, _: pb.StatusRequest) -> pb.StatusResponse:
        ready = [pb.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
        return pb.StatusResponse(status=pb.RuntimeStatus(conditions=ready))

    # ---- sandboxes ----

    def RunPodSandbox(self, request: pb.RunPodSandboxRequest) -> pb.RunPodSandboxResponse:
        number = next(self._numbers)
        config = request.config
        self._sandboxes[f"s{number:063x}"] = pb.PodSandboxStatus(
            id=f"s{number:063x}",
            metadata=config.metadata,
            state=pb.SANDBOX_READY,
            created_at=time.time_ns(),
            network=pb.PodSandboxNetworkStatus(ip=f"10.0.{number // 250 % 250}.{number % 250 + 1}"),
            linux=pb.LinuxPodSandboxStatus(
                namespaces=pb.Namespace(options=config.linux.security_context.namespace_options)
            ),
            labels=config.labels,
            annotations=config.annotations,
        )
        self._lists.clear()
        return pb.RunPodSandboxResponse(pod_sandbox_id=f"s{number:063x}")

    def StopPodSandbox(self, request: pb.StopPodSandboxRequest) -> pb.StopPodSandboxResponse:
        if request.pod_sandbox_id in self._sandboxes:
            self._sandboxes[request.pod_sandbox_id].state = pb.SANDBOX_NOTREADY
            for identity, sandbox in self._sandbox_of.items():
                if sandbox == request.pod_sandbox_id:
                    self._end(identity)
        self._lists.clear()
        return pb.StopPodSandboxResponse()

    def RemovePodSandbox(self, request: pb.RemovePodSandboxRequest) -> pb.RemovePodSandboxResponse:
        self._sandboxes.pop(request.pod_sandbox_id, None)
        for identity in [one for one, sandbox in self._sandbox_of.items() if sandbox == request.pod_sandbox_id]:
            del self._sandbox_of[identity], self._containers[identity]
        self._lists.clear()
        return pb.RemovePodSandboxResponse()

    def PodSandboxStatus(self, request: pb.PodSandboxStatusRequest) -> pb.PodSandboxStatusResponse:
        if request.pod_sandbox_id not in self._sandboxes:
            raise GRPCError(Status.NOT_FOUND, "no such sandbox")
        return pb.PodSandboxStatusResponse(status=self._sandboxes[request.pod_sandbox_id])

    def ListPodSandbox(self, request: pb.ListPodSandboxRequest) -> bytes:
        uid = request.filter.label_selector.get(POD_UID, "")
        key = f"sandboxes {uid}"
        if key not in self._lists:
            items = [
                pb.PodSandbox(
                    id=one.id,
                    metadata=one.metadata,
                    state=one.state,
                    created_at=one.created_at,
                    labels=one.labels,
                    annotations=one.annotations,
                )
                for one in self._sandboxes.values()
                if uid in ("", one.metadata.uid)
            ]
            self._lists[key] = pb.ListPodSandboxResponse(items=items).SerializeToString()
        return self._lists[key]

    # ---- containers ----

    def CreateContainer(self, request: pb.CreateContainerRequest) -> pb.CreateContainerResponse:
        identity = f"c{next(self._numbers):063x}"
        config = request.config
        self._containers[identity] = pb.ContainerStatus(
            id=identity,
            metadata=config.metadata,
            state=pb.CONTAINER_CREATED,
            created_at=time.time_ns(),
            image=config.image,
            image_ref=config.image.image,
            labels=config.labels,
            annotations=config.annotations,
            mounts=config.mounts,
            log_path=config.log_path,
        )
        self._sandbox_of[identity] = request.pod_sandbox_id
        self._lists.clear()
        return pb.CreateContainerResponse(container_id=identity)

    def StartContainer(self, request: pb.StartContainerRequest) -> pb.StartContainerResponse:
        one = self._containers[request.container_id]
        one.state, one.started_at = pb.CONTAINER_RUNNING, time.time_ns()
        self._lists.clear()
        return pb.StartContainerResponse()

    def StopContainer(self, request: pb.StopContainerRequest) -> pb.StopContainerResponse:
        if request.container_id not in self._containers:
            raise GRPCError(Status.NOT_FOUND, "no such container")
        self._end(request.container_id)
        self._lists.clear()
        return pb.StopContainerResponse()

    def _end(self, identity: str) -> None:
        one = self._containers[identity]
        if one.state != pb.CONTAINER_EXITED:
            one.state, one.finished_at, one.exit_code = pb.CONTAINER_EXITED, time.time_ns(), 0
            one.reason = "Completed"

    def RemoveContainer(self, request: pb.RemoveContainerRequest) -> pb.RemoveContainerResponse:
        self._containers.pop(request.container_id, None)
        self._sandbox_of.pop(request.container_id, None)
        self._lists.clear()
        return pb.RemoveContainerResponse()

    def ContainerStatus(self, request: pb.ContainerStatusRequest) -> pb.ContainerStatusResponse:
        if request.container_id not in self._containers:
            raise GRPCError(Status.NOT_FOUND, "no such container")
        return pb.ContainerStatusResponse(status=self._containers[request.container_id])

    def ListContainers(self, request: pb.ListContainersRequest) -> bytes:
        uid = request.filter.label_selector.get(POD_UID, "")
        key = f"containers {uid}"
        if key not in self._lists:
            items = [
                pb.Container(
                    id=one.id,
                    pod_sandbox_id=self._sandbox_of[one.id],
                    metadata=one.metadata,
                    image=one.image,
                    image_ref=one.image_ref,
                    state=one.state,
                    created_at=one.created_at,
                    labels=one.labels,
                    annotations=one.annotations,
                )
                for one in self._containers.values()
                if uid in ("", one.labels.get(POD_UID))
            ]
            self._lists[key] = pb.ListContainersResponse(containers=items).SerializeToString()
        return self._lists[key]

    # ---- images ----

    def ImageStatus(self, request: pb.ImageStatusRequest) -> pb.ImageStatusResponse:
        name = request.image.image
        return pb.ImageStatusResponse(image=pb.Image(id=f"sha256:{name}", repo_tags=[name], size=1))

    def PullImage(self, request: pb.PullImageRequest) -> pb.PullImageResponse:
        return pb.PullImageResponse(image_ref=f"sha256:{request.image.image}")

    def ListImages(self, _: pb.ListImagesRequest) -> pb.ListImagesResponse:
        return pb.ListImagesResponse()


async def _main(socket: str, journal: IO[str]) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [FastRuntime(journal)], socket)
        print("ready", flush=True)


if __name__ == "__main__":
    with Path(sys.argv[2]).open("w", buffering=1) as lines:
        trio.run(_main, sys.argv[1], lines)
