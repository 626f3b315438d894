"""The health of the devices that containers hold, as statuses of pods show it (feature gate ResourceHealthStatus)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trikubelet.model import k8s
from trikubelet.model.devices import HEALTHY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.devices import Held, Holder, Resource

UNHEALTHY: Final = "Unhealthy"
UNKNOWN: Final = "Unknown"


def health_of(
    uid: str, inventory: Mapping[str, Resource], holdings: Mapping[Holder, Held]
) -> dict[str, tuple[k8s.ResourceStatus, ...]]:
    """Return the health of the devices of a pod's containers, by container name, in order of resource and id."""
    found: defaultdict[str, list[k8s.ResourceStatus]] = defaultdict(list)
    for holder, held in sorted(holdings.items(), key=lambda item: item[0]):
        if holder.pod_uid == uid:
            resource = inventory.get(holder.resource)
            shown = tuple(
                k8s.ResourceHealth(resource_id=name, health=_health(name, resource)) for name in sorted(held.devices)
            )
            found[holder.container].append(k8s.ResourceStatus(name=holder.resource, resources=shown))
    return {container: tuple(statuses) for container, statuses in found.items()}


def _health(device: str, resource: Resource | None) -> str:
    """Return the health of one device. While its plugin is away, and if the plugin no longer lists it, it is unknown,
    which is the API's word for that; upstream shows the health that was listed last."""
    if resource is None or resource.stopped_at_seconds is not None or device not in resource.devices:
        return UNKNOWN
    return HEALTHY if resource.devices[device].is_healthy else UNHEALTHY
