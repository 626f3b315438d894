"""What is left of a container's last start, where the agent or the runtime ended between creating and starting it.

It goes before the next one is created, which then has its number: nothing of it ever ran. Should somebody be starting
it, as an agent that was killed had asked, the runtime refuses, or stops it: there are never two of a name. Called by
``pods.container_creator``.

One kind cannot be removed. An agent that is killed while containerd starts a container takes its call with it; where
that happens between the task and its process id, containerd (seen of 1.6 and 2.2) keeps the task, without its program,
reports a container that ended, and refuses to remove it until it is itself started again. Nothing runs there, and
nothing ever will, so the next one is made beside it, under the next number.
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
    """The newest container of that name, if it was created and not started."""
    latest = observed.latest(container.name)
    return latest if latest is not None and latest.state is ContainerState.CREATED else None


async def try_remove(runtime: Runtime, left: ContainerStatus) -> bool:
    """Take what is left away; False where the runtime keeps it and nothing of it will ever run. Raises
    RuntimeCallError for whatever else keeps it."""
    try:
        await runtime.remove_container(left.id)
    except NotFound:
        return True
    except RuntimeFailure as error:
        if left.reason == NO_PROGRAM and error.code == "FAILED_PRECONDITION":
            return False
        raise
    return True
