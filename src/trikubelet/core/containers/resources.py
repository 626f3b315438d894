"""Kubernetes resources as cgroup values and OOM scores.

Formulas and limits are upstream's (pkg/kubelet/cm/helpers_linux.go, qos/policy.go): shares from requests, quota from
limits, at least 2 shares and 1 ms of quota; BestEffort pods are killed first, Guaranteed and node-critical ones last.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msgspec.structs import replace

from trikubelet.core.containers.amounts import amount, limit_of, of, of_container, of_containers, of_pod
from trikubelet.core.containers.memory import unified
from trikubelet.core.names import all_containers, is_critical
from trikubelet.core.qos import BEST_EFFORT, GUARANTEED, qos_class
from trikubelet.core.restarts import is_sidecar
from trikubelet.model import quantity
from trikubelet.model.runtime_config import LinuxResources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Container, Pod

SHARES_MIN, SHARES_MAX, SHARES_PER_CPU = 2, 262_144, 1024
QUOTA_US_MIN = 1000
OOM_GUARANTEED, OOM_BEST_EFFORT = -997, 1000
NODE_CRITICAL_CLASS = "system-node-critical"
HUGE_PAGES = "hugepages-"
_SIZED = ("cpu", "memory")


def shares(milli_cpu: int) -> int:
    """Return the CPU shares (cgroup v1) of a request in millicores."""
    return min(SHARES_MAX, max(SHARES_MIN, milli_cpu * SHARES_PER_CPU // 1000))


def quota_us(milli_cpu: int, period_us: int) -> int:
    """Return the CFS quota of a limit in millicores, in microseconds per period; 0 for no limit."""
    return max(QUOTA_US_MIN, milli_cpu * period_us // 1000) if milli_cpu else 0


def weight(cpu_shares: int) -> int:
    """Return the CPU weight (cgroup v2) of that many shares."""
    return 1 + (cpu_shares - SHARES_MIN) * 9999 // (SHARES_MAX - SHARES_MIN)


def container_resources(pod: Pod, container: Container, facts: NodeFacts) -> LinuxResources:
    """Return the cgroup values of one container. The limits of the whole pod hold for a container without its own."""
    own, whole = (one.limits if one else {} for one in (container.resources, pod.spec.resources))
    cpu, memory = (limit_of(pod, container, resource) for resource in ("cpu", "memory"))
    quota = quota_us(cpu, facts.cpu_cfs_period_us) if facts.cpu_cfs_quota else 0
    return LinuxResources(
        # Also without a quota, like upstream: a quota set later by a resize is relative to this period.
        cpu_period_us=facts.cpu_cfs_period_us if facts.cpu_cfs_quota else 0,
        cpu_quota_us=quota,
        cpu_shares=shares(of_container(container, "requests", "cpu") if _requests_cpu(container) else cpu),
        memory_limit_bytes=memory,
        # In version 1 the limit of memory and swap together equals that of memory, so nothing is swapped.
        memory_swap_limit_bytes=memory if facts.memory.swap_controlled and facts.cgroup_version == 1 else 0,
        oom_score_adj=oom_score(pod, container, facts.memory_bytes),
        hugepage_limits=huge_page_limits({**whole, **own}, facts),
        unified=unified(pod, container, facts),
    )


def _requests_cpu(container: Container) -> bool:
    """True if a request is stated, even of zero. Without one, the limit is the request."""
    return container.resources is not None and "cpu" in container.resources.requests


def huge_page_limits(limits: Mapping[str, str | int | float], facts: NodeFacts) -> dict[str, int]:
    """Return bytes by page size in the kernel's spelling (``2MB``). A size of the machine without a limit is 0, because
    without a limit it could be used freely."""
    asked = {
        quantity.whole(name.removeprefix(HUGE_PAGES)): quantity.whole(value)
        for name, value in limits.items()
        if name.startswith(HUGE_PAGES)
    }
    return {_page_size(size): asked.get(size, 0) for size in sorted({*facts.huge_page_sizes, *asked})}


def _page_size(size_bytes: int) -> str:
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit}{name}"
    return f"{size_bytes}B"


def oom_score(pod: Pod, container: Container, memory_bytes: int) -> int:
    """Return the kernel's OOM adjustment: the larger the requested share of the node's memory, the later the container
    is killed. A sidecar is never killed before the regular containers it serves."""
    score = _own_oom_score(pod, container, memory_bytes)
    if is_sidecar(container) and any(c.name == container.name for c in pod.spec.init_containers):
        others = [_own_oom_score(pod, regular, memory_bytes) for regular in pod.spec.containers]
        return min([score, *others])
    return score


def _own_oom_score(pod: Pod, container: Container, memory_bytes: int) -> int:
    quality = qos_class(pod)
    node_critical = is_critical(pod) and pod.spec.priority_class_name == NODE_CRITICAL_CLASS
    if quality == GUARANTEED or node_critical:
        return OOM_GUARANTEED
    if quality == BEST_EFFORT or memory_bytes <= 0:
        return OOM_BEST_EFFORT
    request = of_container(container, "requests", "memory") + _share_of_the_pods_own(pod)
    score = 1000 - 1000 * request // memory_bytes
    # Worse than Guaranteed, better than BestEffort, for any request.
    return min(OOM_BEST_EFFORT - 1, max(1000 + OOM_GUARANTEED, score))


def _share_of_the_pods_own(pod: Pod) -> int:
    """Return each container's share, in bytes, of the pod's own request beyond the peak of its containers' requests:
    the memory of an ended init container is free for later ones."""
    stated = of(pod.spec.resources, "requests", "memory")
    beyond = stated - of_containers(pod, "requests", "memory")
    return max(0, beyond) // len(all_containers(pod)) if stated else 0


def pod_resources(pod: Pod, facts: NodeFacts) -> LinuxResources:
    """Return the cgroup values of the whole pod, its overhead included; a limit only if all its containers have one."""
    quota = quota_us(of_pod(pod, "limits", "cpu"), facts.cpu_cfs_period_us) if facts.cpu_cfs_quota else 0
    pages = {name: of_pod(pod, "requests", name) for name in _huge_pages(pod)}
    return LinuxResources(
        cpu_period_us=facts.cpu_cfs_period_us if quota else 0,
        cpu_quota_us=quota,
        cpu_shares=shares(of_pod(pod, "requests", "cpu") if qos_class(pod) != BEST_EFFORT else 0),
        memory_limit_bytes=of_pod(pod, "limits", "memory"),
        hugepage_limits=huge_page_limits(pages, facts),
    )


def huge_page_bytes(pod: Pod) -> frozenset[int]:
    """Return the sizes of huge pages that the pod or its containers request."""
    return frozenset(quantity.whole(name.removeprefix(HUGE_PAGES)) for name in _huge_pages(pod))


def _huge_pages(pod: Pod) -> frozenset[str]:
    asked = [pod.spec.resources, *(container.resources for container in all_containers(pod))]
    names = {name for one in asked if one is not None for name in (*one.requests, *one.limits)}
    return frozenset(name for name in names if name.startswith(HUGE_PAGES))


def sandbox_resources(pod: Pod, facts: NodeFacts) -> LinuxResources:
    """Return the sum of the containers' amounts, for runtimes that size a virtual machine by them. The overhead is not
    included: it is passed separately and would count twice. Like upstream, limits are added up although a container
    without one leaves the pod's cgroup unlimited."""
    bare = replace(pod, spec=replace(pod.spec, overhead={})) if pod.spec.overhead else pod
    cpu, memory = (of(pod.spec.resources, "limits", name) or of_containers(pod, "limits", name) for name in _SIZED)
    return dataclasses.replace(
        pod_resources(bare, facts),
        cpu_period_us=facts.cpu_cfs_period_us if facts.cpu_cfs_quota else 0,
        cpu_quota_us=quota_us(cpu, facts.cpu_cfs_period_us) if facts.cpu_cfs_quota else 0,
        memory_limit_bytes=memory,
    )


def overhead(pod: Pod, facts: NodeFacts) -> LinuxResources:
    """Return the cost of running the pod in addition to its containers. Empty, not None, if its class states none,
    because upstream always passes it."""
    if not pod.spec.overhead:
        return LinuxResources()
    cpu, memory = amount(pod.spec.overhead, "cpu"), amount(pod.spec.overhead, "memory")
    quota = quota_us(cpu, facts.cpu_cfs_period_us) if facts.cpu_cfs_quota else 0
    return LinuxResources(
        cpu_period_us=facts.cpu_cfs_period_us if facts.cpu_cfs_quota else 0,
        cpu_quota_us=quota,
        cpu_shares=shares(cpu),
        memory_limit_bytes=memory,
    )
