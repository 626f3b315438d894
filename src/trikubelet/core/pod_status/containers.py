"""Container statuses: what each container is doing, what it did last, and why it waits.

The newest container of a name is its state, the newest ended one before it its last state. A container that ended and
will be started again shows as waiting with the reason its worker noted (``CrashLoopBackOff``, ``ImagePullBackOff``, …);
without a note it still shows how it ended. What was seen once is not forgotten when the runtime forgets it: one that
had ended keeps its end, and one that ran when last seen and is gone now ended in a way nobody saw: exit 137,
``ContainerStatusUnknown``; or ``RestartingAllContainers``, where we took it away ourselves to begin anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.actions.restart_all import sources
from trikubelet.core.names import all_containers
from trikubelet.core.restarts import RESTART_ALL, allows_restart, is_sidecar, rule_action, should_restart
from trikubelet.core.timestamps import rfc3339
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from trikubelet.model.runtime import ContainerStatus, PodObservation

NOT_FOUND_MESSAGE = "The container could not be located when the pod was terminated"
NOT_FOUND_EXIT_CODE = 137
RESTARTING_ALL = "RestartingAllContainers"
RESET_MESSAGE = "The container was stopped because all containers of its pod are started anew"


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
    resetting = bool(sources(pod, observed)) or _was_reset(pod, observed, facts)
    return tuple(
        _seen(pod, container, observed, facts, init=init, default=default)
        if observed.latest(container.name) is not None
        else _unseen(pod, container, facts, default, resetting=resetting)
        for container in containers
    )


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


def _was_reset(pod: k8s.Pod, observed: PodObservation, facts: ContainerFacts) -> bool:
    """Whether the container that asked for a restart of all was taken away since we last looked: it goes last."""
    for container in all_containers(pod):
        previous = facts.previous.get(container.name)
        ended = previous.state.terminated if previous is not None and previous.state is not None else None
        asked = ended is not None and rule_action(container, ended.exit_code) == RESTART_ALL
        if asked and observed.latest(container.name) is None:
            return True
    return False


def _seen(
    pod: k8s.Pod,
    container: k8s.Container,
    observed: PodObservation,
    facts: ContainerFacts,
    *,
    init: bool,
    default: str,
) -> k8s.ContainerStatus:
    history = observed.history(container.name)
    newest = history[0]
    ended = next((_state(status, facts) for status in history[1:] if status.state is ContainerState.EXITED), None)
    last = ended or _end_before(newest, facts)
    state = _state(newest, facts)
    done_init = init and not is_sidecar(container) and newest.state is ContainerState.EXITED and newest.exit_code == 0
    if newest.state is ContainerState.CREATED:
        state = _waiting(facts, container.name, default)
    elif _waits(pod, container, newest, facts) and not done_init:
        last, state = state, _waiting(facts, container.name, default)
    ready = _is_ready(container, newest, facts, init=init)
    return _assemble(container.name, container.image, history, state, last, facts, ready=ready)


def _waits(pod: k8s.Pod, container: k8s.Container, newest: ContainerStatus, facts: ContainerFacts) -> bool:
    """Whether the container ended and is to run again, and it is known what that waits for."""
    ended = newest.state is ContainerState.EXITED
    return ended and container.name in facts.waiting and should_restart(pod, container, newest)


def _end_before(newest: ContainerStatus, facts: ContainerFacts) -> k8s.ContainerState | None:
    """The end before this container of which the runtime has nothing any more, as it was last shown."""
    previous = facts.previous.get(newest.name)
    if previous is None:
        return None
    another = previous.container_id != _full_id(newest.id, facts)
    if another and previous.state is not None and previous.state.terminated is not None:
        return previous.state
    return previous.last_state


def _is_ready(container: k8s.Container, newest: ContainerStatus, facts: ContainerFacts, *, init: bool) -> bool:
    if newest.state is ContainerState.RUNNING:
        serves = not init or is_sidecar(container)
        return serves and facts.is_started(newest.id) and facts.is_ready(newest.id)
    return init and not is_sidecar(container) and newest.state is ContainerState.EXITED and newest.exit_code == 0


def _unseen(
    pod: k8s.Pod, container: k8s.Container, facts: ContainerFacts, default: str, *, resetting: bool
) -> k8s.ContainerStatus:
    """A container the runtime has nothing of: not made yet, taken away by us, or gone behind our back."""
    previous = facts.previous.get(container.name)
    if previous is None or previous.state is None:
        return _absent(container, facts, default, 0, previous.last_state if previous else None)
    ended = previous.state.terminated
    if previous.state.running is not None:
        # A pod that is being deleted does not start it again; any other does.
        restarts = previous.restart_count + (not pod.metadata.deletion_timestamp)
        reason, why = (RESTARTING_ALL, RESET_MESSAGE) if resetting else ("ContainerStatusUnknown", NOT_FOUND_MESSAGE)
        lost = k8s.ContainerStateTerminated(
            exit_code=NOT_FOUND_EXIT_CODE,
            reason=reason,
            message=why,
            started_at=previous.state.running.started_at,
            container_id=previous.container_id,
        )
        shown = RESTARTING_ALL if resetting else default
        return _absent(container, facts, shown, restarts, k8s.ContainerState(terminated=lost))
    if ended is None:
        return _absent(container, facts, default, previous.restart_count, previous.last_state)
    if resetting:
        return _absent(container, facts, RESTARTING_ALL, previous.restart_count, previous.state)
    if container.name in facts.waiting and allows_restart(pod, container, ended.exit_code):
        return _absent(container, facts, default, previous.restart_count, previous.state)
    return msgspec.structs.replace(previous, started=False)


def _absent(
    container: k8s.Container,
    facts: ContainerFacts,
    default: str,
    restarts: int,
    last: k8s.ContainerState | None,
) -> k8s.ContainerStatus:
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
    shown = facts.previous.get(name)
    # The count never goes back, though the newest container may have been removed behind our back.
    restarts = max(newest.attempt if newest else 0, shown.restart_count if shown else 0)
    return k8s.ContainerStatus(
        name=name,
        image=newest.image or image if newest else image,
        image_id=(newest.image_ref or newest.image_id) if newest else "",
        container_id=_full_id(newest.id, facts) if newest else "",
        ready=ready,
        started=running and newest is not None and facts.is_started(newest.id),
        restart_count=restarts,
        state=state,
        last_state=last,
    )


def _full_id(container_id: str, facts: ContainerFacts) -> str:
    return f"{facts.runtime_name}://{container_id}"


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
                    container_id=_full_id(status.id, facts),
                )
            )
        case ContainerState.UNKNOWN:
            return k8s.ContainerState(
                terminated=k8s.ContainerStateTerminated(
                    exit_code=NOT_FOUND_EXIT_CODE,
                    reason="ContainerStatusUnknown",
                    message="The container could not be located when the pod was checked",
                    container_id=_full_id(status.id, facts),
                )
            )
        case ContainerState.CREATED:
            return k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason="ContainerCreating"))
