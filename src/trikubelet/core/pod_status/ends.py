"""Which runs of containers ended between two statuses of a pod: what is counted of ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.names import CONTAINER, EPHEMERAL_CONTAINER, INIT_CONTAINER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.model import k8s


def ends(before: k8s.PodStatus, now: k8s.PodStatus) -> list[tuple[str, int, str]]:
    """For each run that ended: the container's kind, its exit code and the reason."""
    known = {end.container_id for _, end in _ended(before)}
    return [(kind, end.exit_code, end.reason) for kind, end in _ended(now) if end.container_id not in known]


def _ended(status: k8s.PodStatus) -> Iterator[tuple[str, k8s.ContainerStateTerminated]]:
    for kind, containers in (
        (INIT_CONTAINER, status.init_container_statuses),
        (CONTAINER, status.container_statuses),
        (EPHEMERAL_CONTAINER, status.ephemeral_container_statuses),
    ):
        for one in containers:
            for state in (one.last_state, one.state):
                if state is not None and state.terminated is not None and state.terminated.container_id:
                    yield kind, state.terminated
