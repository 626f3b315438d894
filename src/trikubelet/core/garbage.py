"""Chooses the dead containers and sandboxes that the runtime may remove.

For every container of a live pod the newest dead one is kept: its exit code is the pod's last state and its log is the
output of ``logs --previous``. A pod whose content may go keeps nothing. A dead sandbox is kept while it is the newest
of its pod or while a container is left in it (upstream: kuberuntime_gc.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime import ContainerState, SandboxState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trikubelet.core.relist import PodRecord


class Garbage(Frozen):
    """Container ids to remove first, then sandbox ids; both oldest first."""

    containers: tuple[str, ...] = ()
    sandboxes: tuple[str, ...] = ()


def collect(
    records: Iterable[PodRecord],
    may_remove_content: Callable[[str], bool],
    *,
    dead_kept_per_container: int = 1,
) -> Garbage:
    """Return the ids to remove now. ``may_remove_content`` is true for a UID if nothing of the pod need be kept."""
    containers: list[str] = []
    sandboxes: list[str] = []
    for record in records:
        gone = may_remove_content(record.uid)
        dead = _dead_containers(record, 0 if gone else dead_kept_per_container)
        containers += dead
        sandboxes += _dead_sandboxes(record, frozenset(dead), gone=gone)
    return Garbage(tuple(containers), tuple(sandboxes))


def _dead_containers(record: PodRecord, keep: int) -> list[str]:
    """Return, per container name, the dead ones beyond the ``keep`` newest. Containers are listed newest first. A
    created container that is the newest of its name is about to be started and is kept, unless ``keep`` is 0; an older
    one will never be started."""
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
    """Return dead sandboxes without containers, except a live pod's newest. Sandboxes are listed newest first."""
    used = {container.sandbox_id for container in record.containers if container.id not in removed}
    dead = [
        sandbox.id
        for place, sandbox in enumerate(record.sandboxes)
        if sandbox.state == SandboxState.NOTREADY and sandbox.id not in used and (gone or place > 0)
    ]
    return dead[::-1]
