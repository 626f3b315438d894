"""Chooses the pods that the node ends to make room for a pod that it must run (upstream: pkg/kubelet/preemption).

Only a critical pod may preempt, and only a shortage can be resolved so. BestEffort pods go first, then Burstable,
Guaranteed ones last; a class is used only if ending all of the lower ones is not enough. Within a class the
best-fitting pods are chosen until the gaps are closed. Pure: ``pods/evaluation.py`` ends them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.admission.resources import PODS, Shortage
from trikubelet.core.names import is_critical
from trikubelet.core.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trikubelet.core.admission.pod_info import PodInfo
    from trikubelet.model import k8s

REASON: Final = "Preempting"
MESSAGE: Final = "Preempted in order to admit critical pod"
CONDITION_MESSAGE: Final = "Pod was preempted by Kubelet to accommodate a critical pod."

Amounts = dict[str, int]
"""Millicores, bytes or pieces by resource."""
_Candidate = tuple["k8s.Pod", Amounts]


def victims(pod: k8s.Pod, others: Iterable[PodInfo], short: Sequence[Shortage]) -> tuple[k8s.Pod, ...] | None:
    """Return the pods to end for one that lacks ``short``, the lowest class first; None if ending all candidates is not
    enough."""
    missing = {one.resource: one.missing for one in short}
    classes: dict[str, list[_Candidate]] = {GUARANTEED: [], BURSTABLE: [], BEST_EFFORT: []}
    for other in others:
        if _may_preempt(pod, other.pod):
            classes[qos_class(other.pod)].append((other.pod, {**other.promised, PODS: 1}))
    if _left(missing, [one for members in classes.values() for one in members]):
        return None
    chosen: list[_Candidate] = []
    for name, lower in (
        (GUARANTEED, (*classes[BURSTABLE], *classes[BEST_EFFORT])),
        (BURSTABLE, classes[BEST_EFFORT]),
        (BEST_EFFORT, ()),
    ):
        chosen = [*_few(classes[name], _left(missing, [*chosen, *lower])), *chosen]
    return tuple(candidate for candidate, _ in chosen)


def _may_preempt(pod: k8s.Pod, other: k8s.Pod) -> bool:
    """True if the pod may preempt the other: only it is critical, or both have a priority and its own is higher."""
    if is_critical(pod) and not is_critical(other):
        return True
    mine, theirs = pod.spec.priority, other.spec.priority
    return mine is not None and theirs is not None and mine > theirs


def _left(missing: Mapping[str, int], ended: Iterable[_Candidate]) -> Amounts:
    """Return the amounts that are still missing after these pods have ended."""
    left = dict(missing)
    for _, amounts in ended:
        for name in left:
            left[name] -= amounts.get(name, 0)
    return {name: amount for name, amount in left.items() if amount > 0}


def _few(candidates: Sequence[_Candidate], missing: Amounts) -> list[_Candidate]:
    """Return candidates that free the missing amounts; all of them together do. Each step takes the one that leaves the
    smallest gap, and among equals the one with the smaller requests."""
    rest, chosen = list(candidates), []
    while missing:
        best = min(rest, key=lambda one: (_distance(missing, one), one[1].get("memory", 0), one[1].get("cpu", 0)))
        rest.remove(best)
        chosen.append(best)
        missing = _left(missing, [best])
    return chosen


def _distance(missing: Amounts, candidate: _Candidate) -> float:
    """Return the gap that is left after ending the candidate: the sum over resources of the open share of the gap,
    squared."""
    left = _left(missing, [candidate])
    return sum((amount / missing[name]) ** 2 for name, amount in left.items())
