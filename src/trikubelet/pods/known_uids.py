"""The pods on the runtime that belong to this node: those in its root directory, or begun by this agent.

A runtime may hold the pods of another node agent with another root directory: one that is stopped for a moment, or that
ran here before. They look like orphans, because no source of this agent wants them, but ending them would destroy
another agent's pods. A pod is ours if its directory is below the root directory: every agent, upstream's too, creates
that before the pod's sandbox and removes it after the last container is gone. Directories that a standalone agent finds
where none of our agents has been are no evidence (``app.root_dir``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_PRUNED_BEYOND: Final = 1000
"""The number of UIDs after which they are pruned, because an agent that runs for years begins any number of pods."""


class KnownUids:
    """Owns the UIDs that are this node's. Workers add those that they begin."""

    def __init__(self, *, all_known: bool = False) -> None:
        """``all_known``: every pod on the runtime is this node's, because the runtime is inside the agent or the
        operator chose that."""
        self._all_known = all_known
        self._known: set[str] = set()
        self._prune_at = _PRUNED_BEYOND
        self.has_looked = all_known
        """True once the pods of the root directory are known. Until then nothing is an orphan."""

    def learn(self, on_disk: Iterable[str]) -> None:
        """Add the UIDs of the root directory. Must be called before anything there is removed."""
        self._known.update(on_disk)
        self.has_looked = True

    def note_beginning(self, uid: str) -> None:
        """Record that the pod got a worker of this agent."""
        self._known.add(uid)

    def forget_all_but(self, present: Collection[str]) -> None:
        """Forget pods without leftovers. ``present``: the UIDs on the runtime or the disk, and those that have a
        worker."""
        self._known.intersection_update(present)
        self._prune_at = max(_PRUNED_BEYOND, 2 * len(self._known))

    @property
    def are_many(self) -> bool:
        """True if it is time to forget pods without leftovers."""
        return len(self._known) > self._prune_at

    def __contains__(self, uid: object) -> bool:
        return self._all_known or uid in self._known

    def __repr__(self) -> str:
        return f"<KnownUids {'all' if self._all_known else len(self._known)}>"
