"""The conditions of a node that its kubelet owns: three pressures and Ready, with upstream's reasons and messages.

A condition whose status did not change keeps its transition time; conditions of others (network plugins, problem
detectors) are kept unchanged. Each computation is a heartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.core.node_status.report import Pressures

READY: Final = "Ready"
OWNED: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", READY)

# Type → (reason and message of False, reason and message of True).
_PRESSURES: Final = {
    "MemoryPressure": (
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    ),
    "DiskPressure": (
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    ),
    "PIDPressure": (
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ),
}

# Type and status → the reason of the node's event, where upstream records one.
_EVENTS: Final = {
    ("MemoryPressure", "False"): "NodeHasSufficientMemory",
    ("MemoryPressure", "True"): "NodeHasInsufficientMemory",
    ("DiskPressure", "False"): "NodeHasNoDiskPressure",
    ("DiskPressure", "True"): "NodeHasDiskPressure",
    ("PIDPressure", "False"): "NodeHasSufficientPID",
    ("PIDPressure", "True"): "NodeHasInsufficientPID",
    (READY, "True"): "NodeReady",
    (READY, "False"): "NodeNotReady",
}


def conditions(
    pressures: Pressures, problems: Sequence[str], before: Iterable[k8s.NodeCondition], now: str
) -> tuple[k8s.NodeCondition, ...]:
    """Return the conditions of others unchanged, then the agent's; Ready last, like upstream."""
    earlier = {condition.type: condition for condition in before}
    found = [
        ("MemoryPressure", pressures.memory, *_PRESSURES["MemoryPressure"][pressures.memory]),
        ("DiskPressure", pressures.disk, *_PRESSURES["DiskPressure"][pressures.disk]),
        ("PIDPressure", pressures.pids, *_PRESSURES["PIDPressure"][pressures.pids]),
        (READY, not problems, *_ready(problems)),
    ]
    foreign = [condition for type_, condition in earlier.items() if type_ not in OWNED]
    return (
        *foreign,
        *(
            _condition(type_, holds, reason, message, earlier.get(type_), now)
            for type_, holds, reason, message in found
        ),
    )


def _ready(problems: Sequence[str]) -> tuple[str, str]:
    if not problems:
        return "KubeletReady", "kubelet is posting ready status"
    return "KubeletNotReady", problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


def _condition(
    type_: str, holds: bool, reason: str, message: str, earlier: k8s.NodeCondition | None, now: str
) -> k8s.NodeCondition:
    status = "True" if holds else "False"
    kept = earlier is not None and earlier.status == status
    return k8s.NodeCondition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_heartbeat_time=now,
        last_transition_time=earlier.last_transition_time if earlier is not None and kept else now,
    )


def is_ready(status: k8s.NodeStatus) -> bool:
    """True if the status shows a ready node."""
    return any(one.type == READY and one.status == "True" for one in status.conditions)


def event_reasons(before: Iterable[k8s.NodeCondition], after: Iterable[k8s.NodeCondition]) -> tuple[str, ...]:
    """Return the reasons of the node events that are due because a condition of the agent's changed its status."""
    earlier = {condition.type: condition.status for condition in before}
    return tuple(
        _EVENTS[condition.type, condition.status]
        for condition in after
        if condition.type in OWNED and earlier.get(condition.type) != condition.status
    )
