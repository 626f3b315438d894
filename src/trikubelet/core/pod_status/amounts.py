"""The resources that a pod and its containers have, as the status reports them.

A running container has the resources that its runtime reports; a memory request, which no runtime reports, is the one
it was created with, or changed to since. A container that does not run has its allocated resources. A pod has the sum
of its containers', or its own (upstream: the gates InPlacePodVerticalScaling and
InPlacePodLevelResourcesVerticalScaling). Amounts are in the form that the API server keeps, otherwise they would seem
to differ from its own; invalid ones are kept unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trikubelet.core.containers.amounts import amount, limited, of_containers
from trikubelet.core.containers.resources import SHARES_PER_CPU, quota_us, shares
from trikubelet.core.manifest.pod_requests import is_pod_level
from trikubelet.core.requests import promised
from trikubelet.core.resize.amounts import Amounts, canonical
from trikubelet.model import k8s, quantity
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.model.k8s import Quantity
    from trikubelet.model.runtime import ContainerStatus, HeldResources


def given(
    container: k8s.Container, newest: ContainerStatus, made: Amounts | None, before: k8s.ContainerStatus | None
) -> k8s.ResourceRequirements:
    """Return the resources of the newest container of that name. ``container``: with its allocated resources; ``made``:
    the recorded amounts it was created with; ``before``: its last status, if that was of the very same container."""
    stated, reported = canonical(container.resources), newest.resources
    if newest.state is not ContainerState.RUNNING:
        return stated
    if reported is None and made is None:
        return before.resources if before is not None and before.resources is not None else stated
    limits = {
        "cpu": _cpu_limit(stated.limits, reported, made),
        "memory": _memory(
            stated.limits, reported.memory_limit_bytes if reported else 0, made.memory_limit if made else None
        ),
    }
    requests = {
        "cpu": _cpu_request(stated.requests, reported, made),
        "memory": _memory(stated.requests, 0, made.memory_request if made else None),
    }
    return replace(stated, limits=_with(stated.limits, limits), requests=_with(stated.requests, requests))


def given_to_all(
    pod: k8s.Pod, shown: Iterable[k8s.ContainerStatus], own: k8s.ResourceRequirements | None
) -> tuple[k8s.ResourceRequirements, dict[str, Quantity]]:
    """Return the resources of the whole pod, and its allocated requests including the overhead. ``shown``: its
    containers' statuses; ``own``: the pod's own resources as its cgroup has them."""
    made = _as_shown(pod, shown, own)
    stated = own or k8s.ResourceRequirements()
    limits = {**canonical(stated).limits, **_limits(made)}
    return replace(stated, requests=_requested(made), limits=limits), _requested(pod)


def _limits(pod: k8s.Pod) -> dict[str, Quantity]:
    """Return the sums of the limits that containers state, even if a container without one leaves the pod unlimited;
    and the pod's own plus its overhead. Empty if any amount is invalid."""
    own = pod.spec.resources.limits if pod.spec.resources is not None else {}
    found = {}
    try:
        for name in limited(pod):
            extra = amount(pod.spec.overhead, name)
            if name in own and not extra:
                continue
            stated = amount(own, name) if name in own else of_containers(pod, "limits", name)
            if stated:
                found[name] = stated + extra
    except ValueError:
        return {}
    return _written(found)


def _requested(pod: k8s.Pod) -> dict[str, Quantity]:
    """Return the pod's requests. A sum is rounded up to bytes or millicores; one that is the pod's own keeps the
    quantity of the spec, such as 10m of memory (upstream: PodRequests)."""
    summed = _written(promised(pod))
    own = canonical(pod.spec.resources).requests
    as_written = {name for name in own if is_pod_level(name) and name in summed and name not in pod.spec.overhead}
    return {name: own[name] if name in as_written else amount for name, amount in summed.items()}


def _as_shown(pod: k8s.Pod, shown: Iterable[k8s.ContainerStatus], own: k8s.ResourceRequirements | None) -> k8s.Pod:
    held = {status.name: status.resources for status in shown if status.resources is not None}

    def made(containers: Iterable[k8s.Container]) -> tuple[k8s.Container, ...]:
        return tuple(replace(one, resources=held.get(one.name, one.resources)) for one in containers)

    spec = pod.spec
    spec = replace(spec, containers=made(spec.containers), init_containers=made(spec.init_containers), resources=own)
    return replace(pod, spec=spec)


# Each of these returns the stated amount if it comes to the actual one, so that amounts that cannot be distinguished
# (1m and 2m of a CPU are the same shares) are not reported as different; None if there is none.


def _cpu_limit(stated: Mapping[str, Quantity], reported: HeldResources | None, made: Amounts | None) -> Quantity | None:
    wanted = _number(stated, "cpu")
    if reported is not None and reported.cpu_period_us and reported.cpu_quota_us > 0:
        if quota_us(wanted, reported.cpu_period_us) == reported.cpu_quota_us:
            return stated.get("cpu")
        return _millicores(reported.cpu_quota_us * 1000 // reported.cpu_period_us)
    if made is None or made.cpu_limit == wanted:
        return stated.get("cpu")
    return _millicores(made.cpu_limit) if made.cpu_limit else None


def _cpu_request(
    stated: Mapping[str, Quantity], reported: HeldResources | None, made: Amounts | None
) -> Quantity | None:
    wanted = _number(stated, "cpu")
    if reported is not None and reported.cpu_shares:
        if shares(wanted) == reported.cpu_shares:
            return stated.get("cpu")
        return _millicores(-(-reported.cpu_shares * 1000 // SHARES_PER_CPU))
    if made is None or made.cpu_request == wanted:
        return stated.get("cpu")
    return _millicores(made.cpu_request) if made.cpu_request else None


def _memory(stated: Mapping[str, Quantity], reported: int, made: int | None) -> Quantity | None:
    there = reported or made
    if there is None or there == _number(stated, "memory"):
        return stated.get("memory")
    return next(iter(_written({"memory": there}).values())) if there else None


def _with(stated: Mapping[str, Quantity], found: Mapping[str, Quantity | None]) -> dict[str, Quantity]:
    """Return the stated resources, updated with the found ones; CPU and memory are added even if not stated, because
    the whole pod may have a limit. Like upstream, nothing for a container that states nothing."""
    merged = {**stated, **found} if stated else {}
    return {name: amount for name, amount in merged.items() if amount is not None}


def _number(stated: Mapping[str, Quantity], name: str) -> int:
    try:
        return quantity.milli(stated.get(name, 0)) if name == "cpu" else quantity.whole(stated.get(name, 0))
    except ValueError:
        return 0


def _millicores(amount: int) -> str:
    return quantity.canonical(f"{amount}m")


def _written(amounts: Mapping[str, int]) -> dict[str, Quantity]:
    """Return millicores, bytes and pieces as quantities."""
    return {name: quantity.canonical(_suffixed(name, amount)) for name, amount in sorted(amounts.items())}


def _suffixed(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount}m"
    counts_bytes = "/" not in name and amount % 1024 == 0
    return f"{amount // 1024}Ki" if counts_bytes else str(amount)
