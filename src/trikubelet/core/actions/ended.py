"""What ended for good does not run again, though the runtime has forgotten it.

``plan`` knows only what the runtime has. A container that completed and was then removed behind our back (``crictl
rm``, a lost sandbox) looks to it like one that never ran. The pod's status remembers its end, and the status is a
promise: so it is asked before a plan is carried out (upstream starts such a container again, and then cannot say so).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trikubelet.core.restarts import allows_restart

if TYPE_CHECKING:
    from trikubelet.core.actions.records import PodActions
    from trikubelet.model.k8s import Pod, PodStatus


def without_ended(pod: Pod, actions: PodActions, status: PodStatus) -> PodActions:
    """The plan without starting regular containers whose end ``status`` shows, and which may not run again."""
    shown = {container.name: container.state for container in status.container_statuses}

    def may_start(index: int) -> bool:
        container = pod.spec.containers[index]
        state = shown.get(container.name)
        ended = state.terminated if state is not None else None
        unseen = ended is not None and ended.reason == "ContainerStatusUnknown"
        return ended is None or unseen or allows_restart(pod, container, ended.exit_code)

    return replace(actions, to_start=tuple(index for index in actions.to_start if may_start(index)))
