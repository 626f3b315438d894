"""The state that the world must have once nothing disturbs it any more: the oracle of a simulation's final check.

It knows the desired pods and the world and nothing of the agent, and it shares no code with the agent's decisions, so
that a wrong decision is not repeated in the check. Each function returns the first difference, or None.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from trikubelet.core.container_hash import is_made_from
from trikubelet.model.runtime import ContainerState, ContainerStatus, SandboxState
from trikubelet.testing.start_rules import BACKOFF_SECONDS
from trikubelet.testing.starting_over import EXIT_CODE, cause_of

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container, Pod, PodStatus, Probe
    from trikubelet.testing.world import World

RUNNING, EXITED = ContainerState.RUNNING, ContainerState.EXITED
LOST_CODE = 137
STEADY = ("ok", "late", "slow", "odd")
"""Probes that succeed permanently, sooner or later (``testing.health``)."""
ROUND_SECONDS_MAX = max(BACKOFF_SECONDS) + 12.0
"""Seconds from the end of a container that restarts all of its pod to its next start: the longest back-off, the relists
that notice the ends, the init containers, a sidecar's startup probe, a hung call. It is less than a resync takes."""
ROUNDS_MIN = 2
"""How often it must start, once nothing disturbs it, to count as running on."""


def may_run_again(pod: Pod, container: Container, code: int) -> bool:
    """True if a container that ended with ``code`` is started again."""
    if code == EXIT_CODE and container.restart_policy_rules:
        return True
    wish = container.restart_policy or pod.spec.restart_policy
    return wish == "Always" or (wish == "OnFailure" and code != 0)


def newest(world: World, uid: str, name: str) -> ContainerStatus | None:
    """The newest container of that name."""
    found = [c for c in world.all_containers() if world.uids[c.id] == uid and c.name == name]
    return max(found, key=lambda c: c.created_at, default=None)


def is_over(world: World, pod: Pod, *, ambiguous: bool = False) -> bool:
    """True if the pod has terminated by itself: every regular container, or one init container, ended permanently. In
    an ``ambiguous`` one a container that has run and was removed may have done so."""
    for container in pod.spec.init_containers:
        code = _exit_code(newest(world, pod.metadata.uid, container.name))
        if code not in (None, 0) and not may_run_again(pod, container, code or 0):
            return True
    for container in pod.spec.containers:
        status = newest(world, pod.metadata.uid, container.name)
        has_run = (pod.metadata.uid, container.name) in world.runs
        if status is None and ambiguous and has_run and not may_run_again(pod, container, 0):
            continue
        code = _exit_code(status)
        if code is None or may_run_again(pod, container, code):
            return False
    return True


def starts_over(world: World, pod: Pod) -> bool:
    """True if all containers of the pod must be removed now: its cause has ended so, and still exists."""
    cause = cause_of(pod)
    return cause is not None and _exit_code(newest(world, pod.metadata.uid, cause.name)) == EXIT_CODE


def _exit_code(status: ContainerStatus | None) -> int | None:
    """A container's exit code, if it has ended; one the runtime lost track of counts as killed."""
    if status is None or status.state not in (EXITED, ContainerState.UNKNOWN):
        return None
    return status.exit_code if status.state is EXITED else LOST_CODE


def unwanted_left(world: World, wanted: frozenset[str]) -> str | None:
    """Check that no sandbox of an orphan is left."""
    left = sorted({s.uid for s in world.sandboxes.values()} - wanted)
    return f"sandboxes of orphaned pods are left: {', '.join(left)}" if left else None


def unlike(world: World, pod: Pod, calm_at: float, *, ambiguous: bool = False) -> str | None:
    """Return how a desired pod differs from its expected state. An ``ambiguous`` one may have ended; that no container
    runs is correct as well. No problem has occurred since ``calm_at``."""
    uid, name = pod.metadata.uid, pod.metadata.name
    ready = [s for s in world.sandboxes.values() if s.uid == uid and s.state is SandboxState.READY]
    running = world.running_of(uid)
    if pod.metadata.deletion_timestamp or is_over(world, pod):
        if running or ready:
            return f"pod {name} is over, and {len(running)} containers and {len(ready)} sandboxes of it still run"
        return None
    if ambiguous and not running and not ready:
        return None
    if [one.name for one in ready] != [name]:
        return f"pod {name} has {len(ready)} ready sandboxes, of {', '.join(one.name for one in ready) or 'nobody'}"
    if cause_of(pod) is not None:
        return _stands_still(world, pod, calm_at, ambiguous=ambiguous)  # its state at this moment shows nothing
    init = pod.spec.init_containers
    stuck = next((place for place, container in enumerate(init) if _is_tried(world, pod, container)), None)
    regular = pod.spec.containers if stuck is None else ()  # nothing after an init container that fails may run
    for container in (*init[:stuck], *regular):
        status = newest(world, uid, container.name)
        if container in init and container.restart_policy != "Always":
            # The dead container may have been collected, or removed by an operator; the regular ones prove that it ran.
            ran = status is not None or any(newest(world, uid, c.name) for c in regular)
            problem = None if ran else "was never made"
        elif status is None and ambiguous and not may_run_again(pod, container, 0):
            problem = None  # it may have succeeded before it was removed
        else:
            problem = _should_run(pod, container, status)
        if problem:
            return f"container {name}/{container.name} {problem}"
    for ephemeral in pod.spec.ephemeral_containers:  # it may have ended, because it is not restarted
        there = newest(world, uid, ephemeral.name)
        if (there is None or there.state is ContainerState.CREATED) and not ambiguous:
            return f"ephemeral container {name}/{ephemeral.name} was never started"
    return None


