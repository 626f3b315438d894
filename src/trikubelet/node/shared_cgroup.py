"""The cgroup of all pods together, and those of other programs: limited at the start, and reported to the cluster.

    start ─► write its limits ─► done: ``report`` records NodeAllocatableEnforced, for a cluster that is joined; then
                   ▲     │             each minute: CPUs that came online are for pods, too
                   │     └─────► refused (the pods use more): FailedNodeAllocatableEnforcement, once more after a minute
                   └───────────────────────┘

Until the kernel accepts a lower limit, eviction brings the usage of the pods down (upstream:
enforceNodeAllocatableCgroups). Limits are not written again, so values that an operator sets by hand hold until the
agent restarts.

Cgroups with reserved resources (``enforceNodeAllocatable``) take the same way, each by itself. Upstream's kubelet ends
if one of them does not exist.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.every import Every
from trikubelet.kit.failure_log import FailureLog
from trikubelet.model.errors import CgroupFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trikubelet.core.containers.reserved_cgroups import ReservedCgroup
    from trikubelet.model.objects import ObjectRef
    from trikubelet.ports import Events, PodCgroups

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 60.0
CPUS_SECONDS: Final = 60.0
CGROUP_V1: Final = (
    "cgroup v1 detected. This agent works with it, the upstream kubelet does not by default and will remove its"
    " support: migrate this machine to cgroup v2"
)


class SharedCgroup:
    """Owns which of these cgroups have their limits."""

    def __init__(
        self,
        cgroups: PodCgroups,
        version: int,
        events: Events,
        node: ObjectRef,
        reserved: Sequence[ReservedCgroup] = (),
    ) -> None:
        """``version``: of the machine's cgroups; ``reserved``: the cgroups of other programs."""
        self._cgroups = cgroups
        self._version = version
        self._events = events
        self._node = node
        self._reserved = {one.owner: one for one in reserved}
        self._is_limited = trio.Event()
        self._are_limited = {owner: trio.Event() for owner in self._reserved}

    async def run(self) -> None:
        """Limit the cgroups, and let pods have the CPUs that come online. Ends if pods have no cgroups of their own."""
        async with trio.open_nursery() as nursery:
            for owner, one in self._reserved.items():
                kind = "Reserved Compressible" if one.only_compressible else "Reserved"
                failed = f'Failed to enforce {owner} {kind} Cgroup Limits on "{one.path}"'
                limit = partial(self._cgroups.limit_reserved, one)
                nursery.start_soon(self._limit, limit, failed, self._are_limited[owner])
            if await self._limit(self._cgroups.limit_all, "Failed to update Node Allocatable Limits", self._is_limited):
                await self._follow_cpus()

    async def report(self) -> None:
        """Record the version of cgroups if it is an old one, and the limits once they hold. Called once there is a
        cluster, because earlier events are not sent."""
        if self._version == 1:
            self._events.record(self._node, "Warning", "CgroupV1", CGROUP_V1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report, self._is_limited, "Updated Node Allocatable limit across pods")
            for owner, one in self._reserved.items():
                message = f"Updated limits on {owner.lower()} reserved cgroup {one.path}"
                nursery.start_soon(self._report, self._are_limited[owner], message)

    async def _limit(self, limit: Callable[[], Awaitable[bool]], failed: str, done: trio.Event) -> bool:
        """Limit a cgroup, and try again each minute while that fails; False if there is none."""
        while not done.is_set():
            try:
                if not await limit():
                    return False
                done.set()
            except CgroupFailed as error:
                message = f"{failed}: {error.message}"
                self._events.record(self._node, "Warning", "FailedNodeAllocatableEnforcement", message)
                await trio.sleep(RETRY_SECONDS)
        return True

    async def _follow_cpus(self) -> None:
        failures = FailureLog()
        async for _ in Every(CPUS_SECONDS):
            try:
                await self._cgroups.allow_online_cpus()
                failures.works_again("CPUs")
            except CgroupFailed as error:
                if failures.may_log("CPUs"):
                    log.warning("Pods cannot use all CPUs: %s; trying again each minute", error.message)

    async def _report(self, limited: trio.Event, message: str) -> None:
        await limited.wait()
        self._events.record(self._node, "Normal", "NodeAllocatableEnforced", message)
