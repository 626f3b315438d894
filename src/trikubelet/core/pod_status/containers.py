"""Container statuses: what each container is doing, what it did last, and why it waits.

The newest container of a name is its state, the newest ended one before it its last state. A container that ended and
will be started again shows as waiting with the reason its worker noted (``CrashLoopBackOff``, ``ImagePullBackOff``, …);
without a note it still shows how it ended. One that ran when last seen and is gone from the runtime ended in a way
nobody saw: exit 137, ``ContainerStatusUnknown``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trikubelet.core.restarts import is_sidecar, should_restart
from trikubelet.core.timestamps import rfc3339
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from trikubelet.model.runtime import ContainerStatus, PodObservation

NOT_FOUND_MESSAGE = "The container could not be located when the pod was terminated"
NOT_FOUND_EXIT_CODE = 137


def _always(_container_id: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """What statuses need besides spec and observation. ``waiting`` maps container names to reason and message;
    ``messages`` container ids to what they left as termination message; ``is_started`` and ``is_ready`` answer for
    running containers, from their probes; ``previous`` holds the statuses last computed, by container name."""

    runtime_name: str = "containerd"
    waiting: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    is_started: Callable[[str], bool] = _always
    is_ready: Callable[[str], bool] = _always
    previous: Mapping[str, k8s.ContainerStatus] = field(default_factory=dict)


def container_statuses(
    pod: k8s.Pod, containers: Iterable[k8s.Container], observed: PodObservation, facts: ContainerFacts, *, init: bool
) -> tuple[k8s.ContainerStatus, ...]:
    """The statuses of regular (or, with ``init``, of init) containers, in the spec's order."""
    default = "PodInitializing" if not init and pod.spec.init_containers else "ContainerCreating"
    return tuple(_status(pod, container, observed, facts, init=init, default=default) for container in containers)


def ephemeral_statuses(
    pod: k8s.Pod, observed: PodObservation, facts: ContainerFacts
) -> tuple[k8s.ContainerStatus, ...]:
    """The statuses of ephemeral containers, in the spec's order."""
    found = []
    for container in pod.spec.ephemeral_containers:
        history = observed.history(container.name)
        waiting = _waiting(facts, container.name, "ContainerCreating")
        state = _state(history[0], facts) if history else waiting
        found.append(_assemble(container.name, container.image, history, state, None, facts, ready=False))
    return tuple(found)


def _status(
    pod: k8s.Pod,
    container: k8s.Container,
    observed: PodObservation,
    facts: ContainerFacts,
    *,
    init: bool,
    default: str,
) -> k8s.ContainerStatus:
    history = observed.history(container.name)
    newest = history[0] if history else None
    last = next((_state(status, facts) for status in history[1:] if status.state is ContainerState.EXITED), None)
    if newest is None:
        return _unseen(container, facts, default)
    state = _state(newest, facts)
    done_init = init and not is_sidecar(container) and newest.state is ContainerState.EXITED and newest.exit_code == 0
    if newest.state is not ContainerState.RUNNING and not done_init and should_restart(pod, container, newest):
        noted = facts.waiting.get(container.name)
        if newest.state is ContainerState.EXITED and noted:
            last, state = state, _waiting(facts, container.name, default)
        elif newest.state is ContainerState.CREATED:
            state = _waiting(facts, container.name, default)
    ready = _is_ready(container, newest, facts, init=init)
    return _assemble(container.name, container.image, history, state, last, facts, ready=ready)


def _is_ready(container: k8s.Container, newest: ContainerStatus, facts: ContainerFacts, *, init: bool) -> bool:
    if newest.state is ContainerState.RUNNING:
        serves = not init or is_sidecar(container)
        return serves and facts.is_started(newest.id) and facts.is_ready(newest.id)
    return init and not is_sidecar(container) and newest.state is ContainerState.EXITED and newest.exit_code == 0


def _unseen(container: k8s.Container, facts: ContainerFacts, default: str) -> k8s.ContainerStatus:
    """A container the runtime has nothing of: not made yet, or gone behind our back."""
    previous = facts.previous.get(container.name)
    restarts, last = 0, None
    if previous is not None:
        restarts, last = previous.restart_count, previous.last_state
        if previous.state is not None and previous.state.running is not None:
            restarts += 1
            last = k8s.ContainerState(
                terminated=k8s.ContainerStateTerminated(
                    exit_code=NOT_FOUND_EXIT_CODE, reason="ContainerStatusUnknown", message=NOT_FOUND_MESSAGE
                )
            )
        elif previous.state is not None and previous.state.terminated is not None:
            last = previous.state
    return k8s.ContainerStatus(
        name=container.name,
        image=container.image,
        image_id="",
        ready=False,
        started=False,
        restart_count=restarts,
        state=_waiting(facts, container.name, default),
        last_state=last,
    )


def _assemble(
    name: str,
    image: str,
    history: tuple[ContainerStatus, ...],
    state: k8s.ContainerState,
    last: k8s.ContainerState | None,
    facts: ContainerFacts,
    *,
    ready: bool,
) -> k8s.ContainerStatus:
    newest = history[0] if history else None
    running = newest is not None and newest.state is ContainerState.RUNNING
    return k8s.ContainerStatus(
        name=name,
        image=newest.image or image if newest else image,
        image_id=(newest.image_ref or newest.image_id) if newest else "",
        container_id=f"{facts.runtime_name}://{newest.id}" if newest else "",
        ready=ready,
        started=running and newest is not None and facts.is_started(newest.id),
        restart_count=newest.attempt if newest else 0,
        state=state,
        last_state=last,
    )


def _waiting(facts: ContainerFacts, name: str, default: str) -> k8s.ContainerState:
    reason, message = facts.waiting.get(name, (default, ""))
    return k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason=reason, message=message))


def _state(status: ContainerStatus, facts: ContainerFacts) -> k8s.ContainerState:
    """One runtime record as the API shows it."""
    match status.state:
        case ContainerState.RUNNING:
            return k8s.ContainerState(running=k8s.ContainerStateRunning(started_at=rfc3339(status.started_at)))
        case ContainerState.EXITED:
            return k8s.ContainerState(
                terminated=k8s.ContainerStateTerminated(
                    exit_code=status.exit_code,
                    reason=status.reason or ("Completed" if status.exit_code == 0 else "Error"),
                    message=facts.messages.get(status.id, "") or status.message,
                    started_at=rfc3339(status.started_at),
                    finished_at=rfc3339(status.finished_at),
                    container_id=f"{facts.runtime_name}://{status.id}",
                )
            )
        case ContainerState.UNKNOWN:
            return k8s.ContainerState(
                terminated=k8s.ContainerStateTerminated(
                    exit_code=NOT_FOUND_EXIT_CODE,
                    reason="ContainerStatusUnknown",
                    message="The container could not be located when the pod was checked",
                    container_id=f"{facts.runtime_name}://{status.id}",
                )
            )
        case ContainerState.CREATED:
            return k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason="ContainerCreating"))
