"""The values of the cgroups of pods, and their files: one pod's, a class's, and all pods' together.

Pure; ``host.cgroups`` writes the values. Versions 1 and 2 of cgroups express them in different files and numbers:
shares or weight, quota and period apart or in one line, ``-1`` or ``max``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.core.containers.amounts import of_pod
from trikubelet.core.containers.cgroups import SYSTEMD
from trikubelet.core.containers.memory import RESERVED, pod_high_bytes
from trikubelet.core.containers.resources import pod_resources, shares, weight
from trikubelet.core.qos import BURSTABLE, GUARANTEED, qos_class
from trikubelet.model.runtime_config import LinuxResources

if TYPE_CHECKING:
    from collections.abc import Collection

    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Pod


class Setting(NamedTuple):
    """One value in one file of a cgroup; ``controller``: the v1 hierarchy, or the v2 controller that is needed."""

    controller: str
    file: str
    value: str


_NEVER_SET: Final = (
    Setting("cpu", "cpu.max", "max"),
    Setting("memory", "memory.high", "max"),
    Setting("memory", "memory.oom.group", "0"),
)
"""The defaults of the files of kubepods that no configuration changes, in version 2. Like upstream, the agent restores
them at each start."""
CPUSET: Final = "cpuset"
RESERVED_PAGES: Final = "rsvd."
"""In the names of files that limit the huge pages a cgroup reserves, before it touches them (since Linux 5.7)."""
_QUOTA_PERCENT: Final = 100


class Asked(NamedTuple):
    """A pod's requests as far as its class's cgroup needs them: its class, millicores and bytes."""

    quality: str
    milli_cpu: int
    memory_bytes: int


def asked(pod: Pod) -> Asked:
    """Return the pod's requests, its overhead included."""
    return Asked(qos_class(pod), of_pod(pod, "requests", "cpu"), of_pod(pod, "requests", "memory"))


def pod_settings(pod: Pod, facts: NodeFacts, beside: Pod | None = None) -> tuple[Setting, ...]:
    """Return the settings of one pod's cgroup. ``beside``: the pod as some of its containers still are during a resize;
    the cgroup must suffice for it as well."""
    resources = pod_resources(pod, facts)
    if beside is not None:
        resources = _enough_for_both(resources, pod_resources(beside, facts))
    if facts.cgroup_driver == SYSTEMD:
        resources = replace(resources, cpu_quota_us=_in_percents(resources.cpu_quota_us, resources.cpu_period_us))
    found = settings(resources, facts.pod_pids_max, facts.cgroup_version)
    if facts.cgroup_version == 2:
        highs = [pod_high_bytes(one, facts) for one in (pod, beside) if one is not None]
        found = (*found, Setting("memory", "memory.high", str(max(highs) if all(highs) else "max")))
    quality, _, memory_bytes = asked(pod)
    if not _reserves(facts) or quality not in RESERVED:
        return found
    return (*found, Setting("memory", RESERVED[quality], str(memory_bytes)))


def class_settings(quality: str, facts: NodeFacts, online_cpus: str = "") -> tuple[Setting, ...]:
    """Return the settings of the cgroup of a class without pods. ``online_cpus``: as the kernel lists them; empty if
    they are unknown.

    Guaranteed pods have no class cgroup but that of all pods, which is limited to the unreserved resources. Memory that
    an earlier agent had protected from reclaim is released there, and limits that are never set there are lifted.
    """
    version = facts.cgroup_version
    if quality != GUARANTEED:
        return (cpu_share(shares(0), version),)
    limit = facts.pods_limit
    found: tuple[Setting, ...] = (
        cpu_share(shares(limit.get("cpu", 0)), version),
        memory_limit(limit.get("memory", 0), version),
        processes(limit.get("pid", 0)),
    )
    if version != 2:
        return found
    found = (*found, *_NEVER_SET, *cpu_settings(online_cpus))
    return found if _reserves(facts) else (*found, *_reservations(0, 0))


def cpu_settings(online_cpus: str) -> tuple[Setting, ...]:
    """Return the setting of the CPUs that all pods together may use, in version 2. They are all CPUs, which limits
    nothing: a systemd that does not know of the controller ``cpuset`` would take it from the containers below, whose
    runtime uses it, at its next reload (upstream: getCgroupConfig)."""
    return (Setting(CPUSET, "cpuset.cpus", online_cpus),) if online_cpus else ()


