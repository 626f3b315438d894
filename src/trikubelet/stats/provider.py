"""A snapshot of the resource usage of the node and its pods: cgroups and /proc in a thread, the runtime's statistics
for the rest.

    a request ─► a snapshot of that depth, younger than a second? ─► that one
                └ no ─► running pods ─► their cgroups (thread) ────┬─► rates, since the last one ─► StatsSnapshot
                        the runtime's stats, where needed ─────────┤
                        disks at most a minute old, for a summary ─┘

Containers whose cgroups are not known to the agent, as those of the runtimes inside the agent, have the runtime's
statistics. A runtime that does not answer, or reports nothing, costs its part of the snapshot and at most
``RUNTIME_SECONDS_MAX``. Concurrent requests share one snapshot, and no snapshot is taken twice within a second, which
bounds the cost of requests.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.core.containers.amounts import limited
from trikubelet.core.containers.cgroups import class_cgroup, pod_cgroup, spell
from trikubelet.core.eviction.observations import PODS
from trikubelet.core.qos import BEST_EFFORT, BURSTABLE, GUARANTEED
from trikubelet.core.stats.assembly import Found, PodFound, assembled
from trikubelet.kit.expiring_cache import ExpiringCache
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.names import uid_problem
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.model.stats_snapshot import NodeUsed, StatsSnapshot, Used
from trikubelet.model.usage import Depth, ImageStores, PodGauges, PodPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.stats.rates import Rate
    from trikubelet.model import k8s
    from trikubelet.model.runtime import PodObservation
    from trikubelet.model.stats_snapshot import VolumeUsed
    from trikubelet.model.usage import ContainerStats, MachineIds, NodeGauges, Usage
    from trikubelet.ports import Gauges, Images, PodCache, Runtime
    from trikubelet.stats.disks import Disks
    from trikubelet.stats.file_systems import FileSystems

log = logging.getLogger(__name__)

T = TypeVar("T")

SNAPSHOT_SECONDS: Final = 1.0
"""Seconds for which a snapshot is reused: no scraper comes more often."""
RUNTIME_SECONDS_MAX: Final = 5.0
THREADS_MAX: Final = 2
AGENT_PART: Final = "kubelet"
RUNTIME_PART: Final = "runtime"
MISC_PART: Final = "misc"
"""Upstream's name for the agent, the container runtime and the rest of the system among the node's parts."""


class StatsProvider:
    """Owns the last CPU counters of each cgroup and container, and the newest snapshots. Nothing is kept of removed
    pods."""

    def __init__(
        self,
        runtime: Runtime,
        images: Images,
        gauges: Gauges,
        disks: Disks,
        file_systems: FileSystems,
        cache: PodCache,
        pods: Callable[[], Sequence[k8s.Pod]],
        facts: NodeFacts,
        named_parts: Mapping[str, str],
        ids: MachineIds,
    ) -> None:
        """``pods``: those of the node, running or not. ``named_parts``: cgroups of the node's parts by their names, as
        configured."""
        self._ids = ids
        self._runtime = runtime
        self._images = images
        self._gauges = gauges
        self._disks = disks
        self._file_systems = file_systems
        self._cache = cache
        self._pods = pods
        self._facts = facts
        self._parts = {AGENT_PART: own} if (own := gauges.own_cgroup()) != "/" else {}
        self._parts.update(named_parts)
        if facts.cgroups_managed:
            self._parts[PODS] = spell(class_cgroup(GUARANTEED, facts.cgroup_root), facts.cgroup_driver)
        classes = (GUARANTEED, BURSTABLE, BEST_EFFORT) if facts.cgroups_managed else ()
        self._groups = [spell(class_cgroup(one, facts.cgroup_root), facts.cgroup_driver) for one in classes]
        self._threads = ThreadPool("stats", THREADS_MAX)
        self._rates: Mapping[str, Rate] = {}
        self._snapshots = ExpiringCache[StatsSnapshot](len(Depth), lambda _: SNAPSHOT_SECONDS)

    async def snapshot(self, depth: Depth) -> StatsSnapshot:
        """Return the current usage. Raises OSError if the machine cannot be read."""
        return await self._snapshots.get(depth, partial(self._take, depth))

    async def node(self) -> NodeUsed:
        """Return the usage of the machine alone, its disk and the runtime's image store. Raises OSError."""
        parts = {name: path for name, path in self._parts.items() if name == PODS}
        gauges, _, found = await self._threads.run(partial(_read, self._gauges, [], parts, Depth.LOAD))
        return NodeUsed(
            self._facts.node_name,
            gauges,
            disk=await self._file_systems.root(),
            images=await self._file_systems.store((await self._stores()).images),
            parts={name: Used(usage) for name, usage in found.items() if usage is not None},
        )

    async def shown(self, depth: Depth, spell: Callable[[StatsSnapshot], T]) -> T:
        """Return a snapshot, formatted in a thread. Raises OSError if the machine cannot be read."""
        return await self._threads.run(partial(spell, await self.snapshot(depth)))

    async def disks_measured(self) -> None:
        """Wait until the disk usage of each running pod is counted and recent enough."""
        try:
            await self._disks.counted([pod for pod, _ in self._running()])
        finally:
            self._snapshots.forget(Depth.SUMMARY)  # an earlier snapshot lacks them

    async def claimed(self) -> Sequence[tuple[str, VolumeUsed]]:
        """Return the known volumes behind claims, each with its claim's namespace."""
        await self._disks.measure([pod for pod, _ in self._running()])
        return list(self._disks.claimed())

    async def _take(self, depth: Depth) -> StatsSnapshot:
        found = await self._find(depth, list(self._running()))
        snapshot, self._rates = assembled(found, self._rates)
        return replace(snapshot, node=replace(snapshot.node, ids=self._ids))

    async def _find(self, depth: Depth, running: Sequence[tuple[k8s.Pod, PodObservation]]) -> Found:
        managed = self._facts.cgroups_managed
        places = [self._place(pod, seen) for pod, seen in running]
        groups = {path: path for path in self._groups} if depth is Depth.METRICS else {}
        node, gauges, parts = await self._threads.run(
            partial(_read, self._gauges, places if managed else [], {**self._parts, **groups}, depth)
        )
        group_usages = {path: usage for path in groups if (usage := parts.pop(path)) is not None}
        gauges = gauges if managed else [PodGauges(None, {})] * len(running)
        pods = [
            PodFound(pod, seen, "/" + "/".join(place.cgroup) if managed else "", gauge)
            for (pod, seen), place, gauge in zip(running, places, gauges, strict=True)
        ]
        is_whole = all(len(one.gauges.containers) == len(one.seen.running) for one in pods)
        if depth.is_load_alone and is_whole:
            return Found(self._facts.node_name, node, pods, parts, {})
        stores = ImageStores((), ())

        async def ask_for_stores() -> None:
            nonlocal stores
            stores = await self._stores()

        async with trio.open_nursery() as nursery:  # a runtime that hangs is waited for once
            if depth is Depth.SUMMARY:
                nursery.start_soon(ask_for_stores)
            reported, problem = await self._container_stats()
        found = Found(self._facts.node_name, node, pods, parts, reported, problem=problem, groups=group_usages)
        if depth is Depth.METRICS:
            return replace(found, disk=await self._file_systems.root(), device=await self._file_systems.device())
        return await self._with_disks(found, stores) if depth is Depth.SUMMARY else found

    async def _with_disks(self, found: Found, stores: ImageStores) -> Found:
        disks, file_systems = self._disks, self._file_systems
        await disks.measure([one.pod for one in found.pods])
        return replace(
            found,
            pods=[one._replace(disk=disks.of(one.pod.metadata.uid)) for one in found.pods],
            disk=await file_systems.root(),
            images=await file_systems.store(stores.images),
            layers=await file_systems.store(stores.layers or stores.images),
        )

    def _running(self) -> Iterator[tuple[k8s.Pod, PodObservation]]:
        for pod in self._pods():
            seen = self._cache.get(pod.metadata.uid)
            if (seen.running or seen.ready_sandbox is not None) and not uid_problem(pod.metadata.uid):
                yield pod, seen  # an orphan may have any label for a UID, and no cgroup by it

    def _place(self, pod: k8s.Pod, seen: PodObservation) -> PodPlace:
        path = spell(pod_cgroup(pod, self._facts.cgroup_root), self._facts.cgroup_driver)
        sandbox = "" if seen.ready_sandbox is None else seen.ready_sandbox.id
        ids = tuple(one.id for one in seen.running)
        return PodPlace(tuple(path.strip("/").split("/")), sandbox, ids, limited(pod))

    async def _container_stats(self) -> tuple[dict[str, ContainerStats], str]:
        """Return the runtime's statistics of containers, by their ids, and its error if there are none."""
        try:
            with trio.fail_after(RUNTIME_SECONDS_MAX):
                return {one.id: one for one in await self._runtime.container_stats()}, ""
        except (RuntimeCallError, trio.TooSlowError) as error:
            log.debug("The runtime does not report what containers use: %r", error)
            return {}, f"the runtime does not report what containers use: {error!r}"

    async def _stores(self) -> ImageStores:
        try:
            with trio.fail_after(RUNTIME_SECONDS_MAX):
                return await self._images.stores()
        except (RuntimeCallError, trio.TooSlowError) as error:
            log.debug("The runtime does not report where its images are: %r", error)
            return ImageStores((), ())

    def __repr__(self) -> str:
        return f"<StatsProvider: {len(self._rates)} rates>"


def _read(
    gauges: Gauges, places: Sequence[PodPlace], parts: Mapping[str, str], depth: Depth
) -> tuple[NodeGauges, Sequence[PodGauges], dict[str, Usage | None]]:
    """Read the kernel's part of one snapshot."""
    found = {name: gauges.cgroup(path, depth) for name, path in parts.items()}
    return gauges.node(depth), gauges.pods(places, depth), found
