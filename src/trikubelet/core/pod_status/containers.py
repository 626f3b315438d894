"""Container statuses: the state of each container, its last state, and why it waits.

The newest container of a name is its state, the newest ended one before it its last state. A container that ended and
will be started again shows as waiting with the reason that its worker recorded (``CrashLoopBackOff``,
``ImagePullBackOff``, …); without one it still shows its end. Observations are kept when the runtime loses a container:
one that had ended keeps its end, and one that ran when last observed has an unobserved end: exit 137,
``ContainerStatusUnknown``; or ``RestartingAllContainers``, if the agent removed it to start over. A new agent has
observed nothing, and API servers keep no status of a static pod. Then an init container without a record has ended well
if a regular container was created after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from trikubelet.core.actions.records import Verdicts
from trikubelet.core.actions.restart_all import causes
from trikubelet.core.containers.mounts import is_read_only_below
from trikubelet.core.names import all_containers, as_container
from trikubelet.core.pod_status.amounts import given
from trikubelet.core.resize.amounts import canonical
from trikubelet.core.restarts import (
    BACKS_OFF,
    RESTART_ALL,
    allows_restart,
    init_exit_code,
    is_sidecar,
    rule_action,
    should_restart,
)
from trikubelet.core.timestamps import rfc3339
from trikubelet.model import k8s
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.core.resize.allocation import Made
    from trikubelet.model.runtime import ContainerStatus, PodObservation, User

NOT_FOUND_MESSAGE = "The container could not be located when the pod was terminated"
NOT_FOUND_EXIT_CODE = 137
RESTARTING_ALL = "RestartingAllContainers"
INIT_DONE_MESSAGE = (
    "Unable to get init container status from container runtime and pod has been initialized, "
    "treat it as exited normally"
)
RESET_MESSAGE = "The container is removed because RestartAllContainers in place"


class ContainerFacts(Frozen):
    """The facts for statuses besides spec and observation. ``waiting``: reason and message by container name;
    ``messages``: termination messages by container id; ``verdicts``: the probes'; ``recursive_read_only``: the pod's
    runtime handler supports such mounts; ``is_over``: nothing of the pod is created again, as follows from its phase,
    which follows from the statuses; ``devices``: the health of regular containers' devices, by container name;
    ``previous``: the statuses last computed, ``made``: the recorded amounts that
    containers were created with, and ``attempts``: the numbers from which containers of this life count on, by
    container name."""

    runtime_name: str = "containerd"
    waiting: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    verdicts: Verdicts = field(default_factory=Verdicts)
    recursive_read_only: bool = False
    is_over: bool = False
    devices: Mapping[str, tuple[k8s.ResourceStatus, ...]] = field(default_factory=dict)
    previous: Mapping[str, k8s.ContainerStatus] = field(default_factory=dict)
    made: Mapping[str, Made] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)


def container_statuses(
    pod: k8s.Pod, containers: Iterable[k8s.Container], observed: PodObservation, facts: ContainerFacts, *, init: bool
) -> tuple[k8s.ContainerStatus, ...]:
    """Return the statuses of regular containers by name or, with ``init``, of init containers in the spec's order, like
    upstream."""
    default = _waits_by_default(pod)
    resetting = bool(causes(pod, observed)) or _was_reset(pod, observed, facts)
    is_initialized = init and not resetting and _was_initialized(pod, observed)
    found = tuple(
        _with_mounts(
            container.volume_mounts,
            _seen(pod, container, observed, facts, init=init, default=default)
            if observed.latest(container.name) is not None
            else _gone_init(container, facts)
            if is_initialized and _must_have_ended(container, facts)
            else _unseen(pod, container, facts, default, resetting=resetting),
            facts,
        )
        for container in containers
    )
    return found if init else _by_name(_with_devices(status, facts) for status in found)


def _with_devices(status: k8s.ContainerStatus, facts: ContainerFacts) -> k8s.ContainerStatus:
    """Return the status with the health of its devices. A pod that has ended keeps what was shown last, because its
    devices may have become another pod's."""
    shown = facts.devices.get(status.name, ())
    if not shown and facts.is_over and (previous := facts.previous.get(status.name)) is not None:
        shown = previous.allocated_resources_status
    return msgspec.structs.replace(status, allocated_resources_status=shown)


