"""Decides if a container that ended runs again, and how soon.

A container's policy is its own ``restartPolicy``, or else its pod's. The first of its ``restartPolicyRules`` that
matches the exit code comes before both. An init container with policy Always is a sidecar and always runs again.
Restarts of a crashing container wait for a back-off that doubles from 10 s to 5 min, counts from the container's end,
and is reset after it ran well for twice the maximum (upstream: doBackOff).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.fnv import fnv1a_64
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ContainerStatus

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"
RESTART, RESTART_ALL = "Restart", "RestartAllContainers"
OOM_KILLED: Final = "OOMKilled"
KILLED_EXIT_CODE: Final = 137


def is_sidecar(init_container: Container) -> bool:
    """True if an *init* container is restartable, that is, runs next to the regular ones."""
    return init_container.restart_policy == ALWAYS


def policy(pod: Pod, container: Container) -> str:
    """Return the restart policy in force for a container: its own, or its pod's."""
    return container.restart_policy or pod.spec.restart_policy or ALWAYS


def rule_action(container: Container, exit_code: int) -> str:
    """Return the action of the container's first rule that matches the exit code; "" if none does."""
    for rule in container.restart_policy_rules:
        if rule.exit_codes is None:
            continue
        listed = exit_code in rule.exit_codes.values
        if listed == (rule.exit_codes.operator == "In"):
            return rule.action
    return ""


def allows_restart(pod: Pod, container: Container, exit_code: int) -> bool:
    """True if the rules and the policy let a container that ended with this code run again."""
    if rule_action(container, exit_code) in (RESTART, RESTART_ALL):
        return True
    match policy(pod, container):
        case "Never":
            return False
        case "OnFailure":
            return exit_code != 0
        case _:
            return True


def init_exit_code(exit_code: int, reason: str) -> int:
    """Return the exit code by which a plain init container is judged: 137 if it ended with 0 but a process in it was
    killed for lack of memory.

    Its shell may hide the death of a child (``eat || true``); the regular containers must not start on the incomplete
    data of that child (upstream: isInitContainerFailed).
    """
    return KILLED_EXIT_CODE if exit_code == 0 and reason == OOM_KILLED else exit_code


def should_restart(pod: Pod, container: Container, status: ContainerStatus | None) -> bool:
    """True if a container that does not run should be started (upstream: ShouldContainerBeRestarted)."""
    if pod.metadata.deletion_timestamp:
        return False
    if status is None or status.state in (ContainerState.UNKNOWN, ContainerState.CREATED):
        return True
    if status.state is ContainerState.RUNNING:
        return False
    return allows_restart(pod, container, status.exit_code)


# ---- back-off ----

CRASH_LOOP_BACK_OFF: Final = "CrashLoopBackOff"
"""The reason of a container that waits for its back-off."""
RUN_CONTAINER_ERROR: Final = "RunContainerError"
BACKS_OFF: Final = frozenset({CRASH_LOOP_BACK_OFF, RUN_CONTAINER_ERROR})
"""Reasons of a container that has ended, or failed to start, and waits to be started again."""


class BackoffLimits(Frozen):
    """First and largest delay, in seconds."""

    first_seconds: float = 10.0
    seconds_max: float = 300.0


class BackoffEntry(Frozen):
    """The delay in force for one container, and when it was set (nanoseconds since the epoch)."""

    seconds: float
    set_at: int


def backoff_key(pod: Pod, container: Container) -> str:
    """Return the key of a container's back-off: a change of image or resources starts a new one."""
    meta = pod.metadata
    resources = msgspec.json.encode(container.resources, order="deterministic").decode()
    parts = (meta.name, meta.namespace, meta.uid, container.name, container.image, resources)
    return f"{fnv1a_64(chr(0).join(parts).encode()):x}"


def _is_forgotten(entry: BackoffEntry, finished_at: int, limits: BackoffLimits) -> bool:
    return finished_at - entry.set_at > 2 * limits.seconds_max * SECOND_NS


def backoff_remaining(entry: BackoffEntry | None, finished_at: int, now: int, limits: BackoffLimits) -> float:
    """Return the seconds until the container that finished then may start again; 0 if it may now."""
    if entry is None or _is_forgotten(entry, finished_at, limits):
        return 0.0
    if now < max(entry.set_at, finished_at):  # the clock was set back: earlier times mean nothing now
        return 0.0  # rather once too soon
    return max(0.0, entry.seconds - (now - finished_at) / SECOND_NS)


def backoff_next(entry: BackoffEntry | None, finished_at: int, now: int, limits: BackoffLimits) -> BackoffEntry:
    """Return the entry after the container is started again."""
    if entry is None or _is_forgotten(entry, finished_at, limits):
        return BackoffEntry(min(limits.first_seconds, limits.seconds_max), now)
    return BackoffEntry(min(entry.seconds * 2, limits.seconds_max), now)
