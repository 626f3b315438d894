"""The pod's quality-of-service class.

Guaranteed: every container has cpu and memory limits and requests equal to them. BestEffort: no container requests
anything. Burstable: the rest. If the pod itself has resources, only they count (upstream: qos.ComputePodQOS).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from trikubelet.core.names import all_containers
from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from trikubelet.model.k8s import Pod, ResourceRequirements

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_COUNTED = ("cpu", "memory")


def qos_class(pod: Pod) -> str:
    """Return the class, from the spec alone. Invalid amounts count as absent: such a pod is rejected elsewhere, and
    other readers of its class must not fail."""
    own = pod.spec.resources
    decides = own is not None and (own.requests or own.limits)
    asked = [own] if decides else [container.resources for container in all_containers(pod)]
    if not any(_requests(r) or _limits(r) for r in asked):
        return BEST_EFFORT
    return GUARANTEED if all(_is_guaranteed(r) for r in asked) else BURSTABLE


def _is_guaranteed(resources: ResourceRequirements | None) -> bool:
    limits, requests = _limits(resources), _requests(resources)
    return all(name in limits and requests.get(name, limits[name]) == limits[name] for name in _COUNTED)


def _limits(resources: ResourceRequirements | None) -> dict[str, Fraction]:
    return _counted(resources.limits) if resources else {}


def _requests(resources: ResourceRequirements | None) -> dict[str, Fraction]:
    return _counted(resources.requests) if resources else {}


def _counted(amounts: Mapping[str, str | int | float]) -> dict[str, Fraction]:
    """Return the cpu and memory amounts above zero."""
    found = {}
    for name in _COUNTED:
        with suppress(ValueError):
            if (amount := quantity.parse(amounts.get(name, 0))) > 0:
                found[name] = amount
    return found
