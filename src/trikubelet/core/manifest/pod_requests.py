"""The requests of a pod as a whole, derived where the pod itself has limits.

What containers ask for together becomes the pod's request; where no container asks, the pod's limit does (upstream:
KEP-2837, pod-level resources). Together means: regular containers and sidecars at the same time, or the largest init
container beside the sidecars started before it, whichever is more.
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
    """The spec, with ``resources.requests`` filled in where it has ``resources.limits``."""
    own = spec.resources
    if own is None or not own.limits:
        return spec
    try:
        asked = {name: together(spec, name) for name in _POD_LEVEL if _is_stated(spec, name)}
    except ValueError:
        return spec  # an amount that is none; the validation says which
    requests: dict[str, Quantity] = {name: _written(name, amount) for name, amount in asked.items()}
    limits = {name: amount for name, amount in own.limits.items() if is_pod_level(name)}
    return replace(spec, resources=replace(own, requests={**limits, **requests, **own.requests}))


def is_pod_level(resource: str) -> bool:
    """Whether a pod as a whole may have this resource."""
    return resource in _POD_LEVEL or resource.startswith(_HUGE_PAGES)


def is_derived_from_containers(resource: str) -> bool:
    """Whether the pod's request, where none is written, is what its containers ask for, and only else the limit."""
    return resource in _POD_LEVEL


def _is_stated(spec: PodSpec, resource: str) -> bool:
    """Whether a container asks for it, be it for nothing of it."""
    containers = (*spec.init_containers, *spec.containers)
    return any(resource in one.resources.requests for one in containers if one.resources)


def together(spec: PodSpec, resource: str) -> Fraction:
    """What the containers ask for of a resource. Raises ValueError for an amount that is none."""
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
    """The amount, exact: whole bytes and millicores when it is whole in them."""
    if resource == "cpu" or amount.denominator != 1:
        return quantity.canonical(f"{amount * 10**9}n")
    return quantity.canonical(f"{amount}")
