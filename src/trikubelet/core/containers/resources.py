"""Kubernetes resources as cgroup values, and who dies first when memory runs out.

Formulas and limits are upstream's (pkg/kubelet/cm/helpers_linux.go, qos/policy.go): shares from requests, quota from
limits, at least 2 shares and 1 ms of quota; BestEffort pods die first, Guaranteed and node-critical ones last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.names import all_containers, is_critical
from trikubelet.core.qos import BEST_EFFORT, GUARANTEED, qos_class
from trikubelet.core.restarts import is_sidecar
from trikubelet.model import quantity
from trikubelet.model.runtime_config import LinuxResources

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Container, Pod

SHARES_MIN, SHARES_MAX, SHARES_PER_CPU = 2, 262_144, 1024
QUOTA_US_MIN = 1000
OOM_GUARANTEED, OOM_BEST_EFFORT = -997, 1000


def shares(milli_cpu: int) -> int:
    """CPU shares (cgroup v1) of a request in millicores."""
    return min(SHARES_MAX, max(SHARES_MIN, milli_cpu * SHARES_PER_CPU // 1000))


def quota_us(milli_cpu: int, period_us: int) -> int:
    """CFS quota of a limit in millicores, in microseconds per period; 0 for no limit."""
    return max(QUOTA_US_MIN, milli_cpu * period_us // 1000) if milli_cpu else 0


def weight(cpu_shares: int) -> int:
    """CPU weight (cgroup v2) of that many shares."""
    return 1 + (cpu_shares - SHARES_MIN) * 9999 // (SHARES_MAX - SHARES_MIN)


def _milli(container: Container, kind: str, name: str) -> int:
    amounts = getattr(container.resources, kind, {})
    return quantity.milli(amounts[name]) if name in amounts else 0


def _bytes(container: Container, kind: str) -> int:
    amounts = getattr(container.resources, kind, {})
    return quantity.whole(amounts["memory"]) if "memory" in amounts else 0


def container_resources(pod: Pod, container: Container, facts: NodeFacts) -> LinuxResources:
    """The cgroup values of one container."""
    limit = _milli(container, "limits", "cpu")
    # A limit without a request asks for as much as it may have.
    request = _milli(container, "requests", "cpu") or limit
    memory = _bytes(container, "limits")
    limits = container.resources.limits if container.resources else {}
    pages = {name.removeprefix("hugepages-"): quantity.whole(q) for name, q in limits.items() if "hugepages-" in name}
    return LinuxResources(
        cpu_period_us=facts.cpu_cfs_period_us if facts.cpu_cfs_quota and limit else 0,
        cpu_quota_us=quota_us(limit, facts.cpu_cfs_period_us) if facts.cpu_cfs_quota else 0,
        cpu_shares=shares(request),
        memory_limit_bytes=memory,
        oom_score_adj=oom_score(pod, container, facts.memory_bytes),
        hugepage_limits=pages,
    )


def oom_score(pod: Pod, container: Container, memory_bytes: int) -> int:
    """The kernel's badness adjustment: the more of the node's memory was asked for, the later it is killed. A sidecar
    is never killed before the regular containers it serves."""
    score = _own_oom_score(pod, container, memory_bytes)
    if any(c is container for c in pod.spec.init_containers) and is_sidecar(container):
        others = [_own_oom_score(pod, regular, memory_bytes) for regular in pod.spec.containers]
        return min([score, *others])
    return score


def _own_oom_score(pod: Pod, container: Container, memory_bytes: int) -> int:
    quality = qos_class(pod)
    if quality == GUARANTEED or (is_critical(pod) and (pod.spec.priority or 0) > 0):
        return OOM_GUARANTEED
    if quality == BEST_EFFORT or memory_bytes <= 0:
        return OOM_BEST_EFFORT
    request = _bytes(container, "requests") or _bytes(container, "limits")
    score = 1000 - 1000 * request // memory_bytes
    # Worse than Guaranteed, better than BestEffort, whatever was asked for.
    return min(OOM_BEST_EFFORT - 1, max(1000 + OOM_GUARANTEED, score))


def pod_resources(pod: Pod, facts: NodeFacts) -> LinuxResources:
    """The cgroup values of the whole pod: the sum of its containers; a limit only where all of them have one."""
    regular = pod.spec.containers
    request = sum(_milli(c, "requests", "cpu") or _milli(c, "limits", "cpu") for c in regular)
    limits = [_milli(c, "limits", "cpu") for c in regular]
    memory = [_bytes(c, "limits") for c in all_containers(pod)]
    quota = quota_us(sum(limits), facts.cpu_cfs_period_us) if facts.cpu_cfs_quota and all(limits) else 0
    return LinuxResources(
        cpu_period_us=facts.cpu_cfs_period_us if quota else 0,
        cpu_quota_us=quota,
        cpu_shares=shares(request),
        memory_limit_bytes=sum(memory) if all(memory) else 0,
    )
