"""What is remembered of containers that were asked to stop, until they are known to be down.

The next attempt of a pod that terminates goes on with the grace that the one before it left. Only what a container can
have known of is counted: its hook, its turn and the calls under way, not how long the runtime was away. A new agent
begins with a full grace again: what was left is not written down, and too much grace costs less than too little.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINERS_REMEMBERED_MAX = 10_000

T = TypeVar("T")


@dataclass(slots=True)
class Used:
    """How much of a container's grace one attempt has used, in seconds, also when the attempt is given up."""

    seconds: float = 0.0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """The time of the block counts."""
        began = trio.current_time()
        try:
            yield
        finally:
            self.seconds += trio.current_time() - began


class UnfinishedStops:
    """Owns which preStop hooks have ended, how much grace is left and who could not be stopped, by container id, until
    the container is known to be down. Of too many the oldest are forgotten, which costs a hook that runs twice, or a
    grace that starts over."""

    def __init__(self) -> None:
        self._hooks_ended: dict[str, None] = {}
        self._grace_left: dict[str, int] = {}
        self._refused_since: dict[str, float] = {}  # on Trio's clock

    def grace_left(self, container_id: str, grace_seconds: int) -> int:
        """What an earlier attempt carried over, or ``grace_seconds`` where that is less."""
        return min(grace_seconds, self._grace_left.get(container_id, grace_seconds))

    def carry_over(self, container_id: str, grace_seconds: int) -> None:
        """The next attempt has so much. Only for pods that terminate: others may live on, and end with a full grace."""
        _remember(self._grace_left, container_id, grace_seconds)

    def has_hook_ended(self, container_id: str) -> bool:
        """Whether the container's preStop hook came to its end, or took all its grace."""
        return container_id in self._hooks_ended

    def hook_ended(self, container_id: str) -> None:
        """It does not run again."""
        _remember(self._hooks_ended, container_id, None)

    def refused_for(self, container_id: str) -> float:
        """How many seconds ago a runtime that answers first said that it cannot stop the container; from now on, if it
        never did."""
        if container_id not in self._refused_since:
            _remember(self._refused_since, container_id, trio.current_time())
        return trio.current_time() - self._refused_since[container_id]

    def is_down(self, container_id: str) -> None:
        """Nothing need be known of it any more."""
        self._hooks_ended.pop(container_id, None)
        self._grace_left.pop(container_id, None)
        self._refused_since.pop(container_id, None)


def _remember(notes: dict[str, T], container_id: str, note: T) -> None:
    notes[container_id] = note
    if len(notes) > CONTAINERS_REMEMBERED_MAX:
        del notes[next(iter(notes))]