def _by_name(statuses: Iterable[k8s.ContainerStatus]) -> tuple[k8s.ContainerStatus, ...]:
    return tuple(sorted(statuses, key=lambda status: status.name))


def _with_mounts(
    asked: Iterable[k8s.VolumeMount], status: k8s.ContainerStatus, facts: ContainerFacts
) -> k8s.ContainerStatus:
    """Return the status with its mounts: for read-only ones, if they are recursively so."""
    shown = []
    for mount in asked:
        below = "Enabled" if is_read_only_below(mount, able=facts.recursive_read_only) else "Disabled"
        read_only = mount.read_only or None
        shown.append(
            k8s.VolumeMountStatus(
                name=mount.name,
                mount_path=mount.mount_path,
                read_only=read_only,
                recursive_read_only=below if read_only else "",
            )
        )
    return msgspec.structs.replace(status, volume_mounts=tuple(shown))


def ephemeral_statuses(
    pod: k8s.Pod, observed: PodObservation, facts: ContainerFacts
) -> tuple[k8s.ContainerStatus, ...]:
    """Return the statuses of ephemeral containers, by name."""
    found = []
    for container in pod.spec.ephemeral_containers:
        history, made = observed.history(container.name), as_container(container)
        if history:
            status = _assemble(made, history[0], _state(history[0], facts), None, facts, started=None, ready=False)
        elif (before := facts.previous.get(container.name)) is not None and _has_run(before):
            status = before if _is_over(before) else _lost(before)  # its only run was removed from the runtime
        else:
            status = _absent(made, facts, _waits_by_default(pod), 0, None)
        found.append(_with_mounts(container.volume_mounts, status, facts))
    return _by_name(found)


def _has_run(status: k8s.ContainerStatus) -> bool:
    return _is_over(status) or (status.state is not None and status.state.running is not None)


def _lost(running: k8s.ContainerStatus) -> k8s.ContainerStatus:
    """Return the status of a container that ran when last observed and that the runtime no longer has."""
    return msgspec.structs.replace(
        running, ready=False, state=k8s.ContainerState(terminated=_end_of(running, "ContainerStatusUnknown"))
    )


def _end_of(
    running: k8s.ContainerStatus, reason: str, message: str = NOT_FOUND_MESSAGE
) -> k8s.ContainerStateTerminated:
    """Return the container's end, as far as it is known."""
    assert running.state is not None
    assert running.state.running is not None
    return k8s.ContainerStateTerminated(
        exit_code=NOT_FOUND_EXIT_CODE,
        reason=reason,
        message=message,
        started_at=running.state.running.started_at,
        container_id=running.container_id,
    )


def _is_over(status: k8s.ContainerStatus) -> bool:
    return status.state is not None and status.state.terminated is not None


def _waits_by_default(pod: k8s.Pod) -> str:
    """Return why a container waits if nothing more is known: in a pod with init containers all wait for initialisation,
    as upstream's conformance test of init containers requires."""
    return "PodInitializing" if pod.spec.init_containers else "ContainerCreating"


def _was_reset(pod: k8s.Pod, observed: PodObservation, facts: ContainerFacts) -> bool:
    """True if the container whose exit restarts all was removed since the last status; it is removed last."""
    for container in all_containers(pod):
        ended = _end_shown(facts.previous.get(container.name))
        asked = ended is not None and rule_action(container, ended.exit_code) == RESTART_ALL
        if asked and observed.latest(container.name) is None:
            return True
    return False


