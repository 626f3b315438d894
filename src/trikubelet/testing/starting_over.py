"""Pods of which one container's exit restarts all containers, in a simulated world: made so, and known again.

Shares no code with the agent's decisions, as ``testing.truth``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from trikubelet.testing.world import World

EXIT_CODE: Final = 42
_RULE: Final = k8s.ContainerRestartRule(
    action="RestartAllContainers",
    exit_codes=k8s.ContainerRestartRuleOnExitCodes(operator="In", values=(EXIT_CODE,)),
)


def starting_over(pod: k8s.Pod) -> k8s.Pod:
    """The pod, with a first container that ends by and by and has all of them restarted."""
    first, *others = pod.spec.containers
    command = ("exit", str(EXIT_CODE), "1.7")
    cause = msgspec.structs.replace(first, command=command, restart_policy_rules=(_RULE,))
    spec = msgspec.structs.replace(pod.spec, containers=(cause, *others))
    return msgspec.structs.replace(pod, spec=spec)


def cause_of(pod: k8s.Pod) -> k8s.Container | None:
    """The container whose exit has all of them restarted, if the pod has one."""
    return next((one for one in pod.spec.containers if one.restart_policy_rules), None)


def starts_over(world: World, pod: k8s.Pod) -> bool:
    """Whether everything of the pod is to be taken away now: its cause has ended so, and is still there."""
    cause = cause_of(pod)
    if cause is None:
        return False
    uid = pod.metadata.uid
    here = [one for one in world.all_containers() if one.name == cause.name and world.uids[one.id] == uid]
    newest = max(here, key=lambda one: one.created_at, default=None)
    return newest is not None and newest.state is ContainerState.EXITED and newest.exit_code == EXIT_CODE
