"""The statuses of many containers from a runtime in memory that returns single ones: a task for each, a limit, the
first error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import trio

from trikubelet.model.runtime import StatusReplies
from trikubelet.model.runtime_errors import NotFound, RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trikubelet.model.runtime import ContainerStatus, SandboxStatus, Undecoded

AT_ONCE_MAX: Final = 16

Record = TypeVar("Record", "SandboxStatus", "ContainerStatus")


class ReadsStatus(Protocol):
    """The methods of a runtime that are needed here."""

    async def sandbox_status(self, sandbox_id: str, /) -> Undecoded[SandboxStatus]:
        """One sandbox. Raises NotFound."""

    async def container_status(self, container_id: str, /) -> Undecoded[ContainerStatus]:
        """One container. Raises NotFound."""


async def statuses_side_by_side(
    runtime: ReadsStatus, sandbox_ids: Sequence[str], container_ids: Sequence[str]
) -> StatusReplies:
    """``ports.Runtime.statuses``, to be used as a class's own method."""
    sandboxes: dict[str, Undecoded[SandboxStatus]] = {}
    containers: dict[str, Undecoded[ContainerStatus]] = {}
    errors: list[RuntimeCallError] = []
    limit = trio.CapacityLimiter(AT_ONCE_MAX)

    async def ask(
        question: Callable[[str], Awaitable[Undecoded[Record]]], id_: str, replies: dict[str, Undecoded[Record]]
    ) -> None:
        try:
            async with limit:
                replies[id_] = await question(id_)
        except NotFound:
            pass
        except RuntimeCallError as error:
            errors.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for sandbox_id in sandbox_ids:
            nursery.start_soon(ask, runtime.sandbox_status, sandbox_id, sandboxes)
        for container_id in container_ids:
            nursery.start_soon(ask, runtime.container_status, container_id, containers)
    if errors:
        raise errors[0]
    return StatusReplies(
        [sandboxes[id_] for id_ in sandbox_ids if id_ in sandboxes],
        [containers[id_] for id_ in container_ids if id_ in containers],
    )
