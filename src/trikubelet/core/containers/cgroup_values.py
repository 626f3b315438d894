"""What the cgroups of pods shall be set to, and in which files: one pod's, a class's, and all pods' together.

Pure; ``host.cgroups`` carries it out. A cgroup v1 hierarchy and a v2 one say the same with other files and numbers:
shares against weight, a quota beside its period against both in one line, ``-1`` against ``max``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trikubelet.core.containers.resources import pod_resources, shares, weight
from trikubelet.core.qos import BURSTABLE, GUARANTEED
from trikubelet.model.runtime_config import LinuxResources

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod


class Setting(NamedTuple):
    """One value in one file of a cgroup; ``controller`` tells in which v1 hierarchy, and whether there is any."""

    controller: str
    file: str
    value: str


def pod_settings(pod: Pod, facts: NodeFacts) -> tuple[Setting, ...]:
    """What one pod's cgroup is set to."""
    return settings(pod_resources(pod, facts), facts.pod_pids_max, facts.cgroup_version)


def class_settings(quality: str, milli_cpu: Iterable[int], facts: NodeFacts) -> tuple[Setting, ...]:
    """What the cgroup of a class is set to, given its pods' CPU requests in millicores.

    Burstable pods together weigh what they asked for, BestEffort ones next to nothing. Guaranteed pods have no cgroup
    of their own but that of all pods, which is limited to what the node has to give.
    """
    version = facts.cgroup_version
    if quality == GUARANTEED:
        memory = facts.allocatable.get("memory", 0) if facts.allocatable_enforced else 0
        return (_cpu_share(shares(facts.allocatable.get("cpu", 0)), version), _memory_limit(memory, version))
    asked = sum(milli_cpu) if quality == BURSTABLE else 0
    return (_cpu_share(shares(asked), version),)


def settings(resources: LinuxResources, pids_max: int, version: int) -> tuple[Setting, ...]:
    """Every file of a cgroup of that version. A limit that is not set is written as none, since it may have been set
    before; but a quota of none says nothing about its period."""
    quota, period = resources.cpu_quota_us, resources.cpu_period_us
    if version == 2:
        cpu = [Setting("cpu", "cpu.max", f"{quota} {period}" if quota else "max")]
    else:
        cpu = [Setting("cpu", "cpu.cfs_period_us", str(period))] if quota else []
        cpu.append(Setting("cpu", "cpu.cfs_quota_us", str(quota or -1)))
    pages = "max" if version == 2 else "limit_in_bytes"
    return (
        _cpu_share(resources.cpu_shares, version),
        *cpu,
        _memory_limit(resources.memory_limit_bytes, version),
        Setting("pids", "pids.max", str(pids_max or "max")),
        *(Setting("hugetlb", f"hugetlb.{size}.{pages}", str(n)) for size, n in resources.hugepage_limits.items()),
    )


def _cpu_share(cpu_shares: int, version: int) -> Setting:
    if version == 2:
        return Setting("cpu", "cpu.weight", str(weight(cpu_shares)))
    return Setting("cpu", "cpu.shares", str(cpu_shares))


def _memory_limit(limit_bytes: int, version: int) -> Setting:
    if version == 2:
        return Setting("memory", "memory.max", str(limit_bytes or "max"))
    return Setting("memory", "memory.limit_in_bytes", str(limit_bytes or -1))
