"""A node that is a member of a cluster in memory: a bench on which agents come and go."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from trikubelet.app.cluster import ApiClients, Member, Membership, join_cluster, run_member
from trikubelet.app.node import Node, Ports, Rules, build_node, run_node
from trikubelet.app.report import Reporter
from trikubelet.core.containers import NodeFacts
from trikubelet.core.node_addresses import AddressRules
from trikubelet.core.node_status import Identity, self_described
from trikubelet.core.restarts import BackoffLimits
from trikubelet.images.puller import PullRules
from trikubelet.model import k8s
from trikubelet.model.api import NODES, PODS, PatchKind
from trikubelet.model.api_errors import ObjectMissing
from trikubelet.model.bounds import Bounds
from trikubelet.model.decoding import decode_object
from trikubelet.model.node_reading import NodeReading
from trikubelet.model.runtime import ContainerState
from trikubelet.node.addresses import NodeAddresses
from trikubelet.node.publisher import Pace
from trikubelet.sources.snapshot import Snapshot
from trikubelet.status.event_writer import EventRate
from trikubelet.testing.api_link import Link
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.chance import Odds, Problems
from trikubelet.testing.memory_api import MemoryApi
from trikubelet.testing.memory_handlers import MemoryHandlers
from trikubelet.testing.memory_host import (
    MemoryContainerLogs,
    MemoryHostNetwork,
    MemoryPodCgroups,
    MemoryPodFiles,
    MemoryVolumes,
    VirtualClock,
)
from trikubelet.testing.memory_images import MemoryImages
from trikubelet.testing.memory_pulls import MemoryLogins, MemoryPullRecords
from trikubelet.testing.memory_runtime import MemoryRuntime
from trikubelet.testing.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


READING = NodeReading("n", 1 << 33, 4, architecture="amd64")
IDENTITY = Identity("n", "n", "amd64")
AMOUNTS = {"cpu": 4000, "memory": 1 << 33, "pods": 110}


class Bench:
    """A world, its disk and its cluster; agents come and go."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.world = World()
        self.files = MemoryPodFiles()
        self.volumes = MemoryVolumes()
        self.cgroups = MemoryPodCgroups()
        self.images = MemoryImages(["app:1", "web:1"])
        self.server = ApiServer(self.clock.now_ns)
        self.link = Link()
        self.api = MemoryApi(self.server, self.link)
        self.clients = ApiClients(*[self.api] * 9, reset=lambda: None)
        self.amounts = AMOUNTS
        self.network = MemoryHostNetwork("192.0.2.1")

    @asynccontextmanager
    async def agent(self, *static: k8s.Pod) -> AsyncIterator[tuple[Node, Member]]:
        """A member for the length of the block; leaving the block kills it as SIGKILL would."""
        ports = Ports(
            MemoryRuntime(self.world, Problems(Odds(latency_seconds=0.002))),
            self.images,
            self.files,
            MemoryContainerLogs(self.files),
            self.volumes,
            self.cgroups,
            MemoryHandlers(self.world),
            MemoryPullRecords(),
            MemoryLogins(),
            self.clock,
        )
        facts = NodeFacts("n", ("192.0.2.1",), 1 << 33, capacity=self.amounts, allocatable=self.amounts)
        rules, here = Rules(Bounds(), BackoffLimits(), PullRules(5)), self_described(IDENTITY)
        addresses = NodeAddresses(self.network, AddressRules("n"))
        chance, sources = random.Random(1), ["file", "api"]
        node = build_node(ports, facts, rules, sources, chance, described=here, host_ips=addresses.get)
        reporter = Reporter(node, facts, READING, self.images, 50, addresses)
        membership = Membership(IDENTITY, reporter.report, Pace(), lease_seconds=40, event_rate=EventRate(100, 50))
        member = join_cluster(node, self.clients, membership, self.clock)
        addresses.changed.add(lambda _: member.publisher.wake())
        async with trio.open_nursery() as nursery:
            await nursery.start(addresses.run)
            await nursery.start(run_member, member)
            await nursery.start(run_node, node)
            node.slots["file"].put(Snapshot(static))
            yield node, member
            nursery.cancel_scope.cancel()

    def schedule(self, name: str, *containers: k8s.Container, **spec: Any) -> k8s.Pod:
        """Create a pod that the scheduler has bound to this node."""
        containers = containers or (k8s.Container(name="main", image="web:1"),)
        body = k8s.Pod(
            api_version="v1",
            kind="Pod",
            metadata=k8s.ObjectMeta(name=name, namespace="default"),
            spec=k8s.PodSpec(node_name="n", containers=containers, **spec),
        )
        return decode_object(self.server.create(PODS, body, "default").raw, k8s.Pod)

    def write_condition(self, name: str, type_: str, status: str = "True") -> None:
        """Somebody else says something of a pod."""
        body = {"status": {"conditions": [{"type": type_, "status": status}]}}
        self.server.patch(PODS, name, body, "default", kind=PatchKind.STRATEGIC, subresource="status")

    def pod(self, name: str) -> k8s.Pod | None:
        try:
            return decode_object(self.server.get(PODS, name, "default").raw, k8s.Pod)
        except ObjectMissing:
            return None

    def uid(self, name: str) -> str:
        found = self.pod(name)
        return found.metadata.uid if found is not None else ""

    def phase(self, name: str) -> str:
        found = self.pod(name)
        return found.status.phase if found is not None and found.status is not None else ""

    def is_ready(self, name: str) -> bool:
        found = self.pod(name)
        status = (found and found.status) or k8s.PodStatus()
        return any(one.type == "Ready" and one.status == "True" for one in status.conditions)

    def node_ready(self) -> k8s.NodeCondition:
        status = decode_object(self.server.get(NODES, "n").raw, k8s.Node).status
        assert status is not None
        return next(one for one in status.conditions if one.type == "Ready")

    def running(self) -> list[str]:
        return sorted(c.name for c in self.world.all_containers() if c.state is ContainerState.RUNNING)


async def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait, on virtual time, for something to become true."""
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - the world has no events to wait on
            await trio.sleep(0.05)
