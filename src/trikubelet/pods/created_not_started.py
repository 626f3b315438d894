"""The leftovers of a container's last start, if the agent or the runtime ended between creation and start.

They are removed before the next container is created, which reuses the number, because nothing of them ever ran. If a
start requested by a killed agent is still under way, the runtime rejects the removal, or stops the container: there are
never two of one name. ``pods.container_creator`` calls this. One kind cannot be removed. If an agent is killed while
containerd starts a container, its call is cancelled; if that happens between the task and its process id, containerd
(seen in 1.6 and 2.2) keeps the task without a process, reports an ended container, and rejects its removal until
containerd itself is restarted. Nothing runs there and never will, so the next container is created next to it, with the
next number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.runtime import NO_PROGRAM, ContainerState
from trikubelet.model.runtime_errors import NotFound, RuntimeFailure

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.ports import Runtime


def created_not_started(observed: PodObservation, container: Container) -> ContainerStatus | None:
    """Return the newest container of that name, if it was created but not started."""
    latest = observed.latest(container.name)
    return latest if latest is not None and latest.state is ContainerState.CREATED else None


async def try_remove(runtime: Runtime, left: ContainerStatus) -> bool:
    """Remove the leftovers; False if the runtime keeps them and nothing of them will ever run. Raises RuntimeCallError
    for any other failure."""
    try:
        await runtime.remove_container(left.id)
    except NotFound:
        return True
    except RuntimeFailure as error:
        if left.reason == NO_PROGRAM and error.code == "FAILED_PRECONDITION":
            return False
        raise
    return True
