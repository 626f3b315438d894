"""The state that an API server must have of a node once nothing disturbs either any more: the other half of the final
check.

Like ``testing/truth.py`` it compares the world, the desired pods and the server's objects, and shares no code with the
agent's decisions. Each function returns the first difference, or None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.core.names import is_mirror, is_static, status_uid, with_ephemeral
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.model.runtime import ContainerState
from trikubelet.testing.starting_over import cause_of
from trikubelet.testing.truth import is_over, is_ready_for_good, newest
from trikubelet.testing.world import wall_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model import k8s
    from trikubelet.model.runtime import ContainerStatus
    from trikubelet.testing.scenario import Wanted
    from trikubelet.testing.world import World

RECENT_SECONDS_MAX = 3.0
"""Changes within that many seconds need not be reported yet."""
LEASE_SECONDS_MAX = 15.0


def unpublished(world: World, wanted: Wanted, objects: Sequence[k8s.Pod]) -> str | None:
    """Return how the server's pods differ from the desired ones and the observed state."""
    static = {pod.metadata.name: pod for _, pod in wanted.all() if is_static(pod)}
    shown = {pod.metadata.name: status_uid(pod) for pod in objects if is_mirror(pod)}
    if shown != {name: pod.metadata.uid for name, pod in static.items()}:
        return f"the mirrors are {shown}, the static pods {sorted(pod.metadata.uid for pod in static.values())}"
    for seen in objects:
        pod = static[seen.metadata.name] if is_mirror(seen) else seen
        ambiguous = pod.metadata.uid in wanted.ambiguous
        if problem := _unlike(world, pod, seen.status, ambiguous=ambiguous):
            return f"the server says of pod {seen.metadata.name}: {problem}"
    return None


def _unlike(world: World, pod: k8s.Pod, published: k8s.PodStatus | None, *, ambiguous: bool) -> str | None:
    if published is None:
        return "nothing"
    statuses = {
        status.name: status
        for status in (
            *published.init_container_statuses,
            *published.container_statuses,
            *published.ephemeral_container_statuses,
        )
    }
    everything_runs = True
    for container in with_ephemeral(pod):
        there = newest(world, pod.metadata.uid, container.name)
        if container in pod.spec.containers or container.restart_policy == "Always":
            runs = there is not None and there.state is ContainerState.RUNNING and not _is_recent(world, there)
            everything_runs = everything_runs and runs
        if there is None or _is_recent(world, there):
            continue
        problem = _container_unlike(there, statuses.get(container.name))
        if problem:
            return f"container {container.name} {problem}"
    ready = any(one.type == "Ready" and one.status == "True" for one in published.conditions)
    serves = cause_of(pod) is None and all(map(is_ready_for_good, (*pod.spec.init_containers, *pod.spec.containers)))
    if everything_runs and (published.phase != "Running" or (serves and not ready)):
        return f"phase {published.phase}, ready: {ready}, while all of it runs"
    if is_over(world, pod) and not ambiguous and published.phase not in ("Succeeded", "Failed"):
        return f"phase {published.phase}, while it is over"
    return None


def _container_unlike(there: ContainerStatus, published: k8s.ContainerStatus | None) -> str | None:
    if published is None:
        return "is there and it says nothing of it"
    state, last = published.state, published.last_state
    if there.state is ContainerState.RUNNING:
        is_reported = state is not None and state.running is not None and published.container_id.endswith(there.id)
        return None if is_reported else f"runs as {there.id}, published: {published.container_id} {state}"
    ends = [one.terminated for one in (state, last) if one is not None and one.terminated is not None]
    # A container whose start was rolled back never ran, so it has no end to show.
    has_ended = there.state is ContainerState.EXITED and there.started_at
    if has_ended and not any(end.exit_code == there.exit_code for end in ends):
        return f"ended with {there.exit_code}, published: {state}, before: {last}"
    return None


def _is_recent(world: World, there: ContainerStatus) -> bool:
    """True if the container changed just now; it is reported as waiting, too, until its postStart hook has ended."""
    changed = max(there.created_at, there.started_at, there.finished_at)
    hooked = max((one.ended_at for one in world.commands.get(there.id, ())), default=0.0)
    since = min(wall_ns() - changed, (trio.current_time() - hooked) * SECOND_NS)
    return since < RECENT_SECONDS_MAX * SECOND_NS


def unfit(node: k8s.Node | None, lease: k8s.Lease | None) -> str | None:
    """Return how the node's object and lease differ from those of a healthy node."""
    if node is None or node.status is None:
        return "the node is not registered"
    ready = next((one.status for one in node.status.conditions if one.type == "Ready"), "missing")
    if ready != "True":
        return f"the node's condition Ready is {ready}"
    renewed = lease.spec.renew_time if lease is not None and lease.spec is not None else ""
    age = (wall_ns() - parse_rfc3339(renewed)) / SECOND_NS if renewed else float("inf")
    return f"the node's lease is {age:.0f} s old" if age > LEASE_SECONDS_MAX else None
