"""The cgroups of programs that are no pods, limited to the resources reserved for them (``enforceNodeAllocatable``).

The operator makes them, for the system and for Kubernetes' own programs. The agent sets their limits and nothing else
(upstream: enforceExistingCgroup). Pure; ``host.cgroups`` writes the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.containers.cgroup_values import Setting, cpu_share, memory_limit, processes
from trikubelet.core.containers.cgroups import SYSTEMD
from trikubelet.core.containers.cgroups import parts as spelled
from trikubelet.core.containers.memory import RESERVED
from trikubelet.core.containers.resources import shares
from trikubelet.core.qos import GUARANTEED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.containers.facts import NodeFacts


@dataclass(frozen=True, slots=True)
class ReservedCgroup:
    """A cgroup to limit. ``owner``: ``System`` or ``Kube``, as in upstream's events; ``path``: as configured;
    ``amounts``: the reserved ones, in millicores, bytes and processes; ``only_compressible``: CPU time alone."""

    owner: str
    path: str
    amounts: Mapping[str, int]
    only_compressible: bool = False

    def parts(self, driver: str) -> tuple[str, ...]:
        """Return the directories of the cgroup. With systemd it is a slice, whose name contains those above it."""
        names = tuple(part for part in self.path.split("/") if part)
        if driver != SYSTEMD:
            return names
        return spelled(tuple(names[-1].removesuffix(".slice").split("-")), driver)


def reserved_settings(cgroup: ReservedCgroup, facts: NodeFacts) -> tuple[Setting, ...]:
    """Return the settings of the cgroup; none if no amount of the kind to enforce is reserved. With Memory QoS its
    memory is protected from reclaim, too."""
    version, amounts = facts.cgroup_version, cgroup.amounts
    found = [cpu_share(shares(amounts["cpu"]), version)] if "cpu" in amounts else []
    if cgroup.only_compressible:
        return tuple(found)
    if "memory" in amounts:
        found.append(memory_limit(amounts["memory"], version))
        if version == 2 and facts.memory.qos:
            found.append(Setting("memory", RESERVED[GUARANTEED], str(amounts["memory"])))
    if "pid" in amounts:
        found.append(processes(amounts["pid"]))
    return tuple(found)