def _stands_still(world: World, pod: Pod, calm_at: float, *, ambiguous: bool) -> str | None:
    """Return how a pod whose containers are all restarted again and again does not come to its next round in time."""
    cause = cause_of(pod)
    assert cause is not None
    status = newest(world, pod.metadata.uid, cause.name)
    code = _exit_code(status)
    if code is not None and not may_run_again(pod, cause, code):
        return None  # it was killed, and is not restarted
    if status is None and ambiguous and not may_run_again(pod, cause, 0):
        return None  # so may a removed one have been
    if any(_never_succeeds(container) for container in pod.spec.init_containers):
        return None  # it is not reached
    runs = [run for run in world.runs.get((pod.metadata.uid, cause.name), ()) if run.began_at >= calm_at]
    if len(runs) < ROUNDS_MIN:
        return f"pod {pod.metadata.name} does not start over: {cause.name} was started {len(runs)} times since calm"
    # A removed running container has no recorded end.
    ends = [run.began_at if math.isinf(run.ended_at) else run.ended_at for run in runs[-ROUNDS_MIN:]]
    next_starts = [*(run.began_at for run in runs[1 - ROUNDS_MIN :]), trio.current_time()]
    seconds = max(start - end for end, start in zip(ends, next_starts, strict=True))
    if seconds <= ROUND_SECONDS_MAX:
        return None
    return f"pod {pod.metadata.name} does not start over: {cause.name} waits {seconds:.0f} s for its next start"


def _never_succeeds(container: Container) -> bool:
    """True if the containers after an init container are never started."""
    return container.restart_policy != "Always" and container.command[0] == "exit" and container.command[1] != "0"


def _is_tried(world: World, pod: Pod, container: Container) -> bool:
    """True if an init container runs, or failed and will be retried."""
    status = newest(world, pod.metadata.uid, container.name)
    if status is None or container.restart_policy == "Always":
        return False
    return status.state is RUNNING or (status.state is EXITED and status.exit_code != 0)


def _should_run(pod: Pod, container: Container, status: ContainerStatus | None) -> str | None:
    if status is None:
        return "was never made"
    if status.state is EXITED:
        crashes = container.command[0] == "exit" or not _stays_alive(container)
        ended = not may_run_again(pod, container, status.exit_code)
        return None if crashes or ended else "ended and was not started again"
    if status.state is not RUNNING:
        return f"is in state {status.state.name}"
    if not is_made_from(container, status.hash):
        return "runs as it was before an edit"
    return None


def _fails_after_its_start(container: Container) -> bool:
    """True if the container's postStart hook fails, for which it is stopped each time."""
    hook = container.lifecycle.post_start if container.lifecycle else None
    return hook is not None and hook.exec is not None and hook.exec.command[:2] == ("exit", "1")


# ---- probes ----


def behaviour_of(probe: Probe | None) -> tuple[str, ...]:
    """Return the behaviour of the probe (``testing.health``), without its kind."""
    if probe is None:
        return ("ok",)
    if probe.exec is not None:
        return probe.exec.command[2:]
    said = probe.http_get.path if probe.http_get is not None else probe.grpc.service if probe.grpc is not None else ""
    return tuple(said.strip("/").split("/")[2:])


def is_ready_for_good(container: Container) -> bool:
    """True if the running container becomes ready, sooner or later, and stays so."""
    return behaviour_of(container.readiness_probe)[0] in STEADY and _stays_alive(container)


def _stays_alive(container: Container) -> bool:
    """True if neither a probe of the container nor its hook can ever have it killed."""
    passes = behaviour_of(container.liveness_probe)[0] in STEADY and behaviour_of(container.startup_probe)[0] in STEADY
    return passes and not _fails_after_its_start(container)


def ill_shown(world: World, pod: Pod, status: PodStatus | None) -> str | None:
    """Return how a desired pod's status differs from its containers' permanent probe results."""
    if cause_of(pod) is not None:
        return None  # all of it is restarted again and again: no result is permanent
    for container in pod.spec.containers:
        found = newest(world, pod.metadata.uid, container.name)
        asked = behaviour_of(container.readiness_probe)
        if found is None or found.state is not RUNNING:
            continue
        shown = next((one for one in status.container_statuses if one.name == container.name), None) if status else None
        is_decided = asked[0] in ("fail", "hang") or (asked[0] in STEADY and _stays_alive(container))
        if shown is None or not is_decided:
            continue
        if shown.ready is not (asked[0] in STEADY):
            return f"container {pod.metadata.name}/{container.name} is shown {'' if shown.ready else 'not '}ready"
    return None