def _end_shown(previous: k8s.ContainerStatus | None) -> k8s.ContainerStateTerminated | None:
    """Return the container's end in its last status, even if it was backing off then; None if it had not ended."""
    state = previous.state if previous is not None else None
    if previous is not None and state is not None and state.waiting is not None and previous.last_state is not None:
        return previous.last_state.terminated if state.waiting.reason in BACKS_OFF else None
    return state.terminated if state is not None else None


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
    done_init = init and not is_sidecar(container) and _has_succeeded(newest)
    if newest.state is ContainerState.CREATED:
        state = _waiting(facts, container.name, default)
    elif (_waits(pod, container, newest, facts) and not done_init) or _is_replaced(pod, container, newest, facts):
        last, state = state, _waiting(facts, container.name, default)
    started, ready = _serves(container, newest, facts, init=init)
    return _assemble(container, newest, state, last, facts, started=started, ready=ready)


def _has_succeeded(init_container: ContainerStatus) -> bool:
    code = init_exit_code(init_container.exit_code, init_container.reason)
    return init_container.state is ContainerState.EXITED and code == 0


def _waits(pod: k8s.Pod, container: k8s.Container, newest: ContainerStatus, facts: ContainerFacts) -> bool:
    """True if the container ended, is to run again, and the reason of its wait is known."""
    ended = newest.state is ContainerState.EXITED
    return ended and container.name in facts.waiting and should_restart(pod, container, newest)


def _is_replaced(pod: k8s.Pod, container: k8s.Container, newest: ContainerStatus, facts: ContainerFacts) -> bool:
    """True if the runtime has lost track of the container and its policy forbids another run. Like upstream, it is
    still stopped and recreated while its pod goes on, so it is not shown as ended: API servers reject a status in which
    such a container comes back."""
    goes_on = not facts.is_over and not pod.metadata.deletion_timestamp
    is_lost = newest.state is ContainerState.UNKNOWN
    return is_lost and goes_on and not allows_restart(pod, container, NOT_FOUND_EXIT_CODE)


def _end_before(newest: ContainerStatus, facts: ContainerFacts) -> k8s.ContainerState | None:
    """Return the end, as last shown, of a container before this one that the runtime no longer has."""
    previous = facts.previous.get(newest.name)
    if previous is None:
        return None
    another = previous.container_id != _full_id(newest.id, facts)
    if another and previous.state is not None and previous.state.terminated is not None:
        return previous.state
    return previous.last_state


def _serves(
    container: k8s.Container, newest: ContainerStatus, facts: ContainerFacts, *, init: bool
) -> tuple[bool, bool]:
    """Return if the container has started, and if it is ready."""
    if newest.state is not ContainerState.RUNNING:
        return False, init and not is_sidecar(container) and _has_succeeded(newest)
    serves = not init or is_sidecar(container)
    ready = serves and facts.verdicts.is_ready(container, newest.id)
    return facts.verdicts.is_started(container, newest.id), ready


def _unseen(
    pod: k8s.Pod, container: k8s.Container, facts: ContainerFacts, default: str, *, resetting: bool
) -> k8s.ContainerStatus:
    """Return the status of a container that the runtime does not have: not created yet, removed by the agent, or
    lost."""
    previous = facts.previous.get(container.name)
    if previous is None or previous.state is None:
        before = facts.attempts.get(container.name, 0)
        return _absent(container, facts, default, before, previous.last_state if previous else None)
    ended = previous.state.terminated
    if previous.state.running is not None:
        # A pod that is being deleted does not start it again; all others do.
        restarts = previous.restart_count + (not pod.metadata.deletion_timestamp)
        reason, why = (RESTARTING_ALL, RESET_MESSAGE) if resetting else ("ContainerStatusUnknown", NOT_FOUND_MESSAGE)
        lost = _end_of(previous, reason, why)
        shown = RESTARTING_ALL if resetting else default
        return _absent(container, facts, shown, restarts, k8s.ContainerState(terminated=lost))
    if ended is None:
        # Also while the cause of the restart backs off, and for longer than one status.
        shown = RESTARTING_ALL if resetting else default
        return _absent(container, facts, shown, previous.restart_count, previous.last_state)
    if resetting:
        return _absent(container, facts, RESTARTING_ALL, previous.restart_count, previous.state)
    if container.name in facts.waiting and allows_restart(pod, container, ended.exit_code):
        return _absent(container, facts, default, previous.restart_count, previous.state)
    return msgspec.structs.replace(previous, started=False)


