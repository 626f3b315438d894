"""A node's parts: the composition root for everything that runs pods.

One readable function wires the parts: the shared ones (``shared_parts.py``), and on them the pods' syncs, the upkeep
and the intake (``build_….py``). It receives ports and facts, real or not: the agent gives it a container runtime and a
disk, the simulation a world in memory. ``run_node`` is the work nursery of the picture in ``docs/architecture.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from msgspec import field

from trikubelet.app.build_intake import build_intake
from trikubelet.app.build_pod_syncer import build_pod_syncer
from trikubelet.app.build_upkeep import build_upkeep
from trikubelet.app.shared_parts import share_parts
from trikubelet.core.eviction import EvictionRules
from trikubelet.core.image_garbage import ImageRules
from trikubelet.core.log_rotation import RotationRules
from trikubelet.core.merge import PodUpdate
from trikubelet.core.unknown_pods import MEANS
from trikubelet.devices.none import NoDevices
from trikubelet.images.puller import Puller, PullRules
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.slot import Slot
from trikubelet.model.frozen import Frozen
from trikubelet.node.eviction import Eviction
from trikubelet.node.garbage import GarbageCollection
from trikubelet.node.housekeeping import Housekeeping
from trikubelet.node.image_garbage import ImageGarbage
from trikubelet.node.log_rotation import LogRotation
from trikubelet.node.orphaned_pods import OrphanedPodCleanup
from trikubelet.node.runtime_state import RuntimeState
from trikubelet.node.shared_cgroup import SharedCgroup
from trikubelet.node.shutdown import NodeShutdown
from trikubelet.pleg.cache import PodCache
from trikubelet.pleg.pleg import Pleg
from trikubelet.pods.admission import Admission
from trikubelet.pods.allocation_checkpoints import AllocationCheckpoints
from trikubelet.pods.disruptions import Disruptions
from trikubelet.pods.evaluation import Evaluation
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.known_uids import KnownUids
from trikubelet.pods.node_object import NodeObject
from trikubelet.pods.resize_notes import ResizeNotes
from trikubelet.pods.resizes import Resizes
from trikubelet.pods.restart_requests import RestartRequests
from trikubelet.pods.startups import Startups
from trikubelet.pods.sync_loop import SyncLoop
from trikubelet.pods.user_ids import UserIds
from trikubelet.pods.workers import PodWorkers
from trikubelet.probes.node import NodeProbes
from trikubelet.sources.adoption import Adoption
from trikubelet.sources.desired import DesiredPods
from trikubelet.sources.mux import Mux
from trikubelet.sources.objects import NodeObjects
from trikubelet.status.memory import PodStatuses
from trikubelet.status.recorder import EventRecorder

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.node_shutdown import ShutdownGroup
    from trikubelet.core.restarts import BackoffLimits
    from trikubelet.kit.spans import Spans
    from trikubelet.model import k8s
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.runtime_config import IdRange
    from trikubelet.plugins.watcher import PluginWatcher
    from trikubelet.ports import (
        Clock,
        ContainerLogs,
        Handlers,
        HostIps,
        ImageImports,
        Images,
        NodeLogins,
        NodeUsage,
        PodCgroups,
        PodDevices,
        PodFiles,
        PullRecords,
        Runtime,
        Volumes,
    )
    from trikubelet.sources.snapshot import Snapshot


class Ports(Frozen):
    """The world outside of a node. ``ids_of_users``: returns the ids that users of the node may use for their own
    containers (``host.subordinate_ids``). ``imports``: None without an image directory. ``plugins``: None on a node
    that uses none."""

    runtime: Runtime
    images: Images
    files: PodFiles
    logs: ContainerLogs
    volumes: Volumes
    cgroups: PodCgroups
    handlers: Handlers
    records: PullRecords
    logins: NodeLogins
    clock: Clock
    ids_of_users: Callable[[], Iterable[IdRange]] = tuple
    imports: ImageImports | None = None
    plugins: PluginWatcher | None = None
    devices: PodDevices = field(default_factory=NoDevices)


class Rules(Frozen):
    """The configuration about pods. ``node_hosts``: the node's own hosts file, for host-network pods; ``logs``: when
    their logs are rotated, None for never; ``shutdown``: the order in which pods end before the machine does;
    ``ends_unknown_pods``: end orphans that the root directory does not know, too; ``unknown_pods_means``: how an
    operator has them ended."""

    bounds: Bounds
    backoff: BackoffLimits
    pulls: PullRules = field(default_factory=PullRules)
    logs: RotationRules | None = field(default_factory=RotationRules)
    eviction: EvictionRules = field(default_factory=EvictionRules)
    images: ImageRules = field(default_factory=ImageRules)
    shutdown: Sequence[ShutdownGroup] = ()
    node_hosts: str = ""
    ends_unknown_pods: bool = False
    unknown_pods_means: str = MEANS


class Node(Frozen):
    """The parts of a node. ``slots``: receives the snapshots of each source; ``up``: the runtime was queried and listed
    once; the rest is for readers only."""

    slots: dict[str, Slot[Snapshot]]
    files: PodFiles
    volumes: Volumes
    plugins: PluginWatcher | None
    devices: PodDevices
    objects: NodeObjects
    desired: DesiredPods
    adoption: Adoption
    checkpoints: AllocationCheckpoints
    node_object: NodeObject
    evaluation: Evaluation
    admission: Admission
    workers: PodWorkers
    probes: NodeProbes
    restart_requests: RestartRequests
    user_ids: UserIds
    resize_notes: ResizeNotes
    puller: Puller
    pleg: Pleg
    cache: PodCache
    statuses: PodStatuses
    events: EventRecorder
    runtime_state: RuntimeState
    sync_loop: SyncLoop
    resizes: Resizes
    mux: Mux
    orphan_cleanup: OrphanedPodCleanup
    housekeeping: Housekeeping
    garbage: GarbageCollection
    image_garbage: ImageGarbage
    eviction: Eviction
    shutdown: NodeShutdown
    shared_cgroup: SharedCgroup
    log_rotation: LogRotation | None
    figures: PodFigures
    startups: Startups
    bounds: Bounds
    chance: random.Random
    up: trio.Event


def build_node(
    ports: Ports,
    facts: NodeFacts,
    rules: Rules,
    sources: Sequence[str],
    chance: random.Random,
    spans: Spans | None = None,
    described: k8s.Node | None = None,
    host_ips: HostIps | None = None,
) -> Node:
    """Build the parts of a node. Nothing runs yet. ``spans``: receives traces, or None; ``described``: the node's
    object while no cluster has one; ``host_ips``: None if the node's addresses are always those of the facts."""
    bounds = rules.bounds
    parts = share_parts(ports, facts, rules, sources, chance, spans, described, host_ips)
    known = KnownUids(all_known=rules.ends_unknown_pods)
    workers = PodWorkers(build_pod_syncer(parts), parts.pleg, parts.leftovers, bounds, chance, parts.figures, known)
    startups = Startups(ports.clock)
    parts.objects.manifests.changed.add(workers.wake)
    workers.began.add(startups.begun)
    workers.finished.add(startups.finished)
    parts.puller.pulled.add(startups.pulled)
    parts.statuses.changed.add(startups.status_changed)
    parts.probes.concluded.add(workers.probe_result_changed)
    ports.devices.changed.add(workers.wake)
    desired = DesiredPods(sources)
    disruptions = Disruptions(workers=workers, statuses=parts.statuses, events=parts.events, clock=ports.clock)
    upkeep = build_upkeep(parts, workers, desired, disruptions)
    intake = build_intake(parts, upkeep, workers, desired, disruptions)
    workers.finished.add(intake.resizes.ended)
    adoption = Adoption(ports.files, parts.cache)
    slots: dict[str, Slot[Snapshot]] = {source: Slot() for source in sources}
    changes_in, changes_out = trio.open_memory_channel[PodUpdate](bounds.changes_waiting_max)
    return Node(
        slots=slots,
        files=ports.files,
        volumes=ports.volumes,
        plugins=ports.plugins,
        devices=ports.devices,
        objects=parts.objects,
        desired=desired,
        adoption=adoption,
        checkpoints=AllocationCheckpoints(ports.files, parts.allocations),
        node_object=parts.node_object,
        evaluation=intake.evaluation,
        admission=intake.admission,
        workers=workers,
        probes=parts.probes,
        restart_requests=parts.restart_requests,
        user_ids=parts.user_ids,
        resize_notes=parts.resize_notes,
        puller=parts.puller,
        pleg=parts.pleg,
        cache=parts.cache,
        statuses=parts.statuses,
        events=parts.events,
        runtime_state=parts.runtime_state,
        sync_loop=SyncLoop(changes_out, parts.wakes, intake.admission, workers, parts.events, bounds, intake.resizes),
        resizes=intake.resizes,
        mux=Mux(slots, desired, parts.objects.manifests, changes_in, parts.events, adoption),
        orphan_cleanup=upkeep.orphan_cleanup,
        housekeeping=Housekeeping(
            desired, intake.admission, workers, parts.pleg, upkeep.orphan_cleanup, upkeep.unknown_pods, bounds
        ),
        garbage=upkeep.garbage,
        image_garbage=upkeep.image_garbage,
        eviction=upkeep.eviction,
        shutdown=upkeep.shutdown,
        shared_cgroup=SharedCgroup(
            ports.cgroups, facts.cgroup_version, parts.events, parts.this_node, facts.reserved_cgroups
        ),
        log_rotation=upkeep.log_rotation,
        figures=parts.figures,
        startups=startups,
        bounds=bounds,
        chance=chance,
        up=trio.Event(),
    )


