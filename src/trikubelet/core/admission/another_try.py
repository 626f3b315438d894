"""Another try: chooses the rejected pods that may begin after all, and which of them are evaluated next.

A rejection is permanent for a pod of the API server, because its controller makes another one. A static pod has no
controller: without another try it would be down until an operator edits its file. So the node evaluates it again
(``node.housekeeping``), and it begins a new life once the missing resource is free. In any order of events a pod is
rejected at most once in each life, and a life begins only when the node has room for the pod, so it cannot loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.core.admission import Admitted
from trikubelet.core.lifecycle import Finished, StopReason
from trikubelet.core.names import is_static

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.admission import Rejection
    from trikubelet.core.lifecycle import State
    from trikubelet.model.k8s import Pod

EVALUATED_IN_ONE_PASS_MAX: Final = 16
"""A directory may hold a thousand manifests that the node has no room for, and each is compared with all pods."""


def awaits_another_try(pod: Pod, state: State) -> bool:
    """True for a static pod that was rejected, is still wanted, and has ended."""
    match state:
        case Finished(reason=StopReason.REJECTED, deleted=False):
            return is_static(pod)
        case _:
            return False


def begins_now(verdict: Admitted | Rejection) -> bool:
    """True if the node has what the pod lacked. No pod is preempted for another try: pods placed since then have as
    good a right to their resources."""
    return isinstance(verdict, Admitted) and not verdict.preempts


class Pass(NamedTuple):
    """The pods to evaluate now, and the UIDs of those evaluated in this round, including these."""

    due: Sequence[Pod]
    evaluated: frozenset[str]


def next_pass(awaiting: Sequence[Pod], evaluated: frozenset[str]) -> Pass:
    """Return the next pods of ``awaiting``, which are all that may begin after all: those of the highest priority that
    were not ``evaluated`` in this round. After all of them, a new round begins."""
    left = [pod for pod in awaiting if pod.metadata.uid not in evaluated]
    if not left:
        left, evaluated = [*awaiting], frozenset()
    left.sort(key=lambda pod: -(pod.spec.priority or 0))
    due = left[:EVALUATED_IN_ONE_PASS_MAX]
    there = {pod.metadata.uid for pod in awaiting}
    return Pass(due, (evaluated & there).union(pod.metadata.uid for pod in due))
