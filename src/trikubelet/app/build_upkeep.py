"""Builds the node's upkeep: garbage collection, log rotation, eviction, orphaned pods and the machine's shutdown. They
remove leftovers of pods and end pods that a node cannot keep. A part of ``app/node.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.frozen import Frozen
from trikubelet.node.container_remover import ContainerRemover
from trikubelet.node.eviction import Eviction
from trikubelet.node.garbage import GarbageCollection
from trikubelet.node.image_garbage import ImageGarbage
from trikubelet.node.log_rotation import LogRotation
from trikubelet.node.orphaned_pods import OrphanedPodCleanup
from trikubelet.node.shutdown import NodeShutdown
from trikubelet.node.unknown_pods import UnknownPods

if TYPE_CHECKING:
    from trikubelet.app.shared_parts import SharedParts
    from trikubelet.pods.disruptions import Disruptions
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.sources.desired import DesiredPods


class Upkeep(Frozen):
    """The parts that others need. ``log_rotation``: None where the rules have none."""

    orphan_cleanup: OrphanedPodCleanup
    garbage: GarbageCollection
    image_garbage: ImageGarbage
    log_rotation: LogRotation | None
    eviction: Eviction
    shutdown: NodeShutdown
    unknown_pods: UnknownPods


def build_upkeep(parts: SharedParts, workers: PodWorkers, desired: DesiredPods, disruptions: Disruptions) -> Upkeep:
    """Build the parts of the upkeep. Nothing runs yet."""
    ports, rules, bounds = parts.ports, parts.rules, parts.bounds
    events, this_node = parts.events, parts.this_node
    garbage = GarbageCollection(
        runtime=ports.runtime,
        runtime_pods=parts.pleg,
        workers=workers,
        leftovers=parts.leftovers,
        container_remover=ContainerRemover(
            runtime=ports.runtime,
            relister=parts.pleg,
            cache=parts.cache,
            files=ports.files,
            events=events,
            node=this_node,
            bounds=bounds,
        ),
        bounds=bounds,
    )
    image_garbage = ImageGarbage(
        images=ports.images,
        runtime_pods=parts.pleg,
        cache=parts.cache,
        desired=desired,
        events=events,
        node=this_node,
        rules=rules.images,
        bounds=bounds,
    )
    unknown_pods = UnknownPods(
        workers=workers,
        runtime_pods=parts.pleg,
        files=ports.files,
        events=events,
        node=this_node,
        bounds=bounds,
        means=rules.unknown_pods_means,
    )
    return Upkeep(
        orphan_cleanup=OrphanedPodCleanup(
            workers, parts.pleg, ports.files, ports.devices, ports.cgroups, parts.tear_down, unknown_pods, bounds
        ),
        garbage=garbage,
        image_garbage=image_garbage,
        log_rotation=None
        if rules.logs is None
        else LogRotation(ports.runtime, parts.cache, ports.logs, ports.clock, rules.logs, bounds),
        eviction=Eviction(
            workers=workers,
            allocations=parts.allocations,
            desired=desired,
            runtime_pods=parts.pleg,
            garbage=garbage,
            images=image_garbage,
            disruptions=disruptions,
            events=events,
            node=this_node,
            clock=ports.clock,
            rules=rules.eviction,
            bounds=bounds,
        ),
        shutdown=NodeShutdown(
            workers=workers,
            disruptions=disruptions,
            events=events,
            node=this_node,
            clock=ports.clock,
            groups=rules.shutdown,
            chance=parts.chance,
        ),
        unknown_pods=unknown_pods,
    )
