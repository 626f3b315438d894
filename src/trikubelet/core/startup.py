"""The rules of the pod startup SLI: when a pod counts as started, and which parts of its start do not count.

The shell (``pods/startups.py``) keeps the times. The SLI leaves out pulling images and init containers, and pods whose
volumes must be attached and mounted first. (upstream: the pod startup latency tracker and SIG Scalability's definition
of the SLI)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339

if TYPE_CHECKING:
    from trikubelet.model import k8s

_STATELESS: Final = frozenset({"name", "config_map", "secret", "downward_api", "empty_dir", "projected"})
"""The fields a volume may have set in a pod that counts for the SLI."""


def has_started(status: k8s.PodStatus) -> bool:
    """True if every container of the pod is reported to run."""
    states = [one.state for one in status.container_statuses]
    return bool(states) and all(state is not None and state.running is not None for state in states)


def counts_for_sli(pod: k8s.Pod) -> bool:
    """True if no volume of the pod has to be attached or mounted from elsewhere."""
    return all(_set_fields(volume) <= _STATELESS for volume in pod.spec.volumes)


def init_seconds(status: k8s.PodStatus) -> float:
    """Return how long the ended init containers ran, in seconds."""
    ended = (one.state.terminated for one in status.init_container_statuses if one.state is not None)
    return sum(_ran_seconds(one) for one in ended if one is not None)


def _ran_seconds(end: k8s.ContainerStateTerminated) -> float:
    if not (end.started_at and end.finished_at):
        return 0.0
    return max(0.0, (parse_rfc3339(end.finished_at) - parse_rfc3339(end.started_at)) / SECOND_NS)


def _set_fields(volume: k8s.Volume) -> set[str]:
    return {name for name in volume.__struct_fields__ if getattr(volume, name) not in (None, "")}
