"""Inspecting one pod: asking the runtime for everything it has of it, and keeping what must outlast a dead sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.model.runtime import ContainerStatus, PodObservation, SandboxState, SandboxStatus
from trikubelet.model.runtime_errors import NotFound, RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.core.relist import PodChange
    from trikubelet.ports import Runtime


async def inspect(runtime: Runtime, change: PodChange, before: PodObservation, began: float) -> PodObservation:
    """Ask for the status of every sandbox and container of the pod, at the same time. What vanished since the list is
    left out. Raises the first RuntimeCallError."""
    sandboxes: dict[str, SandboxStatus] = {}
    containers: dict[str, ContainerStatus] = {}
    errors: list[RuntimeCallError] = []

    async def ask_sandbox(sandbox_id: str) -> None:
        sandboxes[sandbox_id] = await runtime.sandbox_status(sandbox_id)

    async def ask_container(container_id: str) -> None:
        containers[container_id] = await runtime.container_status(container_id)

    async def ask(question: Callable[[str], Awaitable[None]], id_: str) -> None:
        try:
            await question(id_)
        except NotFound:
            pass
        except RuntimeCallError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        for sandbox_id in change.sandboxes:
            nursery.start_soon(ask, ask_sandbox, sandbox_id)
        for container_id in change.containers:
            nursery.start_soon(ask, ask_container, container_id)
    if errors:
        raise errors[0]
    found = tuple(sandboxes[id_] for id_ in change.sandboxes if id_ in sandboxes)
    return PodObservation(
        uid=change.uid,
        name=change.name,
        namespace=change.namespace,
        ips=_addresses(found, before),
        sandboxes=found,
        containers=tuple(containers[id_] for id_ in change.containers if id_ in containers),
        observed_at=began,
    )


def _addresses(sandboxes: tuple[SandboxStatus, ...], before: PodObservation) -> tuple[str, ...]:
    """The newest ready sandbox's addresses; the ones known before when no sandbox is ready, so that a pod that has
    just stopped still says where it was."""
    if not sandboxes:
        return before.ips
    if sandboxes[0].ips:
        return sandboxes[0].ips
    if any(sandbox.state is SandboxState.READY for sandbox in sandboxes):
        return ()
    return before.ips