async def run_pressure(node: Node, usage: NodeUsage) -> None:
    """Run eviction and the collection of unused images until cancelled: they keep memory and disk from running out.
    Separate from ``run_node``, because simulated containers use nothing."""
    async with trio.open_nursery() as nursery:
        await nursery.start(node.image_garbage.run, usage)
        await nursery.start(node.eviction.run, usage)


async def run_node(node: Node, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run everything that runs pods, until cancelled: the work nursery. Cancelling it stops no container.

    Started: pods are accepted, and the runtime was queried and listed once, if it answers soon.
    """
    node.user_ids.log_problems()
    async with trio.open_nursery() as nursery:
        await nursery.start(node.checkpoints.run)
        await nursery.start(node.devices.run)
        await nursery.start(node.runtime_state.run)
        if node.plugins is not None:
            await nursery.start(node.plugins.run)
        await nursery.start(node.volumes.run)
        await nursery.start(node.probes.run)
        await nursery.start(node.workers.run)
        await nursery.start(node.pleg.run)
        nursery.start_soon(node.pleg.follow_events, Backoff(0.1, 30.0, jitter=0.5, chance=node.chance))
        await nursery.start(node.resizes.run)
        await nursery.start(node.sync_loop.run)
        await nursery.start(node.mux.run)
        await nursery.start(node.orphan_cleanup.run)
        await nursery.start(node.housekeeping.run)
        await nursery.start(node.garbage.run)
        if node.log_rotation is not None:
            await nursery.start(node.log_rotation.run)
        await nursery.start(node.puller.run)
        node.up.set()
        task_status.started()