def _was_initialized(pod: k8s.Pod, observed: PodObservation) -> bool:
    """True if a regular container was created after all init containers. An ended one proves that only for the newest
    sandbox: in the next one they run again."""
    newest = {"", *(sandbox.id for sandbox in observed.sandboxes[:1])}  # "": the runtime reported no sandbox
    made = [found for one in pod.spec.containers if (found := observed.latest(one.name)) is not None]
    return any(
        one.state in (ContainerState.CREATED, ContainerState.RUNNING)
        or (one.state is ContainerState.EXITED and one.sandbox_id in newest)
        for one in made
    )


def _must_have_ended(init_container: k8s.Container, facts: ContainerFacts) -> bool:
    """True if an init container that the runtime no longer has must have ended well, because its pod is initialized: no
    other end was observed, and it is not waiting for anything."""
    previous = facts.previous.get(init_container.name)
    has_end = previous is not None and _is_over(previous)
    return not is_sidecar(init_container) and not has_end and init_container.name not in facts.waiting


def _gone_init(init_container: k8s.Container, facts: ContainerFacts) -> k8s.ContainerStatus:
    """Return the status of an init container that must have ended, like upstream's."""
    previous = facts.previous.get(init_container.name)
    restarts, last = (previous.restart_count, previous.last_state) if previous is not None else (0, None)
    ended = k8s.ContainerStateTerminated(exit_code=0, reason="Completed", message=INIT_DONE_MESSAGE)
    status = _absent(init_container, facts, "", restarts, last)
    return msgspec.structs.replace(status, ready=True, state=k8s.ContainerState(terminated=ended))


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
    container: k8s.Container,
    newest: ContainerStatus,
    state: k8s.ContainerState,
    last: k8s.ContainerState | None,
    facts: ContainerFacts,
    *,
    started: bool | None,
    ready: bool,
) -> k8s.ContainerStatus:
    shown = facts.previous.get(container.name)
    id_ = _full_id(newest.id, facts)
    noted = facts.made.get(container.name)
    made = noted.amounts if noted is not None and noted.attempt == newest.attempt else None
    resources = given(container, newest, made, shown if shown is not None and shown.container_id == id_ else None)
    return k8s.ContainerStatus(
        name=container.name,
        image=newest.image or container.image,
        image_id=newest.image_ref or newest.image_id,
        container_id=id_,
        ready=ready,
        started=started,
        # The count never decreases, even if the newest container was removed by another client.
        restart_count=max(newest.attempt, shown.restart_count if shown else 0),
        state=state,
        last_state=last,
        resources=resources,
        allocated_resources=canonical(container.resources).requests,
        user=_user(newest.user),
    )


def _user(user: User | None) -> k8s.ContainerUser | None:
    if user is None:
        return None
    return k8s.ContainerUser(linux=k8s.LinuxContainerUser(uid=user.uid, gid=user.gid, supplemental_groups=user.groups))


def _full_id(container_id: str, facts: ContainerFacts) -> str:
    return f"{facts.runtime_name}://{container_id}"


def _waiting(facts: ContainerFacts, name: str, default: str) -> k8s.ContainerState:
    reason, message = facts.waiting.get(name, (default, ""))
    return k8s.ContainerState(waiting=k8s.ContainerStateWaiting(reason=reason, message=message))


def _state(status: ContainerStatus, facts: ContainerFacts) -> k8s.ContainerState:
    """Return one runtime record as the API's state."""
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
