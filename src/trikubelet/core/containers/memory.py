"""Settings of a container's memory besides its limit: OOM kills, swap, throttling and reservation.

Except for swap, only version 2 of cgroups has them, by names of files (the CRI's ``unified``). Names, formulas and the
affected pods are upstream's: kuberuntime_container_linux.go, KEP-2400 for swap, KEP-2570 for Memory QoS as of v1.37,
which enables throttling and reservation separately. A file that a container had from an earlier configuration is set
back, for containers that are resized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.containers.amounts import of, of_container, of_pod
from trikubelet.core.names import is_critical
from trikubelet.core.qos import BURSTABLE, GUARANTEED, qos_class

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Container, Pod

PAGE_BYTES: Final = 4096
RESERVED: Final = {GUARANTEED: "memory.min", BURSTABLE: "memory.low"}
"""The file that protects a pod's memory from reclaim, by its class: always, or while other memory is available."""


def unified(pod: Pod, container: Container, facts: NodeFacts) -> dict[str, str]:
    """Return the files of the container's cgroup with their values; empty in version 1."""
    rules = facts.memory
    if facts.cgroup_version != 2:
        return {}
    found = {} if rules.kills_one else {"memory.oom.group": "1"}
    if rules.swap_controlled:
        found["memory.swap.max"] = str(swap_bytes(pod, container, facts))
    if not rules.qos:
        return found | {"memory.high": "max"}
    if high := high_bytes(pod, container, facts):
        found["memory.high"] = str(high)
    request = of_container(container, "requests", "memory")
    file = RESERVED.get(qos_class(pod), "")
    if rules.reserves and request and file:
        return found | {file: str(request)}
    return found | dict.fromkeys(RESERVED.values(), "0")


def swap_bytes(pod: Pod, container: Container, facts: NodeFacts) -> int:
    """Return how much of the container may be swapped out: the node's swap times the container's share of the node's
    memory, by its request. 0 for critical pods, for classes other than Burstable, and for containers without a request
    or with a request equal to the limit."""
    request = of_container(container, "requests", "memory")
    is_fixed = request == of_container(container, "limits", "memory")
    if is_fixed or is_critical(pod) or qos_class(pod) != BURSTABLE or not 0 < request <= facts.memory_bytes:
        return 0
    return request * facts.memory.swap_bytes // facts.memory_bytes


def high_bytes(pod: Pod, container: Container, facts: NodeFacts) -> int:
    """Return the size above which the kernel throttles the container and reclaims its memory; 0 for never. Without a
    limit, the unreserved memory of the node counts; but if its whole pod has a limit, the pod is throttled instead."""
    request, limit = (of_container(container, kind, "memory") for kind in ("requests", "limits"))
    if not limit and of(pod.spec.resources, "limits", "memory"):
        return 0
    return _high_bytes(request, limit or facts.memory.unreserved_bytes, facts, is_fixed=0 < request == limit)


def pod_high_bytes(pod: Pod, facts: NodeFacts) -> int:
    """Return the size above which the kernel throttles a pod that states resources of its own; 0 for never."""
    own = pod.spec.resources
    if own is None or not (own.requests or own.limits):
        return 0
    request, limit = (of_pod(pod, kind, "memory") for kind in ("requests", "limits"))
    return _high_bytes(request, limit, facts, is_fixed=request == limit)


def _high_bytes(request: int, limit: int, facts: NodeFacts, *, is_fixed: bool) -> int:
    """Return a size between the two, in whole pages; 0 for never."""
    if not facts.memory.throttle or is_fixed:
        return 0
    high = int(request + facts.memory.throttle * (limit - request)) // PAGE_BYTES * PAGE_BYTES
    return high if high > request else 0
