"""The amounts of a container that a resize can change: CPU and memory, requests and limits.

A limit is the effective one: the container's own, or else the whole pod's. An invalid amount counts as unstated; a pod
with one is rejected elsewhere.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from trikubelet.core.containers.amounts import amount, limit_of, of_container
from trikubelet.core.containers.resources import SHARES_PER_CPU, quota_us, shares
from trikubelet.model import k8s, quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trikubelet.model.k8s import Container, Pod, Quantity
    from trikubelet.model.runtime import HeldResources

RESIZABLE: Final = ("cpu", "memory")
_KINDS: Final = tuple((name, kind) for name in RESIZABLE for kind in ("requests", "limits"))


class Amounts(NamedTuple):
    """Millicores and bytes; 0 for unstated ones."""

    cpu_request: int = 0
    cpu_limit: int = 0
    memory_request: int = 0
    memory_limit: int = 0


def wanted(pod: Pod, container: Container) -> Amounts:
    """Return the desired amounts of a container of the pod."""
    return Amounts(
        _read(lambda: of_container(container, "requests", "cpu")),
        _read(lambda: limit_of(pod, container, "cpu")),
        _read(lambda: of_container(container, "requests", "memory")),
        _read(lambda: limit_of(pod, container, "memory")),
    )


def asked_changes(before: Pod, after: Pod) -> Iterator[tuple[str, str, str]]:
    """Yield the changes of containers in a pod's new spec, in upstream's words: the resource, ``requests`` or
    ``limits``, and the operation."""
    old = {one.name: one for one in (*before.spec.init_containers, *before.spec.containers)}
    for container in (*after.spec.init_containers, *after.spec.containers):
        if container.name not in old:
            continue
        pairs = zip(_own(old[container.name]), _own(container), strict=True)
        for (resource, kind), (was, shall_be) in zip(_KINDS, pairs, strict=True):
            if was != shall_be:
                yield resource, kind, _operation(was, shall_be)


def canonical(stated: k8s.ResourceRequirements | None) -> k8s.ResourceRequirements:
    """Return resources with amounts in the form that the API server keeps; invalid ones are kept unchanged."""
    stated = stated or k8s.ResourceRequirements()
    return replace(stated, limits=_canonical(stated.limits), requests=_canonical(stated.requests))


def is_held_to(amounts: Amounts, reported: HeldResources | None) -> bool:
    """True if the runtime's report on a container agrees with these amounts. Unreported values count as correct, and no
    runtime reports memory requests."""
    if reported is None:
        return True
    # A request of 0 here is stated as 0, or unstated with a limit of the whole pod, which then is the request. Earlier
    # agents used the limit in both cases, and their running containers must not be changed.
    if reported.cpu_shares and reported.cpu_shares not in _possible_shares(amounts):
        return False
    period, quota = reported.cpu_period_us, reported.cpu_quota_us
    if period and quota > 0:
        has_quota = quota == quota_us(amounts.cpu_limit, period)
    else:  # a runtime that reports CPU values but no quota means that there is none
        has_quota = not (amounts.cpu_limit and (period or quota or reported.cpu_shares))
    if not has_quota:
        return False
    return reported.memory_limit_bytes == amounts.memory_limit


def _possible_shares(amounts: Amounts) -> tuple[int, ...]:
    return shares(amounts.cpu_request), shares(amounts.cpu_request or amounts.cpu_limit)


def reported_amounts(reported: HeldResources) -> Amounts:
    """Return a container's amounts as its runtime reports them, rounded up; 0 if it is not limited. No runtime reports
    memory requests."""
    period, quota = reported.cpu_period_us, reported.cpu_quota_us
    return Amounts(
        cpu_request=-(-reported.cpu_shares * 1000 // SHARES_PER_CPU),
        cpu_limit=-(-quota * 1000 // period) if period and quota > 0 else 0,
        memory_limit=max(0, reported.memory_limit_bytes),
    )


def _canonical(amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {name: _or_itself(amount) for name, amount in amounts.items()}


def _or_itself(amount: Quantity) -> Quantity:
    try:
        return quantity.canonical(amount)
    except ValueError:
        return amount


def _own(container: Container) -> tuple[int, ...]:
    amounts = container.resources or k8s.ResourceRequirements()
    return tuple(
        _read(partial(amount, amounts.requests if kind == "requests" else amounts.limits, name))
        for name, kind in _KINDS
    )


def _operation(was: int, shall_be: int) -> str:
    if not was or not shall_be:
        return "remove" if was else "add"
    return "increase" if shall_be > was else "decrease"


def _read(amount: Callable[[], int]) -> int:
    try:
        return amount()
    except ValueError:
        return 0
