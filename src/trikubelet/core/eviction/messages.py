"""Texts about evictions: for the pod's status and event, and for rejecting pods on such a node.

Texts, reasons and annotations are upstream's, because users and scripts match them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.core.eviction.limits import STORAGE, shown_bytes
from trikubelet.core.eviction.thresholds import INODE_SIGNALS, PIDS, RESOURCES
from trikubelet.core.stats.summary import pod_used
from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trikubelet.core.eviction.pressure import Observed
    from trikubelet.core.eviction.ranking import Candidate
    from trikubelet.core.eviction.thresholds import Threshold
    from trikubelet.model.stats_snapshot import ContainerUsed

REASON: Final = "Evicted"
THRESHOLD_MET: Final = "EvictionThresholdMet"
"""The node's event."""
STARVED, OFFENDING, OFFENDING_USAGE = "starved_resource", "offending_containers", "offending_containers_usage"
OFFENDING_POD, OFFENDING_POD_USAGE = "offending_pod", "offending_pod_usage"
"""Annotations of the pod's event."""


class Said(NamedTuple):
    """The message of an eviction and the annotations of its event."""

    message: str
    annotations: Mapping[str, str]


def evicted(candidate: Candidate, threshold: Threshold, observed: Observed) -> Said:
    """Return why the pod is evicted: the threshold, and which of its containers use more than they requested."""
    resource = RESOURCES[threshold.signal]
    limit = _shown(threshold.signal, threshold.value.of(observed.capacity))
    message = f"The node was low on resource: {resource}. Threshold quantity: {limit}, "
    message += f"available: {_shown(threshold.signal, observed.available)}. "
    annotations = {STARVED: resource}
    if of_pod := _of_pod(candidate, resource):
        name, usage, request = of_pod
        message += f"Pod {name} was using {usage}, request is {request}, has larger consumption of {resource}. "
        annotations |= {OFFENDING_POD: name, OFFENDING_POD_USAGE: usage}
    offending = list(_offending(candidate, resource))
    for name, usage, request in offending:
        message += f"Container {name} was using {usage}, request is {request}, has larger consumption of {resource}. "
    if offending:
        annotations[OFFENDING] = ",".join(name for name, _, _ in offending)
        annotations[OFFENDING_USAGE] = ",".join(usage for _, usage, _ in offending)
    return Said(message, annotations)


def refused(conditions: Sequence[str]) -> str:
    """Return why a node with these conditions rejects a pod."""
    return f"The node had condition: [{' '.join(conditions)}]. "


def _of_pod(candidate: Candidate, resource: str) -> tuple[str, str, str] | None:
    """Return name, usage and request of a pod that requests memory itself, in addition to its containers."""
    spec = candidate.pod.spec
    own = spec.resources.requests if spec.resources is not None else {}
    usage = pod_used(candidate.used) if candidate.used is not None else None
    if resource != "memory" or resource not in own or usage is None or usage.usage.working_set_bytes is None:
        return None
    return candidate.pod.metadata.name, shown_bytes(usage.usage.working_set_bytes), quantity.canonical(own[resource])


def _offending(candidate: Candidate, resource: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, usage and request of each container that uses more than it requested."""
    pod = candidate.pod.spec
    specs = {one.name: one for one in (*pod.init_containers, *pod.containers)}  # ephemeral ones can request nothing
    for container in candidate.used.containers if candidate.used is not None else ():
        spec, usage = specs.get(container.name), _usage(container, resource)
        if spec is None or usage is None:
            continue
        requests = spec.resources.requests if spec.resources is not None else {}
        try:
            asked = quantity.whole(requests.get(resource, "0"))
        except ValueError:
            continue
        if usage > asked:
            yield container.name, shown_bytes(usage), quantity.canonical(requests.get(resource, "0"))


def _usage(container: ContainerUsed, resource: str) -> int | None:
    """Return the usage in bytes; None if it was not measured, and for resources that are not counted by container."""
    if resource == "memory":
        return container.used.usage.working_set_bytes if container.used is not None else None
    if resource == STORAGE:
        layer = () if container.layer is None else (container.layer,)
        found = [one.used_bytes for one in (*layer, *container.local_files())]
        return sum(amount or 0 for amount in found) if found else None
    return None


def _shown(signal: str, amount: int) -> str:
    """Return an amount in the signal's notation: bytes in powers of two, pieces in powers of ten."""
    if signal in (*INODE_SIGNALS, PIDS):
        return quantity.canonical(str(amount))
    return shown_bytes(amount)
