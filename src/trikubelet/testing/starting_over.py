"""Pods in which one container's exit restarts all containers, in a simulated world."""

from __future__ import annotations

from typing import Final

import msgspec

from trikubelet.model import k8s

EXIT_CODE: Final = 42
_RULE: Final = k8s.ContainerRestartRule(
    action="RestartAllContainers",
    exit_codes=k8s.ContainerRestartRuleOnExitCodes(operator="In", values=(EXIT_CODE,)),
)


def starting_over(pod: k8s.Pod) -> k8s.Pod:
    """Return the pod, with a first container that ends after a while and has all of them restarted."""
    first, *others = pod.spec.containers
    command = ("exit", str(EXIT_CODE), "1.7")
    cause = msgspec.structs.replace(first, command=command, restart_policy_rules=(_RULE,))
    spec = msgspec.structs.replace(pod.spec, containers=(cause, *others))
    return msgspec.structs.replace(pod, spec=spec)


def cause_of(pod: k8s.Pod) -> k8s.Container | None:
    """Return the container whose exit has all of them restarted, if the pod has one."""
    return next((one for one in pod.spec.containers if one.restart_policy_rules), None)
