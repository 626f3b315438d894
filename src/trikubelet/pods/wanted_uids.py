"""The wanted UIDs, as far as known, which decide what may be done about a UID without a worker.

A UID without a worker may be an orphan's, whose containers, logs and directories must go; or that of a pod that a
source still wants: one that has not reported, or an invalid manifest. Removing anything requires certainty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

ENDED_KEPT_MAX: Final = 10_000
"""The number of pods that ended next to an invalid manifest and are remembered until it is fixed; above it the oldest
are dropped. Their leftovers are gone after a few minutes, unless they cannot be removed."""


class WantedUids:
    """Owns which UIDs were wanted when every source had last reported, whether that was complete, and which pods ended
    next to an invalid manifest, so that nothing of them is kept for it."""

    def __init__(self) -> None:
        self._wanted: frozenset[str] = frozenset()
        self._all_known = False
        self._ended: dict[str, None] = {}

    def replace(self, wanted: Collection[str], *, all_known: bool) -> None:
        """Replace the wanted UIDs after every source has reported. ``all_known``: no invalid manifest may want more."""
        self._wanted = frozenset(wanted)
        self._all_known = all_known
        if all_known:
            self._ended.clear()

    def note_end(self, uid: str) -> None:
        """Record that the pod's worker is forgotten. Until all is known, that means that no invalid manifest can want
        its leftovers."""
        if not self._all_known:
            self._ended[uid] = None
        if len(self._ended) > ENDED_KEPT_MAX:
            del self._ended[next(iter(self._ended))]

    def note_beginning(self, uid: str) -> None:
        """Record that the pod got a worker."""
        self._ended.pop(uid, None)

    def is_certainly_unwanted(self, uid: str) -> bool:
        """True if a UID without a worker is an orphan's, or that of a pod which ended here."""
        return (self._all_known or uid in self._ended) and uid not in self._wanted

    def __iter__(self) -> Iterator[str]:
        return iter(self._wanted)

    def __repr__(self) -> str:
        return f"<WantedUids {len(self._wanted)}, {len(self._ended)} ended>"
