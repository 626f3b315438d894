"""The devices that a pod's containers ask for, and those that one of them can take over from another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.handover import handed_over
from trikubelet.core.names import all_containers
from trikubelet.model import quantity
from trikubelet.model.devices import Holder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from trikubelet.model import k8s
    from trikubelet.model.devices import Held


@dataclass(frozen=True, slots=True)
class Need:
    """A number of devices that one container asks for."""

    holder: Holder
    count: int


def needs(pod: k8s.Pod, resources: Collection[str]) -> Iterator[Need]:
    """Each need of the pod's containers, in the order in which they are met: init containers first. Only limits count,
    and only of ``resources``, which are the devices' ones. Raises ValueError for an amount that is none."""
    for container in all_containers(pod):
        limits = container.resources.limits if container.resources is not None else {}
        for name in sorted(limits.keys() & set(resources)):
            if count := quantity.whole(limits[name]):
                yield Need(Holder(pod.metadata.uid, container.name, name), count)


def reusable(pod: k8s.Pod, holder: Holder, holdings: Mapping[Holder, Held]) -> frozenset[str]:
    """Return the ids that the holder may take over from the pod's init containers."""
    return handed_over(
        pod,
        holder.container,
        {
            one.container: held.devices.keys()
            for one, held in holdings.items()
            if (one.pod_uid, one.resource) == (holder.pod_uid, holder.resource)
        },
    )
