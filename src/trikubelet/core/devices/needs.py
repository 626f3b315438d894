"""The devices that a pod's containers ask for, and those that one of them can take over from another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.names import all_containers
from trikubelet.core.restarts import is_sidecar
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
    """Return the ids that the holder may take over: those of the ordinary init containers before it, which end before
    it starts, except for those that a sidecar or a regular container took over already."""
    found: set[str] = set()
    ordinary = {one.name for one in pod.spec.init_containers if not is_sidecar(one)}
    names = [container.name for container in all_containers(pod)]
    earlier = names[: names.index(holder.container)]
    for name in names:
        held = holdings.get(Holder(holder.pod_uid, name, holder.resource))
        if held is None or name == holder.container:
            continue
        if name not in ordinary:
            found -= held.devices.keys()
        elif name in earlier:
            found |= held.devices.keys()
    return frozenset(found)
