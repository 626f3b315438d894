"""Finds pods above their own limits on local storage: an emptyDir's size limit, and ephemeral-storage of a pod or of
one container. They are evicted even if the node has enough left (upstream: localStorageEviction).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.core.eviction.ranking import usage_of
from trikubelet.core.eviction.thresholds import NODEFS
from trikubelet.core.names import all_containers
from trikubelet.core.restarts import is_sidecar
from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trikubelet.model import k8s
    from trikubelet.model.stats_snapshot import ContainerUsed, PodUsed

EMPTY_DIR: Final = "emptydirfs.limit"
POD: Final = "ephemeralpodfs.limit"
CONTAINER: Final = "ephemeralcontainerfs.limit"
"""Upstream's names of these limits in metrics."""

STORAGE: Final = "ephemeral-storage"


class Violation(NamedTuple):
    """A limit that a pod exceeds, by upstream's name of it, and the message for its status."""

    signal: str
    message: str


def has_limits(pod: k8s.Pod) -> bool:
    """True if the pod has a limit on local storage, so that its usage must be measured."""
    return bool(_size_limits(pod)) or _pod_limit(pod) is not None


def violation(pod: k8s.Pod, used: PodUsed, *, image_disk: bool) -> Violation | None:
    """Return the first limit that the pod exceeds, in upstream's order; None if none. ``image_disk``: layers are on a
    separate disk and do not count against a container's limit."""
    return next(_violations(pod, used, image_disk=image_disk), None)


def _violations(pod: k8s.Pod, used: PodUsed, *, image_disk: bool) -> Iterator[Violation]:
    volumes = {one.name: one.usage.used_bytes or 0 for one in used.volumes}
    for name, (limit, text) in _size_limits(pod).items():
        if volumes.get(name, 0) > limit:
            yield Violation(EMPTY_DIR, f'Usage of EmptyDir volume "{name}" exceeds the limit "{text}". ')
    limit_of_pod = _pod_limit(pod)
    if limit_of_pod is not None and (usage_of(used, NODEFS, image_disk=False) or 0) > limit_of_pod:
        shown = shown_bytes(limit_of_pod)
        yield Violation(POD, f"Pod ephemeral local storage usage exceeds the total limit of containers {shown}. ")
    sidecars = filter(is_sidecar, pod.spec.init_containers)  # other init containers count only for the pod's limit
    limits = _limits((*sidecars, *pod.spec.containers))
    for container in used.containers:
        limit, text = limits.get(container.name, (0, ""))
        if limit and _container_bytes(container, image_disk=image_disk) > limit:
            said = f'Container {container.name} exceeded its local ephemeral storage limit "{text}". '
            yield Violation(CONTAINER, said)


def _size_limits(pod: k8s.Pod) -> dict[str, tuple[int, str]]:
    """Return the size limits by volume, in bytes and as written. A volume in memory is limited by its mount as well."""
    found = {}
    for volume in pod.spec.volumes:
        if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
            with suppress(ValueError):  # an invalid quantity is rejected elsewhere
                if limit := quantity.whole(volume.empty_dir.size_limit):
                    found[volume.name] = (limit, quantity.canonical(volume.empty_dir.size_limit))
    return found


def _pod_limit(pod: k8s.Pod) -> int | None:
    """Return the limit for all containers together, with the pod's overhead: the sum of sidecars and regular ones, or
    the peak of an init container with the sidecars before it, if that is more. None if no container has a limit
    (upstream: resourcehelper.PodLimits)."""
    limits = _limits(all_containers(pod))
    if not limits:
        return None
    sidecars = most = 0
    for one in pod.spec.init_containers:
        amount = limits.get(one.name, (0, ""))[0]
        if is_sidecar(one):
            sidecars, amount = sidecars + amount, 0
        most = max(most, sidecars + amount)
    together = sidecars + sum(limits.get(one.name, (0, ""))[0] for one in pod.spec.containers)
    return max(most, together) + _overhead(pod)


def _overhead(pod: k8s.Pod) -> int:
    with suppress(ValueError):
        return quantity.whole(pod.spec.overhead.get(STORAGE, "0"))
    return 0


def _limits(containers: Iterable[k8s.Container]) -> dict[str, tuple[int, str]]:
    """Return the limits by container, in bytes and as written."""
    found = {}
    for container in containers:
        limits = container.resources.limits if container.resources is not None else {}
        if STORAGE in limits:
            with suppress(ValueError):
                found[container.name] = (quantity.whole(limits[STORAGE]), quantity.canonical(limits[STORAGE]))
    return found


def _container_bytes(container: ContainerUsed, *, image_disk: bool) -> int:
    layer = [] if image_disk or container.layer is None else [container.layer]
    return sum(one.used_bytes or 0 for one in (*container.local_files(), *layer))


def shown_bytes(amount: int) -> str:
    """Return bytes in the API's notation: ``100Mi``, or plain if they are no multiple of 1,024."""
    return str(amount) if amount % 1024 or not amount else quantity.canonical(f"{amount // 1024}Ki")
