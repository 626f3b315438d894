"""What the runtime keeps that nobody needs any more.

Of every container of a live pod the newest dead one stays: its exit code is the pod's last state and its log is what
``logs --previous`` shows. Of a pod whose content may go, nothing stays. A dead sandbox stays while it is the newest of
its pod or while a container is left in it (upstream: kuberuntime_gc.go).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.model.runtime import ContainerState, SandboxState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trikubelet.core.relist import PodRecord


@dataclass(frozen=True, slots=True)
class Garbage:
    """Container ids to remove first, then sandbox ids; both oldest first."""

    containers: tuple[str, ...] = ()
    sandboxes: tuple[str, ...] = ()


def collect(
    records: Iterable[PodRecord],
    may_remove_content: Callable[[str], bool],
    *,
    dead_kept_per_container: int = 1,
) -> Garbage:
    """What to remove now. ``may_remove_content`` says of a UID whether nothing of the pod need be kept."""
    containers: list[str] = []
    sandboxes: list[str] = []
    for record in records:
        gone = may_remove_content(record.uid)
        dead = _dead_containers(record, 0 if gone else dead_kept_per_container)
        containers += dead
        sandboxes += _dead_sandboxes(record, frozenset(dead), gone=gone)
    return Garbage(tuple(containers), tuple(sandboxes))


def _dead_containers(record: PodRecord, keep: int) -> list[str]:
    """Per container name, the dead ones beyond the ``keep`` newest. Containers are listed newest first. One that was
    made and is the newest of its name is about to be started, unless nothing is kept; an older one never will be."""
    newest: set[str] = set()
    dead_seen: dict[str, int] = {}
    dead = []
    for container in record.containers:
        is_newest = container.name not in newest
        newest.add(container.name)
        is_next = container.state == ContainerState.CREATED and is_newest and keep > 0
        if container.state == ContainerState.RUNNING or is_next:
            continue
        dead_seen[container.name] = dead_seen.get(container.name, 0) + 1
        if dead_seen[container.name] > keep:
            dead.append(container.id)
    return dead[::-1]


def _dead_sandboxes(record: PodRecord, removed: frozenset[str], *, gone: bool) -> list[str]:
    """Dead sandboxes without a container left in them, but not a live pod's newest. Sandboxes are newest first."""
    used = {container.sandbox_id for container in record.containers if container.id not in removed}
    dead = [
        sandbox.id
        for place, sandbox in enumerate(record.sandboxes)
        if sandbox.state == SandboxState.NOTREADY and sandbox.id not in used and (gone or place > 0)
    ]
    return dead[::-1]