def class_sums(pods: Collection[Asked], facts: NodeFacts) -> dict[str, tuple[Setting, ...]]:
    """Return the settings of the classes' cgroups that depend on their pods, by class.

    Burstable pods together weigh the sum of their requests. Memory that is protected from reclaim for a pod must be
    protected for all pods together, too (cgroup-v2: "memory.low" counts no more than its parent's).
    """
    burstable = [one for one in pods if one.quality == BURSTABLE]
    weighs = cpu_share(shares(sum(one.milli_cpu for one in burstable)), facts.cgroup_version)
    if not _reserves(facts):
        return {BURSTABLE: (weighs,)}
    low = sum(one.memory_bytes for one in burstable)
    everybodys = sum(one.memory_bytes for one in pods if one.quality in RESERVED)
    return {
        BURSTABLE: (weighs, Setting("memory", RESERVED[BURSTABLE], str(low))),
        GUARANTEED: _reservations(everybodys, low),
    }


def settings(resources: LinuxResources, pids_max: int, version: int) -> tuple[Setting, ...]:
    """Return every file of a cgroup of that version. An absent limit is written as none, because it may have been set
    before; but the period of an absent quota is not written."""
    quota, period = resources.cpu_quota_us, resources.cpu_period_us
    if version == 2:
        cpu = [Setting("cpu", "cpu.max", f"{quota} {period}" if quota else "max")]
    else:
        cpu = [Setting("cpu", "cpu.cfs_period_us", str(period))] if quota else []
        cpu.append(Setting("cpu", "cpu.cfs_quota_us", str(quota or -1)))
    pages = "max" if version == 2 else "limit_in_bytes"
    return (
        cpu_share(resources.cpu_shares, version),
        *cpu,
        memory_limit(resources.memory_limit_bytes, version),
        processes(pids_max),
        *(
            Setting("hugetlb", f"hugetlb.{size}.{kind}{pages}", str(n))
            for size, n in resources.hugepage_limits.items()
            for kind in ("", RESERVED_PAGES)
        ),
    )


def _in_percents(quota_us: int, period_us: int) -> int:
    """Return the quota, rounded up to a whole percent of a CPU as systemd stores it. Runtimes round the quotas of
    containers up, too, and version 1 refuses a container's quota that is larger than its pod's."""
    if not quota_us:
        return 0
    percents = -(-quota_us * _QUOTA_PERCENT // period_us)
    return percents * period_us // _QUOTA_PERCENT


def _enough_for_both(one: LinuxResources, other: LinuxResources) -> LinuxResources:
    """Return the larger value of each; an absent limit is the largest."""
    quotas, limits = ([getattr(of, name) for of in (one, other)] for name in ("cpu_quota_us", "memory_limit_bytes"))
    return replace(
        one,
        cpu_quota_us=max(quotas) if all(quotas) else 0,
        cpu_shares=max(one.cpu_shares, other.cpu_shares),
        memory_limit_bytes=max(limits) if all(limits) else 0,
    )


def _reserves(facts: NodeFacts) -> bool:
    return facts.memory.reserves and facts.cgroup_version == 2


def _reservations(min_bytes: int, low_bytes: int) -> tuple[Setting, ...]:
    return (
        Setting("memory", RESERVED[GUARANTEED], str(min_bytes)),
        Setting("memory", RESERVED[BURSTABLE], str(low_bytes)),
    )


def cpu_share(cpu_shares: int, version: int) -> Setting:
    """Return the setting of a share of CPU time."""
    if version == 2:
        return Setting("cpu", "cpu.weight", str(weight(cpu_shares)))
    return Setting("cpu", "cpu.shares", str(cpu_shares))


def processes(processes_max: int) -> Setting:
    """Return the setting of a limit of processes; 0 for none."""
    return Setting("pids", "pids.max", str(processes_max or "max"))


def memory_limit(limit_bytes: int, version: int) -> Setting:
    """Return the setting of a limit of memory; 0 for none."""
    if version == 2:
        return Setting("memory", "memory.max", str(limit_bytes or "max"))
    return Setting("memory", "memory.limit_in_bytes", str(limit_bytes or -1))
