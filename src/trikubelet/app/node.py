"""A node's parts, joined: the composition root for everything that runs pods.

One readable function says who knows whom. It is given ports and facts, and neither asks nor cares whether they are
real: the agent gives it a container runtime and a disk, the simulation a world in memory. ``run_node`` is the work
nursery of the picture in ``docs/architecture.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from trikubelet.core.merge import PodChange
from trikubelet.images.puller import Puller
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.gather import Gather
from trikubelet.kit.slot import Slot
from trikubelet.model.objects import ObjectRef
from trikubelet.node.runtime_state import RuntimeState
from trikubelet.pleg.cache import PodCache
from trikubelet.pleg.pleg import Pleg
from trikubelet.pods.attempts import PodAttempts
from trikubelet.pods.carry_out import CarryOut
from trikubelet.pods.configs import Configs
from trikubelet.pods.desired import DesiredPods
from trikubelet.pods.facts import FactFinder
from trikubelet.pods.garbage import GarbageCollection
from trikubelet.pods.housekeeping import Housekeeping
from trikubelet.pods.mux import Mux
from trikubelet.pods.start import ContainerStarter
from trikubelet.pods.stop import Stopper
from trikubelet.pods.sync_loop import SyncLoop
from trikubelet.pods.workers import PodWorkers
from trikubelet.status.memory import PodStatuses
from trikubelet.status.recorder import EventRecorder

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.restarts import BackoffLimits
    from trikubelet.model.bounds import Bounds
    from trikubelet.pods.snapshot import Snapshot
    from trikubelet.ports import Clock, Images, PodCgroups, PodFiles, Runtime, Volumes


@dataclass(frozen=True, slots=True)
class Outside:
    """The world as a node sees it."""

    runtime: Runtime
    images: Images
    files: PodFiles
    volumes: Volumes
    cgroups: PodCgroups
    clock: Clock


@dataclass(frozen=True, slots=True)
class Rules:
    """What the configuration says about pods. ``pulls_max``: images pulled at the same time; ``node_hosts``: the node's
    own hosts file, for host-network pods."""

    bounds: Bounds
    backoff: BackoffLimits
    pulls_max: int = 1
    node_hosts: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """The joined parts. ``slots`` is where each source puts its snapshots; the rest is for those who only look."""

    slots: dict[str, Slot[Snapshot]]
    desired: DesiredPods
    workers: PodWorkers
    pleg: Pleg
    cache: PodCache
    statuses: PodStatuses
    events: EventRecorder
    runtime_state: RuntimeState
    sync_loop: SyncLoop
    mux: Mux
    housekeeping: Housekeeping
    garbage: GarbageCollection
    bounds: Bounds
    chance: random.Random


def join(
    outside: Outside,
    facts: NodeFacts,
    rules: Rules,
    sources: Sequence[str],
    chance: random.Random,
) -> Node:
    """Join the parts of a node. Nothing runs yet."""
    bounds = rules.bounds
    wakes: Gather[str] = Gather()
    leftovers: Gather[str] = Gather()
    events = EventRecorder(outside.clock, bounds.events_kept_max)
    statuses = PodStatuses()
    cache = PodCache()
    pleg = Pleg(outside.runtime, cache, wakes, leftovers, bounds)
    runtime_state = RuntimeState(outside.runtime, bounds)
    notes = FactFinder(outside.clock, outside.files, facts.host_ips, lambda: runtime_state.name)
    configs = Configs(outside.files, facts, rules.node_hosts, events)
    stopper = Stopper(outside.runtime, events, bounds)
    starter = ContainerStarter(
        runtime=outside.runtime,
        images=Puller(outside.images, events, bounds, pulls_max=rules.pulls_max),
        configs=configs,
        files=outside.files,
        facts=notes,
        events=events,
        clock=outside.clock,
        bounds=bounds,
        limits=rules.backoff,
    )
    carry_out = CarryOut(
        runtime=outside.runtime, configs=configs, starter=starter, stopper=stopper, events=events, bounds=bounds
    )
    attempts = PodAttempts(
        cache=cache,
        relister=pleg,
        statuses=statuses,
        events=events,
        files=outside.files,
        volumes=outside.volumes,
        cgroups=outside.cgroups,
        facts=notes,
        carry_out=carry_out,
        stopper=stopper,
        network_trouble=runtime_state.network_trouble,
        bounds=bounds,
    )
    this_node = ObjectRef("Node", facts.node_name, uid=facts.node_name)
    workers = PodWorkers(attempts, pleg, leftovers, bounds, chance)
    desired = DesiredPods(sources)
    slots: dict[str, Slot[Snapshot]] = {source: Slot() for source in sources}
    changes_in, changes_out = trio.open_memory_channel[PodChange](bounds.changes_waiting_max)
    return Node(
        slots=slots,
        desired=desired,
        workers=workers,
        pleg=pleg,
        cache=cache,
        statuses=statuses,
        events=events,
        runtime_state=runtime_state,
        sync_loop=SyncLoop(changes_out, wakes, workers, events, bounds),
        mux=Mux(slots, desired, changes_in, events),
        housekeeping=Housekeeping(desired, workers, pleg, outside.files, outside.volumes, outside.cgroups, bounds),
        garbage=GarbageCollection(
            outside.runtime, pleg, desired, workers, outside.files, leftovers, events, this_node, bounds
        ),
        bounds=bounds,
        chance=chance,
    )


async def run_node(node: Node, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """The work nursery: everything that runs pods, until cancelled. Cancelling it stops no container.

    Started: the runtime was asked and listed once, and pods are taken.
    """
    async with trio.open_nursery() as nursery:
        await nursery.start(node.runtime_state.run)
        await nursery.start(node.workers.run)
        await nursery.start(node.pleg.run)
        nursery.start_soon(node.pleg.follow_events, Backoff(0.1, 30.0, jitter=0.5, chance=node.chance))
        await nursery.start(node.sync_loop.run)
        await nursery.start(node.mux.run)
        await nursery.start(node.housekeeping.run)
        await nursery.start(node.garbage.run)
        task_status.started()
