"""Container statuses as the API shows them, in a word each, for the tables of phase, conditions and merging."""

from __future__ import annotations

from typing import Any

from trikubelet.model import k8s

NOW, EARLIER = "2026-01-01T12:00:00Z", "2026-01-01T11:00:00Z"


def ended(code: int = 0, **fields: Any) -> k8s.ContainerState:
    """The state of something that ended."""
    return k8s.ContainerState(terminated=k8s.ContainerStateTerminated(exit_code=code, **fields))


def shown(name: str, state: k8s.ContainerState | None, **fields: Any) -> k8s.ContainerStatus:
    """A status with that state."""
    return k8s.ContainerStatus(
        **{
            "name": name,
            "image": "image:1",
            "image_id": "",
            "ready": False,
            "restart_count": 0,
            "state": state,
            **fields,
        }
    )


def runs(name: str, **fields: Any) -> k8s.ContainerStatus:
    """It runs; whether it has started is not said."""
    return shown(name, k8s.ContainerState(running=k8s.ContainerStateRunning(started_at=EARLIER)), **fields)


def serves(name: str, **fields: Any) -> k8s.ContainerStatus:
    """It runs, has started and is ready."""
    return runs(name, started=True, ready=True, **fields)


def stopped(name: str, code: int = 0, **fields: Any) -> k8s.ContainerStatus:
    """It ended."""
    return shown(name, ended(code, reason=fields.pop("reason", "")), **fields)


def waits(name: str, last: int | None = None, **fields: Any) -> k8s.ContainerStatus:
    """It waits; ``last``: the exit code it ended with before."""
    before = None if last is None else ended(last)
    waiting = k8s.ContainerStateWaiting(reason=fields.pop("reason", ""))
    return shown(name, k8s.ContainerState(waiting=waiting), last_state=before, **fields)


def condition(type_: str, status: str = "True", **fields: Any) -> k8s.PodCondition:
    """A condition."""
    return k8s.PodCondition(type=type_, status=status, **fields)


def status(phase: str = "Running", *conditions: k8s.PodCondition, **fields: Any) -> k8s.PodStatus:
    """A pod's status."""
    return k8s.PodStatus(phase=phase, conditions=conditions, **fields)


def by_name(*statuses: k8s.ContainerStatus) -> dict[str, k8s.ContainerStatus]:
    """As phase and conditions take them."""
    return {s.name: s for s in statuses}
