"""Settings of a container's memory besides its limit: who is killed with it, who may swap, who is slowed down and whose
memory is left alone.

Only version 2 of cgroups has them, but for swap, and there by names of files (the CRI's ``unified``). Names,
formulas and who is meant are upstream's: kuberuntime_container_linux.go, KEP-2400 for swap, KEP-2570 for Memory QoS as
it is since v1.36, where throttling and reservation are switched on apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trikubelet.core.containers.amounts import limit_of, of_container
from trikubelet.core.names import is_critical
from trikubelet.core.qos import BURSTABLE, GUARANTEED, qos_class

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Container, Pod

PAGE_BYTES: Final = 4096
RESERVED: Final = {GUARANTEED: "memory.min", BURSTABLE: "memory.low"}
"""The file that keeps a pod's memory from being reclaimed, by its class: at any price, or while there is other."""


@dataclass(frozen=True, slots=True)
class MemoryRules:
    """How this node treats memory. ``swap_bytes``: what its pods may swap together, 0 where none may;
    ``swap_controlled``: the kernel lets swap be limited; ``kills_one``: of a container out of memory one process is
    killed, not all; ``throttle``: the share of what is between a request and a limit at which a container is slowed
    down, 0 for never; ``reserves``: what pods asked for is kept from being reclaimed."""

    swap_bytes: int = 0
    swap_controlled: bool = False
    kills_one: bool = False
    throttle: float = 0.0
    reserves: bool = False


def unified(pod: Pod, container: Container, facts: NodeFacts) -> dict[str, str]:
    """The files of the container's cgroup and what shall stand in them; none in version 1."""
    rules = facts.memory
    if facts.cgroup_version != 2:
        return {}
    found = {} if rules.kills_one else {"memory.oom.group": "1"}
    if rules.swap_controlled:
        found["memory.swap.max"] = str(swap_bytes(pod, container, facts))
    if high := high_bytes(pod, container, facts):
        found["memory.high"] = str(high)
    request = of_container(container, "requests", "memory")
    file = RESERVED.get(qos_class(pod), "")
    return found | {file: str(request)} if rules.reserves and request and file else found


def swap_bytes(pod: Pod, container: Container, facts: NodeFacts) -> int:
    """How much of the container may be swapped out: of the node's swap the share that it asked for of its memory. None
    of a critical pod, of another class than Burstable, or of a container that asked for nothing or for its limit."""
    request = of_container(container, "requests", "memory")
    is_fixed = request == of_container(container, "limits", "memory")
    if is_fixed or is_critical(pod) or qos_class(pod) != BURSTABLE or not 0 < request <= facts.memory_bytes:
        return 0
    return request * facts.memory.swap_bytes // facts.memory_bytes


def high_bytes(pod: Pod, container: Container, facts: NodeFacts) -> int:
    """Above which size the container is slowed down while the kernel takes memory from it; 0 for never. What has no
    limit is measured by what the node has for pods."""
    request, limit = of_container(container, "requests", "memory"), limit_of(pod, container, "memory")
    if not facts.memory.throttle or 0 < request == limit:
        return 0
    between = (limit or facts.allocatable.get("memory", 0)) - request
    high = int(request + facts.memory.throttle * between) // PAGE_BYTES * PAGE_BYTES
    return high if high > request else 0
