"""The requests of a pod as a whole, derived if the pod itself has limits.

The sum of the containers' requests becomes the pod's request; without any the pod's limit does (upstream: KEP-2837,
pod-level resources). The sum is that of regular containers and sidecars, or the peak of an init container with the
sidecars before it, whichever is more.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec.structs import replace

from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.model.k8s import Container, PodSpec, Quantity

_HUGE_PAGES = "hugepages-"
_POD_LEVEL = ("cpu", "memory")


def with_pod_requests(spec: PodSpec) -> PodSpec:
    """Return the spec, with ``resources.requests`` filled in if it has ``resources.limits``."""
    own = spec.resources
    if own is None or not own.limits:
        return spec
    try:
        asked = {name: together(spec, name) for name in _POD_LEVEL if _is_stated(spec, name)}
    except ValueError:
        return spec  # an invalid amount; the validation reports it
    requests: dict[str, Quantity] = {name: _written(name, amount) for name, amount in asked.items()}
    limits = {name: amount for name, amount in own.limits.items() if is_pod_level(name)}
    return replace(spec, resources=replace(own, requests={**limits, **requests, **own.requests}))


def is_pod_level(resource: str) -> bool:
    """True if a pod as a whole may have this resource."""
    return resource in _POD_LEVEL or resource.startswith(_HUGE_PAGES)


def is_derived_from_containers(resource: str) -> bool:
    """True if the pod's missing request is the sum of its containers' requests, and the limit only if there are
    none."""
    return resource in _POD_LEVEL


def _is_stated(spec: PodSpec, resource: str) -> bool:
    """True if a container states a request for it, even of zero."""
    containers = (*spec.init_containers, *spec.containers)
    return any(resource in one.resources.requests for one in containers if one.resources)


def together(spec: PodSpec, resource: str) -> Fraction:
    """Return the sum of the containers' requests for a resource. Raises ValueError for an invalid amount."""
    sidecars = most = Fraction(0)
    for container in spec.init_containers:
        amount = _request(container, resource)
        if container.restart_policy == "Always":
            sidecars += amount
            amount = Fraction(0)
        most = max(most, sidecars + amount)
    return max(most, sidecars + _sum(_request(container, resource) for container in spec.containers))


def _sum(amounts: Iterable[Fraction]) -> Fraction:
    return sum(amounts, Fraction(0))


def _request(container: Container, resource: str) -> Fraction:
    amounts = container.resources.requests if container.resources else {}
    return quantity.parse(amounts[resource]) if resource in amounts else Fraction(0)


def _written(resource: str, amount: Fraction) -> str:
    """Return the exact amount, in whole bytes or millicores if possible."""
    if resource == "cpu" or amount.denominator != 1:
        return quantity.canonical(f"{amount * 10**9}n")
    return quantity.canonical(f"{amount}")
