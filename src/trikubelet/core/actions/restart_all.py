"""RestartAllContainers: one container's exit makes the whole pod start over in its sandbox.

No record is needed for it. The exited container whose rule matched (the cause) stays in the runtime until every other
container was removed and its own crash back-off is over, and is removed last; so after a crash of the agent, the next
one finds the cause again and continues. When the cause is gone nothing has a status, and the ordinary rules start from
the first init container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.actions.records import Reset
from trikubelet.core.restarts import RESTART_ALL, rule_action
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import PodObservation


_MAY_RUN = frozenset({ContainerState.RUNNING, ContainerState.UNKNOWN})


def causes(pod: Pod, observed: PodObservation) -> frozenset[str]:
    """Return the names of the containers whose newest exit triggers a restart of all."""
    found = set()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        status = observed.latest(container.name)
        exited = status is not None and status.state is ContainerState.EXITED
        if exited and status and rule_action(container, status.exit_code) == RESTART_ALL:
            found.add(container.name)
    return frozenset(found)


def plan_resets(pod: Pod, observed: PodObservation, names: frozenset[str]) -> tuple[Reset, ...]:
    """Return every container to remove: regular ones, init ones, then the causes, of those ``names``, in the same
    order."""

    def of(containers: Iterable[Container], *, are_causes: bool) -> list[Reset]:
        return [
            Reset(status, kill=status.state in _MAY_RUN, is_cause=are_causes)
            for container in containers
            if (container.name in names) is are_causes
            for status in reversed(observed.history(container.name))
        ]

    regular, init = pod.spec.containers, pod.spec.init_containers
    targets = of(regular, are_causes=False) + of(init, are_causes=False)
    return tuple(targets + of(regular, are_causes=True) + of(init, are_causes=True))
