"""A whole member of a cluster from a seed: a simulation like ``testing/simulation.py``, with an API server.

The agent is joined to a cluster in memory (``app/cluster.py``) over connections that fail in every way. Pods of two
sources are static and get mirror pods; the source "api" is the server, whose pods are its desired ones. The cluster's
own events are drawn between the node's; the final check is of both sides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from trikubelet.app.cluster import ApiClients, Membership, join_cluster, run_member
from trikubelet.app.node import run_node as run_agent
from trikubelet.app.report import Reporter
from trikubelet.core.names import API_SOURCE
from trikubelet.core.node_status import Identity, self_described
from trikubelet.model import k8s
from trikubelet.model.api import LEASES
from trikubelet.model.api_errors import ObjectMissing
from trikubelet.model.decoding import decode_object
from trikubelet.model.node_reading import NodeReading
from trikubelet.node.lease import NAMESPACE
from trikubelet.node.publisher import Pace
from trikubelet.status.event_writer import EventRate
from trikubelet.testing import cluster_truth
from trikubelet.testing.cluster_scenario import NODE_NAME, ClusterScenario
from trikubelet.testing.cluster_witness import ClusterWitness
from trikubelet.testing.memory_api import MemoryApi
from trikubelet.testing.memory_host import VirtualClock
from trikubelet.testing.scenario import SOURCES
from trikubelet.testing.simulation import BOUNDS, FACTS, Life, Outcome, run_life

if TYPE_CHECKING:
    import random

    from trikubelet.app.cluster import Member
    from trikubelet.app.node import Node
    from trikubelet.testing.observer import Observer

READING = NodeReading(NODE_NAME, FACTS.memory_bytes, 4, architecture="amd64")
IDENTITY = Identity(NODE_NAME, NODE_NAME, "amd64")
MILD_LATENCY_SECONDS_MAX = 0.1
WELL_AFTER_SECONDS = 10.0
"""How long an unready node may be caused by a failed runtime, in seconds: a hung call, and the next check of it."""


def run_member_life(seed: int, *, trace: bool = False) -> Outcome:
    """Run the simulation of that seed as a member of a cluster. Otherwise like ``run_node``."""
    return run_life(MemberLife(seed, trace=trace))


class MemberLife(Life):
    """Owns one simulation of a member: in addition to the node's own, its cluster."""

    sources = tuple(source for source in SOURCES if source != API_SOURCE)
    converge_seconds_max = 240.0
    """Seconds as without a cluster, and before that two silent watches, which are trusted for 90 s each."""
    described = self_described(IDENTITY)
    notices_seconds_max = converge_seconds_max  # a watch may still be silent when the state converges by chance
    bounds = replace(
        BOUNDS,
        status_writes_max=2,
        mirror_writes_max=1,
        event_writes_max=1,
        events_waiting_max=5,
        api_call_seconds_max=6.0,
        api_retry_seconds_max=10.0,
    )

    def __init__(self, seed: int, *, trace: bool) -> None:
        super().__init__(seed, trace=trace)
        self.cluster = ClusterScenario(seed, self.chance, self.wanted, self.world, self.scenario)
        self.lent.append(self.cluster.settings)
        self.witness.published = self.cluster.pods
        self.cluster_witness = ClusterWitness(self.witness, self.world, self.cluster, self._runtime_is_well)
        self.problem_at = 0.0

    async def _run_agent(self, node: Node, observer: Observer) -> None:
        member = self._join(node)
        self.cluster_witness.follow(node, member)
        async with trio.open_nursery() as nursery:
            await nursery.start(run_member, member)
            await run_agent(node)

    def _join(self, node: Node) -> Member:
        cluster, clock = self.cluster, VirtualClock()

        def client() -> MemoryApi:
            return MemoryApi(cluster.server, cluster.link, cluster.problems, self.cluster_witness.on_request)

        clients = ApiClients(
            client(), client(), client(), client(), client(), client(), client(), client(), client(), reset=lambda: None
        )
        reporter = Reporter(node, FACTS, READING, self.images, images_max=5)
        membership = Membership(IDENTITY, reporter.report, Pace(), lease_seconds=40, event_rate=EventRate(10, 5))
        return join_cluster(node, clients, membership, clock)

    # ---- what happens ----

    def _happen(self) -> None:
        self.cluster_witness.check_bounds()
        draw = self.chance.random()
        if draw < 0.4:
            self.cluster.happen()
        elif draw < 0.5:
            self.cluster.new_weather()
        elif draw < 0.6:
            self.cluster.new_network()
        else:
            super()._happen()

    def _new_weather(self) -> None:
        self._note_weather()
        super()._new_weather()

    def _agent_goes(self, chance: random.Random) -> None:
        self.cluster_witness.end()
        super()._agent_goes(chance)

    def _let_deleted_go(self) -> None:
        """Do nothing: here the server does it, on the agent's request."""

    async def _calm(self) -> None:
        self._note_weather()
        await super()._calm()
        self.cluster.calm()

    # ---- the runtime's health ----

    def _note_weather(self) -> None:
        if not self._is_mild():
            self.problem_at = trio.current_time()

    def _is_mild(self) -> bool:
        odds = self.runtime_problems.odds
        return odds.only is None and odds.error == odds.hang == 0 and odds.latency_seconds <= MILD_LATENCY_SECONDS_MAX

    def _runtime_is_well(self) -> bool:
        return self._is_mild() and trio.current_time() > self.problem_at + WELL_AFTER_SECONDS

    # ---- the end ----

    def _wrong(self) -> str | None:
        return (
            super()._wrong()
            or cluster_truth.unpublished(self.world, self.wanted, self.cluster.pods())
            or cluster_truth.unfit(self.cluster.node(), self._lease())
        )

    def _lease(self) -> k8s.Lease | None:
        try:
            return decode_object(self.cluster.server.get(LEASES, NODE_NAME, NAMESPACE).raw, k8s.Lease)
        except ObjectMissing:
            return None
