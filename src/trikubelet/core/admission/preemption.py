"""Whom the node ends so that a pod it must run finds room (upstream: pkg/kubelet/preemption).

Only a critical pod may have that, and only a shortage can be helped so. What was promised the least goes first: pods
that asked for nothing, then those that asked for something, guaranteed ones last; a class is touched only as far as
ending all of the lower ones would not do. Within a class the pods that fill the gaps best are taken until none is
left. Pure: ``pods/evaluation.py`` has them ended.
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
    """The pods to end for the one that lacks what is ``short``, the least promised first; None where ending all that
    may be ended would not do."""
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
    """Whether the one may end the other: it alone is critical, or both say how important they are, and it is more."""
    if is_critical(pod) and not is_critical(other):
        return True
    mine, theirs = pod.spec.priority, other.spec.priority
    return mine is not None and theirs is not None and mine > theirs


def _left(missing: Mapping[str, int], ended: Iterable[_Candidate]) -> Amounts:
    """What is still missing once these have ended."""
    left = dict(missing)
    for _, amounts in ended:
        for name in left:
            left[name] -= amounts.get(name, 0)
    return {name: amount for name, amount in left.items() if amount > 0}


def _few(candidates: Sequence[_Candidate], missing: Amounts) -> list[_Candidate]:
    """Candidates that free what is missing, which all of them together do: each time the one that leaves least to
    want, and of equals the one with the smaller requests."""
    rest, chosen = list(candidates), []
    while missing:
        best = min(rest, key=lambda one: (_distance(missing, one), one[1].get("memory", 0), one[1].get("cpu", 0)))
        rest.remove(best)
        chosen.append(best)
        missing = _left(missing, [best])
    return chosen


def _distance(missing: Amounts, candidate: _Candidate) -> float:
    """How far from enough ending the candidate would leave it: per resource, the share of the gap that stays open,
    squared."""
    left = _left(missing, [candidate])
    return sum((amount / missing[name]) ** 2 for name, amount in left.items())
