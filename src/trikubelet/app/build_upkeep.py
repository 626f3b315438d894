"""The node's upkeep, joined: garbage collection, eviction, orphaned pods and the machine's shutdown, which take away
what pods leave and end the pods that a node cannot keep. A part of ``app/node.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.node.container_remover import ContainerRemover
from trikubelet.node.eviction import Eviction
from trikubelet.node.garbage import GarbageCollection
from trikubelet.node.image_garbage import ImageGarbage
from trikubelet.node.orphaned_pods import OrphanedPodCleanup
from trikubelet.node.shutdown import NodeShutdown

if TYPE_CHECKING:
    import random

    from trikubelet.app.node import Ports, Rules
    from trikubelet.kit.gather import Gather
    from trikubelet.model.objects import ObjectRef
    from trikubelet.pleg.cache import PodCache
    from trikubelet.pleg.pleg import Pleg
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.disruptions import Disruptions
    from trikubelet.pods.tear_down import TearDown
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Events
    from trikubelet.sources.desired import DesiredPods


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The parts that others need."""

    orphan_cleanup: OrphanedPodCleanup
    garbage: GarbageCollection
    image_garbage: ImageGarbage
    eviction: Eviction
    shutdown: NodeShutdown


def build_upkeep(
    ports: Ports,
    rules: Rules,
    this_node: ObjectRef,
    chance: random.Random,
    *,
    workers: PodWorkers,
    pleg: Pleg,
    cache: PodCache,
    desired: DesiredPods,
    allocations: Allocations,
    disruptions: Disruptions,
    leftovers: Gather[str],
    tear_down: TearDown,
    events: Events,
) -> Upkeep:
    """Join what the upkeep consists of. Nothing runs yet."""
    bounds = rules.bounds
    orphan_cleanup = OrphanedPodCleanup(workers, pleg, ports.files, ports.cgroups, tear_down, bounds)
    container_remover = ContainerRemover(
        runtime=ports.runtime,
        relister=pleg,
        cache=cache,
        files=ports.files,
        events=events,
        node=this_node,
        bounds=bounds,
    )
    garbage = GarbageCollection(
        runtime=ports.runtime,
        runtime_pods=pleg,
        workers=workers,
        files=ports.files,
        leftovers=leftovers,
        container_remover=container_remover,
        bounds=bounds,
    )
    image_garbage = ImageGarbage(
        images=ports.images,
        runtime_pods=pleg,
        cache=cache,
        desired=desired,
        events=events,
        node=this_node,
        rules=rules.images,
        bounds=bounds,
    )
    eviction = Eviction(
        workers=workers,
        allocations=allocations,
        desired=desired,
        runtime_pods=pleg,
        garbage=garbage,
        images=image_garbage,
        disruptions=disruptions,
        events=events,
        node=this_node,
        clock=ports.clock,
        rules=rules.eviction,
        bounds=bounds,
    )
    shutdown = NodeShutdown(
        workers=workers,
        disruptions=disruptions,
        events=events,
        node=this_node,
        clock=ports.clock,
        groups=rules.shutdown,
        chance=chance,
    )
    return Upkeep(orphan_cleanup, garbage, image_garbage, eviction, shutdown)
