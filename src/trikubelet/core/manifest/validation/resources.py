"""Requests, limits and claims: names of resources, valid amounts, and requests within limits."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from trikubelet.core.document.shown import shown
from trikubelet.core.manifest.pod_requests import is_derived_from_containers, is_pod_level, together
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
    from collections.abc import Collection

    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import Container, PodSpec, Quantity, ResourceRequirements

STANDARD = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_QUOTA = "requests."
_RESIZABLE = ("cpu", "memory")


def container_resource_problems(path: str, container: Container, spec: PodSpec) -> Problems:
    """Yield the problems of one container's resources."""
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
        if not policy.restart_policy:
            yield required(f"{here}.restartPolicy")
        yield from one_of(f"{here}.restartPolicy", policy.restart_policy, ("NotRequired", "RestartContainer"))
        # In a pod that is never restarted, whatever the container's own policy. (upstream: validateResizePolicy)
        if policy.restart_policy == "RestartContainer" and (whose := _never_restarted(container, spec)):
            yield invalid(f"{here}.restartPolicy", policy.restart_policy, f"must be NotRequired {whose}")


def _never_restarted(container: Container, spec: PodSpec) -> str:
    """Return why a container is never restarted for a resize, as the end of a sentence; "" if it may be."""
    if spec.restart_policy == "Never":
        return "in a pod that is never restarted"
    is_init = any(container is one for one in spec.init_containers)
    return "in an init container that is no sidecar" if is_init and container.restart_policy != "Always" else ""


def pod_resource_problems(spec: PodSpec) -> Problems:
    """Yield the problems of the pod's own resources, and of its overhead."""
    if (own := spec.resources) is not None:
        yield from _requirements("spec.resources", own)
        for kind, values in (("limits", own.limits), ("requests", own.requests)):
            for name in values:
                if is_pod_level(name):
                    yield from _container_resource(f"spec.resources.{kind}[{name}]", name)
                else:
                    yield unsupported(f"spec.resources.{kind}[{name}]", name, ("cpu", "memory", "hugepages-SIZE"))
        yield from _containers_within(spec, own)
        for n, _ in enumerate(own.claims):
            yield forbidden(f"spec.resources.claims[{n}]", "only containers claim resources")
    for name, value in spec.overhead.items():
        yield from _container_resource(f"spec.overhead[{name}]", name)
        yield from amount_problems(f"spec.overhead[{name}]", value)
        yield from _whole(f"spec.overhead[{name}]", name, value)
    yield from _pages_alone("spec.overhead", spec.overhead)


def _container_resource(path: str, name: str) -> Problems:
    if name in STANDARD or _page_bytes(name):
        return
    if "/" not in name:
        remedy = "extended resources have a domain, as in example.com/gpu"
        words = ", ".join(map(shown, STANDARD))
        yield Problem(path, f"Unsupported value: {shown(name)}: must be one of {words}, hugepages-SIZE", remedy)
    elif problem := names.qualified_name_problem(name):
        yield invalid(path, name, f"a resource's name {problem}")
    elif name.startswith(_QUOTA):
        yield invalid(path, name, f'may not begin with "{_QUOTA}", as the names of quotas do')


def _page_bytes(name: str) -> Fraction | None:
    """Return the size of the pages that a resource counts; None if it counts none."""
    found = amount(name.removeprefix(_HUGE_PAGES)) if name.startswith(_HUGE_PAGES) else None
    return found if found is not None and found > 0 else None


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
    yield from _pages_alone(path, {*own.limits, *own.requests})


def _pages_alone(path: str, held: Collection[str]) -> Problems:
    if any(name.startswith(_HUGE_PAGES) for name in held) and not {"cpu", "memory"} & {*held}:
        yield forbidden(path, "huge pages need cpu or memory beside them")


def _whole(path: str, name: str, value: Quantity) -> Problems:
    """Yield a problem for a fraction of a device or page."""
    read, page = amount(value), _page_bytes(name)
    if read is None or _can_be_overcommitted(name):
        return
    if read.denominator != 1:
        yield invalid(path, value, "must be a whole number")
    elif page and read % page:
        yield invalid(path, value, "must be whole pages")


def _can_be_overcommitted(name: str) -> bool:
    return not name.startswith(_HUGE_PAGES) and ("/" not in name or name.partition("/")[0].endswith("kubernetes.io"))


def _containers_within(spec: PodSpec, own: ResourceRequirements) -> Problems:
    """Yield a problem if the containers together exceed the pod's request, or one of them exceeds the pod's limit."""
    limits, requests = amounts(own.limits), amounts(own.requests)
    detail = "must be no less than what the containers request together"
    for name, asked in requests.items():
        if _together(spec, name) > asked:
            yield invalid(f"spec.resources.requests[{name}]", own.requests[name], detail)
    for name, limit in limits.items():
        # A problem must be at a field with a line, and a request may be derived: from the containers' requests or,
        # for huge pages, from the limit.
        asked = _together(spec, name)
        derived = (asked,) if is_derived_from_containers(name) else (asked, limit)
        if limit < asked and requests.get(name, 0) in derived:
            yield invalid(f"spec.resources.limits[{name}]", own.limits[name], detail)
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for n, container in enumerate(containers):
            for name, limit in amounts(container.resources.limits).items() if container.resources else ():
                if name in limits and limit > limits[name]:
                    detail = f"must be no more than the pod's limit, which is {own.limits[name]}"
                    where = f"spec.{field}[{n}].resources.limits[{name}]"
                    yield invalid(where, str(container.resources.limits[name]) if container.resources else "", detail)


def _together(spec: PodSpec, name: str) -> Fraction:
    """Return the sum of the containers' requests for a resource; 0 if an amount is invalid."""
    try:
        return together(spec, name)
    except ValueError:
        return Fraction(0)


def _claims(path: str, own: ResourceRequirements, spec: PodSpec) -> Problems:
    known = {claim.name for claim in spec.resource_claims}
    seen: dict[str, set[str]] = {}
    for n, claim in enumerate(own.claims):
        here = f"{path}.claims[{n}]"
        if not claim.name:
            yield required(f"{here}.name")
        elif claim.name not in known:
            yield not_found(
                f"{here}.name", claim.name, known, "the pod has no such claim", "add it to spec.resourceClaims"
            )
        elif (others := seen.get(claim.name)) and (not claim.request or others & {"", claim.request}):
            yield duplicate(here, claim.name)  # a claim without a request includes all requests
        seen.setdefault(claim.name, set()).add(claim.request)
        if claim.request and (problem := names.label_problem(claim.request)):
            yield invalid(f"{here}.request", claim.request, problem)
