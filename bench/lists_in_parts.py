"""A node with far more dead containers than one message holds: what a list costs then, and whether it recovers.

    python bench/lists_in_parts.py [--pods 10000] [--containers 4] [--namespaces 1] [--recover]

A runtime in a process of its own has that many dead containers of 1.2 KB in that many pods, sends no more than 16 MiB
in one message and has no streamed lists, like every containerd so far. A list is taken three times: the first finds out
what does not fit. With ``--recover`` a whole node that wants none of these pods is joined on it, until all are gone.
What a list costs a real runtime is more: it walks all its containers for every part.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError

from trikubelet.app.node import Ports, Rules, build_node, run_node
from trikubelet.core.containers import NodeFacts
from trikubelet.core.names import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from trikubelet.core.relist import Relist
from trikubelet.core.restarts import BackoffLimits
from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriImages, CriRuntime
from trikubelet.cri.server import serve
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.handlers.network import NetworkHandlers
from trikubelet.host.clock import SystemClock
from trikubelet.model.bounds import Bounds
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.memory_host import MemoryContainerLogs, MemoryPodCgroups, MemoryPodFiles, MemoryVolumes
from trikubelet.testing.memory_pulls import MemoryLogins, MemoryPullRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trikubelet.app.node import Node

MESSAGE_BYTES_MAX = 16 * 2**20
CONTAINER_BYTES = 1200


class Crowded:
    """Owns the pods, and how many lists it was asked for and refused to send."""

    def __init__(self, pods: int, containers: int, namespaces: int) -> None:
        self.sandboxes: dict[str, pb.PodSandbox] = {}
        self.containers: dict[str, pb.Container] = {}
        self.by_labels: dict[tuple[str, str], dict[str, bytes]] = {}  # containers as list items, "" for any
        self.asked = self.refused = 0
        for number in range(pods):
            self._add(f"{number:08x}-0000-4000-8000-000000000000", f"ns-{number % namespaces}", containers)

    def _add(self, uid: str, namespace: str, containers: int) -> None:
        labels = {POD_UID: uid, POD_NAMESPACE: namespace, POD_NAME: uid}
        metadata = pb.PodSandboxMetadata(name=uid, uid=uid, namespace=namespace)
        sandbox = pb.PodSandbox(id=f"{uid:s>64}", metadata=metadata, state=pb.SANDBOX_NOTREADY, labels=labels)
        self.sandboxes[sandbox.id] = sandbox
        for attempt in range(containers):
            container = pb.Container(
                id=f"{uid}-{attempt:c>27}",
                pod_sandbox_id=sandbox.id,
                metadata=pb.ContainerMetadata(name="main", attempt=attempt),
                state=pb.CONTAINER_EXITED,
                created_at=1_780_000_000 * 10**9 + attempt,
                labels={**labels, CONTAINER_NAME: "main"},
            )
            container.annotations["padding"] = "x" * (CONTAINER_BYTES - container.ByteSize())
            self.containers[container.id] = container
            item = pb.ListContainersResponse(containers=[container]).SerializeToString()
            for key in _keys(container):
                self.by_labels.setdefault(key, {})[container.id] = item

    def __mapping__(self) -> dict[str, Handler]:
        """Every method this class has, by its gRPC path."""
        found = {}
        for service in pb.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                if (answer := getattr(self, method.name, None)) is not None:
                    types = [getattr(pb, kind.name) for kind in (method.input_type, method.output_type)]
                    path = f"/{service.full_name}/{method.name}"
                    found[path] = Handler(_handled(answer), Cardinality.UNARY_UNARY, *types)
        return found

    def Version(self, _: pb.VersionRequest) -> pb.VersionResponse:
        counted = f"{self.asked} {self.refused}"
        return pb.VersionResponse(version="0.1.0", runtime_name="crowded", runtime_version=counted)

    def Status(self, _: pb.StatusRequest) -> pb.StatusResponse:
        ready = [pb.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
        return pb.StatusResponse(status=pb.RuntimeStatus(conditions=ready))

    def ListPodSandbox(self, request: pb.ListPodSandboxRequest) -> bytes:
        only = request.filter
        uid = only.label_selector.get(POD_UID, "")
        found: Iterable[pb.PodSandbox] = self.sandboxes.values()
        if uid:
            found = filter(None, [self.sandboxes.get(f"{uid:s>64}")])
        if only.HasField("state"):
            found = [one for one in found if one.state == only.state.state]
        return self._limited(pb.ListPodSandboxResponse(items=found).SerializeToString())

    def ListContainers(self, request: pb.ListContainersRequest) -> bytes:
        only = request.filter
        if only.HasField("state") and only.state.state != pb.CONTAINER_EXITED:
            return self._limited(b"")
        labels = only.label_selector
        uid = labels.get(POD_UID, "")
        key = (uid, "") if uid else ("", labels.get(POD_NAMESPACE, ""))
        return self._limited(b"".join(self.by_labels.get(key, {}).values()))

    def _limited(self, reply: bytes) -> bytes:
        self.asked += 1
        if len(reply) > MESSAGE_BYTES_MAX:
            self.refused += 1
            text = f"grpc: trying to send message larger than max ({len(reply)} vs. {MESSAGE_BYTES_MAX})"
            raise GRPCError(Status.RESOURCE_EXHAUSTED, text)
        return reply

    def PodSandboxStatus(self, request: pb.PodSandboxStatusRequest) -> pb.PodSandboxStatusResponse:
        if (one := self.sandboxes.get(request.pod_sandbox_id)) is None:
            raise GRPCError(Status.NOT_FOUND, "no such sandbox")
        status = pb.PodSandboxStatus(id=one.id, metadata=one.metadata, state=one.state, labels=one.labels, created_at=1)
        return pb.PodSandboxStatusResponse(status=status)

    def ContainerStatus(self, request: pb.ContainerStatusRequest) -> pb.ContainerStatusResponse:
        if (one := self.containers.get(request.container_id)) is None:
            raise GRPCError(Status.NOT_FOUND, "no such container")
        status = pb.ContainerStatus(id=one.id, metadata=one.metadata, state=one.state, labels=one.labels, created_at=1)
        return pb.ContainerStatusResponse(status=status)

    def RemoveContainer(self, request: pb.RemoveContainerRequest) -> pb.RemoveContainerResponse:
        if (one := self.containers.pop(request.container_id, None)) is not None:
            for key in _keys(one):
                del self.by_labels[key][one.id]
        return pb.RemoveContainerResponse()

    def StopPodSandbox(self, _: pb.StopPodSandboxRequest) -> pb.StopPodSandboxResponse:
        return pb.StopPodSandboxResponse()

    def RemovePodSandbox(self, request: pb.RemovePodSandboxRequest) -> pb.RemovePodSandboxResponse:
        self.sandboxes.pop(request.pod_sandbox_id, None)
        return pb.RemovePodSandboxResponse()


def _keys(container: pb.Container) -> list[tuple[str, str]]:
    return [("", ""), ("", container.labels[POD_NAMESPACE]), (container.labels[POD_UID], "")]


def _handled(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def handle(stream: Any) -> None:
        reply = answer(await stream.recv_message())
        await (stream.send_raw(reply) if isinstance(reply, bytes) else stream.send_message(reply))

    return handle


async def _serve(socket: str, shape: list[int]) -> None:
    crowded = Crowded(*shape)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [crowded], socket)
        print("ready", flush=True)


async def _counts(runtime: CriRuntime) -> tuple[int, int]:
    asked, refused = (await runtime.info()).version.split()
    return int(asked), int(refused)


async def _measure(socket: str, *, recover: bool) -> None:
    async with open_channel(f"unix://{socket}") as channel:
        runtime = CriRuntime(channel)
        relist = Relist()
        for round_ in range(3):
            before = await _counts(runtime)
            wall, cpu = time.perf_counter(), time.process_time()
            sandboxes = await runtime.list_sandboxes()
            containers = await runtime.list_containers()
            changes = relist.observe(sandboxes, containers)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            asked, refused = (now - then for now, then in zip(await _counts(runtime), before, strict=True))
            print(
                f"list {round_ + 1}: {wall:.2f} s wall, {cpu:.2f} s of our CPU, {asked} calls, {refused} refused, "
                f"{sum(map(len, containers)) / 1e6:.1f} MB, {len(changes)} pods, {relist.counts().exited} dead"
            )
        print((await runtime.info()).list_warning)
        if recover:
            await _recover(runtime, CriImages(channel))


async def _recover(runtime: CriRuntime, images: CriImages) -> None:
    files, volumes = MemoryPodFiles(), MemoryVolumes()
    ports = Ports(
        runtime,
        images,
        files,
        MemoryContainerLogs(files),
        volumes,
        MemoryPodCgroups(),
        NetworkHandlers(),
        MemoryPullRecords(),
        MemoryLogins(),
        SystemClock(),
    )
    facts = NodeFacts(node_name="n", host_ips=("192.0.2.1",), memory_bytes=1 << 33)
    bounds = Bounds(garbage_period_seconds=5)
    node = build_node(ports, facts, Rules(bounds, BackoffLimits()), ["file"], random.Random(1))
    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        node.slots["file"].put(Snapshot())
        await nursery.start(run_node, node)
        warned = True
        while node.pleg.uids():
            await trio.sleep(2)
            warned = _tell(node, time.perf_counter() - began, warned=warned)
        nursery.cancel_scope.cancel()
    print(f"everything gone after {time.perf_counter() - began:.0f} s")
    for event in node.events.all():
        print(f"event, {event.count} times: {event.reason}: {event.message}")


def _tell(node: Node, seconds: float, *, warned: bool) -> bool:
    warns = node.runtime_state.info is not None and bool(node.runtime_state.info.list_warning)
    health = node.pleg.unhealthy() or "healthy"
    print(f"after {seconds:.0f} s: {node.pleg.counts().exited} dead containers, PLEG {health}")
    if warned and not warns:
        print(f"after {seconds:.0f} s: one message does again")
    return warns


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--containers", type=int, default=4)
    parser.add_argument("--namespaces", type=int, default=1)
    parser.add_argument("--recover", action="store_true")
    parser.add_argument("--serve", metavar="SOCKET", help=argparse.SUPPRESS)
    options = parser.parse_args()
    shape = [options.pods, options.containers, options.namespaces]
    if options.serve:
        trio.run(_serve, options.serve, shape)
        return
    with tempfile.TemporaryDirectory() as directory:
        socket = str(Path(directory) / "cri.sock")
        numbers = [f"--{name}={value}" for name, value in zip(("pods", "containers", "namespaces"), shape, strict=True)]
        command = [sys.executable, __file__, "--serve", socket, *numbers]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                assert server.stdout.readline() == "ready\n"
                trio.run(lambda: _measure(socket, recover=options.recover))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
