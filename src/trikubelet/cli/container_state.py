"""The state of a container that a verb needs running, in words for its user, with the command that shows more.

The agent returns upstream's text when a container does not run, ``container not found ("app")``, because clients of the
API know that text. ``exec``, ``attach``, ``cp``, ``port-forward`` and ``restart --wait`` explain it by the pod's
status. Pure but for ``explained``, which requests the newest status from the agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.cli import asking
from trikubelet.cli.client import AgentObjects
from trikubelet.cli.options import DEFAULT_NAMESPACE
from trikubelet.core.kubectl.pod_row import ended_word
from trikubelet.core.names import with_ephemeral

if TYPE_CHECKING:
    from trikubelet.cli.client import AgentClient
    from trikubelet.model.k8s import ContainerStatus, Pod

_ENDED: Final = ("Succeeded", "Failed")


def status_of(pod: Pod, container: str) -> ContainerStatus | None:
    """Return the status of a container of any kind; None if the pod has none for it yet."""
    status = pod.status
    if status is None:
        return None
    every = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    return next((one for one in every if one.name == container), None)


def has_ended(pod: Pod) -> bool:
    """True if no container of the pod will be started again."""
    return pod.status is not None and pod.status.phase in _ENDED


def problem_of(pod: Pod, container: str) -> str:
    """Return why the container cannot be used now, and which command shows more; empty if its status is running."""
    meta = pod.metadata
    names = [one.name for one in with_ephemeral(pod)]
    if container not in names:
        return f'pod "{meta.name}" has no container "{container}"; it has {", ".join(names)}'
    status = status_of(pod, container)
    state = status.state if status is not None else None
    if state is not None and state.running is not None:
        return ""
    how, more = state_of(status)
    here = [] if meta.namespace == DEFAULT_NAMESPACE else ["-n", meta.namespace]
    if more == "describe":
        command = ["describe", "pod", meta.name, *here]
    else:
        which = ["-c", container] if len(names) > 1 else []
        command = ["logs", meta.name, *which, *here, *(["--previous"] if more == "previous" else [])]
    return f'container "{container}" is not running: {how} (see: trikubelet {" ".join(command)})'


def state_of(status: ContainerStatus | None) -> tuple[str, str]:
    """Return the state of a container that does not run, and the command that explains it: ``previous`` for the log of
    its last run, ``logs`` for that of the ended run, ``describe`` if it has not run yet."""
    state = status.state if status is not None else None
    if state is not None and state.terminated is not None:
        return f"{ended_word(state.terminated)}, exit code {state.terminated.exit_code}", "logs"
    waits_for = state.waiting.reason if state is not None and state.waiting is not None else ""
    how = waits_for or "it has not started"
    last = status.last_state.terminated if status is not None and status.last_state is not None else None
    return (f"{how}, last exit code {last.exit_code}", "previous") if last is not None else (how, "describe")


async def explained(agent: AgentClient, pod: Pod, container: str, error: AgentObjects) -> AgentObjects:
    """Return the agent's error with the reason in the pod's newest status; the error itself if that has none."""
    meta = pod.metadata
    newest = await asking.pod_named(agent, meta.namespace, meta.name)
    problem = problem_of(newest, container)
    return AgentObjects(error.status, problem) if problem else error
