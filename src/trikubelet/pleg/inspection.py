"""Inspects one pod: gets the statuses of all its sandboxes and containers, and keeps the data that must outlast a dead
sandbox.

Only changed replies are decoded; the content of the others is known already. If no reply has changed, the new
observation differs from the earlier one only in its time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from trikubelet.core.relist import DecodeError
from trikubelet.model.runtime import PodObservation, SandboxState
from trikubelet.model.runtime_errors import RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.relist import PodChange, PodRecord
    from trikubelet.core.statuses import StatusDigester
    from trikubelet.model.runtime import ContainerStatus, SandboxStatus, StatusReplies, Undecoded
    from trikubelet.ports import Runtime

Record = TypeVar("Record", "SandboxStatus", "ContainerStatus")


async def inspect(
    runtime: Runtime,
    digester: StatusDigester,
    change: PodChange,
    listed: PodRecord | None,
    before: PodObservation,
    began: float,
) -> PodObservation:
    """Return the pod's current state; ``listed`` is the pod in the lists, ``before`` its last observation, made with
    the same ``digester``. Raises RuntimeCallError."""
    replies = await runtime.statuses(change.sandboxes, change.containers)
    try:
        digests = (
            *(digester.sandbox(reply.raw) for reply in replies.sandboxes),
            *(digester.container(reply.raw) for reply in replies.containers),
        )
    except DecodeError as error:
        raise RuntimeFailure(str(error), "INTERNAL") from error
    if digests == before.digests and _are_of(before, replies):
        return replace(before, observed_at=began)
    # Digests stand in the order of the statuses, sandboxes first.
    of_containers = digests[len(replies.sandboxes) :]
    held_containers = zip(before.digests[len(before.sandboxes) :], before.containers, strict=False)
    sandboxes = _records(replies.sandboxes, digests, zip(before.digests, before.sandboxes, strict=False))
    return PodObservation(
        uid=change.uid,
        name=change.name,
        namespace=change.namespace,
        ips=_addresses(sandboxes, before),
        sandboxes=sandboxes,
        containers=_placed(_records(replies.containers, of_containers, held_containers), sandboxes, listed),
        observed_at=began,
        digests=digests,
    )


def _records(
    replies: Iterable[Undecoded[Record]], digests: Iterable[bytes], held: Iterable[tuple[bytes, Record]]
) -> tuple[Record, ...]:
    """Return the replies' records: the known one with the same digest, or a newly decoded one. Raises
    RuntimeFailure."""
    known = dict(held)
    return tuple(
        reply.held(known[digest]) if digest in known else reply.decode()
        for reply, digest in zip(replies, digests, strict=False)
    )


def _are_of(before: PodObservation, replies: StatusReplies) -> bool:
    """True if the replies are for the same ids as before. The same content for another id is a wrong answer."""
    return [one.id for one in before.sandboxes] == [reply.id for reply in replies.sandboxes] and [
        one.id for one in before.containers
    ] == [reply.id for reply in replies.containers]


def _placed(
    containers: Iterable[ContainerStatus], sandboxes: Iterable[SandboxStatus], listed: PodRecord | None
) -> tuple[ContainerStatus, ...]:
    """Return the containers with the id of their sandbox, which is in lists but not in statuses."""
    ids = {sandbox.id: sandbox.id for sandbox in sandboxes}  # shares one string among all containers
    homes = {one.id: ids.get(one.sandbox_id, one.sandbox_id) for one in listed.containers} if listed else {}
    return tuple(one if one.sandbox_id else replace(one, sandbox_id=homes.get(one.id, "")) for one in containers)


def _addresses(sandboxes: tuple[SandboxStatus, ...], before: PodObservation) -> tuple[str, ...]:
    """Return the newest ready sandbox's addresses; without a ready sandbox the earlier ones, so that the status of a
    pod that has just stopped still has its addresses."""
    if not sandboxes:
        return before.ips
    if sandboxes[0].ips:
        return sandboxes[0].ips
    if any(sandbox.state is SandboxState.READY for sandbox in sandboxes):
        return ()
    return before.ips
