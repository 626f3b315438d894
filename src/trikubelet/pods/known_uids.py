"""Which pods on the runtime are this node's: those that its root directory has, or that this agent has begun.

A runtime may hold the pods of another node agent, whose root directory is elsewhere: one that is stopped for a moment,
or that ran here before. They look like orphans, because no source of this agent wants them, and to end them would cost
somebody's pods. The evidence that a pod is ours is its directory below the root directory: every agent, upstream's
too, makes that before the pod's sandbox and removes it after the last container has gone. No evidence are the
directories that a standalone agent finds where no agent of ours has been (``app.root_dir``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_PRUNED_BEYOND: Final = 1000
"""UIDs; an agent that lives for years begins any number of pods."""


class KnownUids:
    """Owns the UIDs that are this node's. Workers note those that they begin."""

    def __init__(self, *, all_known: bool = False) -> None:
        """``all_known``: every pod on the runtime is this node's, because the runtime lives inside the agent or an
        operator says so."""
        self._all_known = all_known
        self._known: set[str] = set()
        self._prune_at = _PRUNED_BEYOND
        self.has_looked = all_known
        """Whether the pods of the root directory are known. Until then nothing is an orphan."""

    def learn(self, on_disk: Iterable[str]) -> None:
        """Add the UIDs that the root directory has. Call this before anything there may be removed."""
        self._known.update(on_disk)
        self.has_looked = True

    def note_beginning(self, uid: str) -> None:
        """The pod got a worker of this agent."""
        self._known.add(uid)

    def forget_all_but(self, present: Collection[str]) -> None:
        """Forget pods of which nothing is left. ``present``: the UIDs on the runtime or the disk, and those that have a
        worker."""
        self._known.intersection_update(present)
        self._prune_at = max(_PRUNED_BEYOND, 2 * len(self._known))

    @property
    def are_many(self) -> bool:
        """True if it is time to forget pods of which nothing is left."""
        return len(self._known) > self._prune_at

    def __contains__(self, uid: object) -> bool:
        return self._all_known or uid in self._known

    def __repr__(self) -> str:
        return f"<KnownUids {'all' if self._all_known else len(self._known)}>"
