"""The pod's conditions, from its phase and container statuses, with upstream's reasons and messages.

The agent alone writes some conditions (``OWNED``). ``DisruptionTarget`` is shared: others set it, and the agent does
when it ends a pod. All others belong to other components and are only read, for readiness gates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.actions.restart_all import causes
from trikubelet.core.actions.sandbox import sandbox_need
from trikubelet.core.names import all_containers
from trikubelet.core.pod_status.phase import FAILED, SUCCEEDED
from trikubelet.core.pod_status.resizing import IN_PROGRESS, PENDING, ResizeFacts, resize_conditions
from trikubelet.core.restarts import RESTART_ALL, is_sidecar
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trikubelet.model.runtime import PodObservation

OWNED = frozenset(
    {
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
        "AllContainersRestarting",
        IN_PROGRESS,
        PENDING,
    }
)
DISRUPTION_TARGET = "DisruptionTarget"
SHARED = frozenset({DISRUPTION_TARGET})


def conditions(
    pod: k8s.Pod,
    statuses: Mapping[str, k8s.ContainerStatus],
    phase: str,
    observed: PodObservation,
    before: Iterable[k8s.PodCondition],
    now: str,
    resize: ResizeFacts | None = None,
) -> tuple[k8s.PodCondition, ...]:
    """Return the agent's conditions, then those of others unchanged. A condition whose status did not change keeps its
    transition time."""
    earlier = {condition.type: condition for condition in before}
    generation = pod.metadata.generation
    containers_ready = _containers_ready(pod, statuses, phase)
    found = [
        _ready_to_start(pod, observed),
        _initialized(pod, statuses, phase),
        _ready(pod, containers_ready, earlier),
        containers_ready,
        ("PodScheduled", True, "", ""),
    ]
    mine = [_condition(*finding, earlier, generation, now) for finding in found]
    # Like upstream, this one has no generation: it is about containers, independent of the present spec.
    mine += [_condition(*finding, earlier, None, now) for finding in _restarting(pod, observed, phase)]
    if phase not in _WHEN_ENDED:
        resizing = resize_conditions(pod, observed, resize or ResizeFacts(), earlier)
        first = [_condition(type_, True, reason, why, earlier, of or None, now) for type_, reason, why, of in resizing]
        mine = first + mine
    foreign = [condition for type_, condition in earlier.items() if type_ not in OWNED]
    return tuple(mine + foreign)


def known_conditions(pod: k8s.Pod, shown: k8s.PodStatus | None) -> tuple[k8s.PodCondition, ...]:
    """Return the agent's own conditions as last shown, and those of others as the API server last had them."""
    if shown is None:
        return pod.status.conditions if pod.status is not None else ()
    if pod.status is None:
        return shown.conditions
    foreign = tuple(condition for condition in pod.status.conditions if condition.type not in OWNED)
    types = {condition.type for condition in foreign}
    mine = (c for c in shown.conditions if c.type in OWNED or (c.type in SHARED and c.type not in types))
    return (*mine, *foreign)


def of_serving(
    pod: k8s.Pod, statuses: Mapping[str, k8s.ContainerStatus], phase: str, before: Sequence[k8s.PodCondition], now: str
) -> tuple[k8s.PodCondition, ...]:
    """Return the conditions ``before``, with those updated that depend on which containers have started and are
    ready."""
    earlier = {condition.type: condition for condition in before}
    generation = pod.metadata.generation
    containers_ready = _containers_ready(pod, statuses, phase)
    found = [_initialized(pod, statuses, phase), _ready(pod, containers_ready, earlier), containers_ready]
    renewed = {finding[0]: _condition(*finding, earlier, generation, now) for finding in found}
    return tuple(renewed.get(condition.type, condition) for condition in before)


def readiness_gates_differ(pod: k8s.Pod) -> bool:
    """True if the pod's readiness at the server does not match its readiness gates, because another component wrote a
    condition. The agent's own writes return as changes too, and change nothing."""
    if not pod.spec.readiness_gates:
        return False
    shown = {condition.type: condition for condition in (pod.status or k8s.PodStatus()).conditions}
    containers, ready = shown.get("ContainersReady"), shown.get("Ready")
    if containers is None or ready is None:
        return True
    found = ("ContainersReady", containers.status == "True", containers.reason, containers.message)
    _, ok, reason, message = _ready(pod, found, shown)
    return (ready.status == "True", ready.reason, ready.message) != (ok, reason, message)


Finding = tuple[str, bool, str, str]
_WHEN_ENDED = {SUCCEEDED: "PodCompleted", FAILED: "PodFailed"}


