"""RestartAllContainers: one container's exit makes the whole pod start over in its sandbox.

Nothing has to be remembered for it. The exited container whose rule matched (the source) stays in the runtime until
every other container was taken away and its crash back-off is over, and goes last; so an agent that is killed half-way
finds the source again and goes on. When the source is gone nothing has a status, and the ordinary rules start from the
first init container.
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


def sources(pod: Pod, observed: PodObservation) -> frozenset[str]:
    """Names of the containers whose newest exit asks for a restart of all."""
    found = set()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        status = observed.latest(container.name)
        exited = status is not None and status.state is ContainerState.EXITED
        if exited and status and rule_action(container, status.exit_code) == RESTART_ALL:
            found.add(container.name)
    return frozenset(found)


def plan_resets(pod: Pod, observed: PodObservation, source_names: frozenset[str]) -> tuple[Reset, ...]:
    """Every container to take away: regular ones, init ones, then the sources in the same order."""

    def of(containers: Iterable[Container], *, are_sources: bool) -> list[Reset]:
        return [
            Reset(status, kill=status.state in _MAY_RUN, is_cause=are_sources)
            for container in containers
            if (container.name in source_names) is are_sources
            for status in reversed(observed.history(container.name))
        ]

    regular, init = pod.spec.containers, pod.spec.init_containers
    targets = of(regular, are_sources=False) + of(init, are_sources=False)
    return tuple(targets + of(regular, are_sources=True) + of(init, are_sources=True))
