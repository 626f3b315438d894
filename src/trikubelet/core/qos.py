"""The pod's quality-of-service class: how much of what it asked for it is promised.

Guaranteed: every container has cpu and memory limits and requests equal to them. BestEffort: nobody asked for anything.
Burstable: the rest. Where the pod itself has resources they decide alone (upstream: qos.ComputePodQOS).
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
    """The class, from the spec alone. An amount that is none counts as not there: that pod is refused elsewhere, and
    what else looks at its class must not fall over it."""
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
    """The cpu and memory amounts above zero."""
    found = {}
    for name in _COUNTED:
        with suppress(ValueError):
            if (amount := quantity.parse(amounts.get(name, 0))) > 0:
                found[name] = amount
    return found