def _condition(
    type_: str,
    ok: bool,
    reason: str,
    message: str,
    earlier: Mapping[str, k8s.PodCondition],
    generation: int | None,
    now: str,
) -> k8s.PodCondition:
    status = "True" if ok else "False"
    held = earlier.get(type_)
    since = held.last_transition_time if held is not None and held.status == status else now
    return k8s.PodCondition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=since,
        observed_generation=generation,
    )


def _ready_to_start(pod: k8s.Pod, observed: PodObservation) -> Finding:
    """Find if there is a sandbox in which containers can be started: one that would not be recreated."""
    need = sandbox_need(pod, observed)
    return ("PodReadyToStartContainers", not need.recreate, "PodSandboxNotReady" if need.recreate else "", need.why)


def _restarting(pod: k8s.Pod, observed: PodObservation, phase: str) -> tuple[Finding, ...]:
    """Find if all containers restart; only for pods with a rule for it. True until the last old container is
    removed."""
    type_ = "AllContainersRestarting"
    if not any(rule.action == RESTART_ALL for c in all_containers(pod) for rule in c.restart_policy_rules):
        return ()
    if phase in _WHEN_ENDED:
        return ((type_, False, _WHEN_ENDED[phase], ""),)
    names = causes(pod, observed)
    if not names:
        return ((type_, False, "", ""),)
    message = f"containers whose exit restarts all containers: [{' '.join(sorted(names))}]"
    return ((type_, True, "RestartAllContainersStarted", message),)


def _initialized(pod: k8s.Pod, statuses: Mapping[str, k8s.ContainerStatus], phase: str) -> Finding:
    init = pod.spec.init_containers
    if init and not statuses:
        return ("Initialized", False, "UnknownContainerStatuses", "")
    unknown = [c.name for c in init if c.name not in statuses]
    incomplete = [c.name for c in init if c.name in statuses and not _is_initialized(c, statuses[c.name])]
    if phase == SUCCEEDED and not unknown:
        return ("Initialized", True, "PodCompleted", "")
    if unknown or incomplete:
        regular = {c.name for c in pod.spec.containers}
        if any(_was_created(s) for name, s in statuses.items() if name in regular):
            return ("Initialized", True, "", "")  # a regular container was created, so initialisation was complete
        return ("Initialized", False, "ContainersNotInitialized", _listing("incomplete", incomplete, unknown))
    return ("Initialized", True, "", "")


def _was_created(status: k8s.ContainerStatus) -> bool:
    return bool(status.container_id) or bool(status.last_state and status.last_state.terminated)


def _is_initialized(container: k8s.Container, status: k8s.ContainerStatus) -> bool:
    return bool(status.started) if is_sidecar(container) else status.ready


def _containers_ready(pod: k8s.Pod, statuses: Mapping[str, k8s.ContainerStatus], phase: str) -> Finding:
    sidecars = [c for c in pod.spec.init_containers if is_sidecar(c)]
    serving = [c.name for c in (*sidecars, *pod.spec.containers)]
    if not statuses:
        return ("ContainersReady", False, "UnknownContainerStatuses", "")
    unknown = [name for name in serving if name not in statuses]
    unready = [name for name in serving if name in statuses and not statuses[name].ready]
    if phase == FAILED or (phase == SUCCEEDED and not unknown):
        return ("ContainersReady", False, _WHEN_ENDED[phase], "")
    if unknown or unready:
        return ("ContainersReady", False, "ContainersNotReady", _listing("unready", unready, unknown))
    return ("ContainersReady", True, "", "")


def _ready(pod: k8s.Pod, containers_ready: Finding, earlier: Mapping[str, k8s.PodCondition]) -> Finding:
    _, ok, reason, message = containers_ready
    if not ok:
        return ("Ready", False, reason, message)
    missing = []
    for gate in pod.spec.readiness_gates:
        held = earlier.get(gate.condition_type)
        if held is None:
            missing.append(f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.')
        elif held.status != "True":
            missing.append(f'the status of pod readiness gate "{gate.condition_type}" is not "True", but {held.status}')
    if missing:
        return ("Ready", False, "ReadinessGatesNotReady", ", ".join(missing))
    return ("Ready", True, "", "")


def _listing(what: str, names: list[str], unknown: list[str]) -> str:
    parts = []
    if unknown:
        parts.append(f"containers with unknown status: [{' '.join(unknown)}]")
    if names:
        parts.append(f"containers with {what} status: [{' '.join(names)}]")
    return ", ".join(parts)
