"""The cgroup of all pods together: limited at the start to what is not reserved, and reported to the cluster.

    start ─► write its limits ─► done: ``report`` records NodeAllocatableEnforced, for a cluster that is joined; then
                   ▲     │             each minute: CPUs that came online are for pods, too
                   │     └─────► refused (the pods use more): FailedNodeAllocatableEnforcement, once more after a minute
                   └───────────────────────┘

Until the kernel accepts a lower limit, eviction brings the usage of the pods down (upstream:
enforceNodeAllocatableCgroups). Limits are not written again, so values that an operator sets by hand hold until the
agent restarts.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.every import Every
from trikubelet.kit.failure_log import FailureLog
from trikubelet.model.errors import CgroupFailed

if TYPE_CHECKING:
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
    """Owns whether the cgroup of all pods has its limits."""

    def __init__(self, cgroups: PodCgroups, version: int, events: Events, node: ObjectRef) -> None:
        """``version``: of the machine's cgroups."""
        self._cgroups = cgroups
        self._version = version
        self._events = events
        self._node = node
        self._is_limited = trio.Event()

    async def run(self) -> None:
        """Limit the cgroup, and let it have the CPUs that come online. Ends if pods have no cgroups of their own."""
        while not self._is_limited.is_set():
            try:
                if not await self._cgroups.limit_all():
                    return
                self._is_limited.set()
            except CgroupFailed as error:
                message = f"Failed to update Node Allocatable Limits: {error.message}"
                self._events.record(self._node, "Warning", "FailedNodeAllocatableEnforcement", message)
                await trio.sleep(RETRY_SECONDS)
        failures = FailureLog()
        async for _ in Every(CPUS_SECONDS):
            try:
                await self._cgroups.allow_online_cpus()
                failures.works_again("CPUs")
            except CgroupFailed as error:
                if failures.may_log("CPUs"):
                    log.warning("Pods cannot use all CPUs: %s; trying again each minute", error.message)

    async def report(self) -> None:
        """Record the version of cgroups if it is an old one, and the limits once they hold. Called once there is a
        cluster, because earlier events are not sent."""
        if self._version == 1:
            self._events.record(self._node, "Warning", "CgroupV1", CGROUP_V1)
        await self._is_limited.wait()
        message = "Updated Node Allocatable limit across pods"
        self._events.record(self._node, "Normal", "NodeAllocatableEnforced", message)
