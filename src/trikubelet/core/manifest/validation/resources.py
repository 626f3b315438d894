"""Requests, limits and claims: names of resources, amounts that can be had, and limits that hold the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.document.shown import shown
from trikubelet.core.manifest.pod_requests import is_pod_level
from trikubelet.core.manifest.problem import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    not_found,
    one_of,
    required,
    unsupported,
)
from trikubelet.core.manifest.validation.rules import amount, amount_problems, amounts
from trikubelet.model import names

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import Container, PodSpec, Quantity, ResourceRequirements

STANDARD = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_RESIZABLE = ("cpu", "memory")


def container_resource_problems(path: str, container: Container, spec: PodSpec) -> Problems:
    """Everything wrong with what one container asks for."""
    if (own := container.resources) is not None:
        yield from _requirements(f"{path}.resources", own)
        for kind, values in (("limits", own.limits), ("requests", own.requests)):
            for name in values:
                yield from _container_resource(f"{path}.resources.{kind}[{name}]", name)
        yield from _claims(f"{path}.resources", own, spec)
    seen: set[str] = set()
    for n, policy in enumerate(container.resize_policy):
        here = f"{path}.resizePolicy[{n}]"
        if policy.resource_name not in _RESIZABLE:
            yield unsupported(f"{here}.resourceName", policy.resource_name, _RESIZABLE)
        elif policy.resource_name in seen:
            yield duplicate(f"{here}.resourceName", policy.resource_name)
        seen.add(policy.resource_name)
        yield from one_of(f"{here}.restartPolicy", policy.restart_policy, ("NotRequired", "RestartContainer"))


def pod_resource_problems(spec: PodSpec) -> Problems:
    """Everything wrong with what the pod asks for as a whole, and with its overhead."""
    if (own := spec.resources) is not None:
        yield from _requirements("spec.resources", own)
        for kind, values in (("limits", own.limits), ("requests", own.requests)):
            for name in values:
                if not is_pod_level(name):
                    yield unsupported(f"spec.resources.{kind}[{name}]", name, ("cpu", "memory", "hugepages-SIZE"))
        yield from _containers_within(spec, own)
        for n, _ in enumerate(own.claims):
            yield forbidden(f"spec.resources.claims[{n}]", "only containers claim resources")
    for name, value in spec.overhead.items():
        yield from _container_resource(f"spec.overhead[{name}]", name)
        yield from amount_problems(f"spec.overhead[{name}]", value)


def _container_resource(path: str, name: str) -> Problems:
    if name in STANDARD or name.startswith(_HUGE_PAGES):
        return
    if "/" not in name:
        remedy = "extended resources have a domain, as in example.com/gpu"
        words = ", ".join(map(shown, STANDARD))
        yield Problem(path, f"Unsupported value: {shown(name)}: must be one of {words}, hugepages-SIZE", remedy)
    elif problem := names.qualified_name_problem(name):
        yield invalid(path, name, f"a resource's name {problem}")


def _requirements(path: str, own: ResourceRequirements) -> Problems:
    for kind, values in (("limits", own.limits), ("requests", own.requests)):
        for name, value in values.items():
            here = f"{path}.{kind}[{name}]"
            yield from amount_problems(here, value)
            yield from _whole(here, name, value)
    limits, requests = amounts(own.limits), amounts(own.requests)
    for name, asked in requests.items():
        here = f"{path}.requests[{name}]"
        if name not in own.limits:
            if not _can_be_overcommitted(name):
                yield required(f"{path}.limits[{name}]", "must be set where a request is; it cannot be overcommitted")
        elif name in limits and asked > limits[name]:
            detail = f"must be no more than the limit, which is {own.limits[name]}"
            yield invalid(here, own.requests[name], detail)
        elif name in limits and asked != limits[name] and not _can_be_overcommitted(name):
            detail = f"must be the same as the limit, which is {own.limits[name]}; it cannot be overcommitted"
            yield invalid(here, own.requests[name], detail)
    held = {*own.limits, *own.requests}
    if any(name.startswith(_HUGE_PAGES) for name in held) and not held & {"cpu", "memory"}:
        yield forbidden(path, "huge pages need cpu or memory beside them")


def _whole(path: str, name: str, value: Quantity) -> Problems:
    """Devices and pages come in whole pieces."""
    read = amount(value)
    if read is not None and not _can_be_overcommitted(name) and read.denominator != 1:
        yield invalid(path, value, "must be a whole number")


def _can_be_overcommitted(name: str) -> bool:
    return not name.startswith(_HUGE_PAGES) and ("/" not in name or name.partition("/")[0].endswith("kubernetes.io"))


def _containers_within(spec: PodSpec, own: ResourceRequirements) -> Problems:
    """The containers that run together fit into the pod, and none may have more than all of them."""
    limits, requests = amounts(own.limits), amounts(own.requests)
    for name, asked in requests.items():
        parts = [amounts(c.resources.requests).get(name, 0) for c in spec.containers if c.resources is not None]
        if sum(parts) > asked:
            detail = "must be no less than what the containers request together"
            yield invalid(f"spec.resources.requests[{name}]", own.requests[name], detail)
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for n, container in enumerate(containers):
            for name, limit in amounts(container.resources.limits).items() if container.resources else ():
                if name in limits and limit > limits[name]:
                    detail = f"must be no more than the pod's limit, which is {own.limits[name]}"
                    where = f"spec.{field}[{n}].resources.limits[{name}]"
                    yield invalid(where, str(container.resources.limits[name]) if container.resources else "", detail)


def _claims(path: str, own: ResourceRequirements, spec: PodSpec) -> Problems:
    known = {claim.name for claim in spec.resource_claims}
    seen: set[tuple[str, str]] = set()
    for n, claim in enumerate(own.claims):
        here = f"{path}.claims[{n}]"
        if not claim.name:
            yield required(f"{here}.name")
        elif claim.name not in known:
            yield not_found(
                f"{here}.name", claim.name, known, "the pod has no such claim", "add it to spec.resourceClaims"
            )
        elif (claim.name, claim.request) in seen:
            yield duplicate(here, claim.name)
        seen.add((claim.name, claim.request))
