"""Which UIDs are wanted, as far as that is known, and so what may be done about one that has no worker.

A UID without a worker may be an orphan's, whose containers, logs and directories are to go; or that of a pod that some
source still wants: one that has not spoken, or a manifest that cannot be read. To remove anything takes certainty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

ENDED_KEPT_MAX: Final = 10_000
"""Pods that ended beside an invalid manifest and are remembered until it is mended; of more the first are forgotten.
What they left is gone after a few minutes, but for what cannot be removed."""


class WantedUids:
    """Owns which UIDs were wanted when every source had spoken last, whether that was all, and which pods ended beside
    an invalid manifest, so that nothing of them is kept for it."""

    def __init__(self) -> None:
        self._wanted: frozenset[str] = frozenset()
        self._all_known = False
        self._ended: dict[str, None] = {}

    def replace(self, wanted: Collection[str], *, all_known: bool) -> None:
        """Every source has spoken. ``all_known``: no manifest is left that may want more."""
        self._wanted = frozenset(wanted)
        self._all_known = all_known
        if all_known:
            self._ended.clear()

    def note_end(self, uid: str) -> None:
        """The pod's worker is forgotten. While not all is known, that says that no invalid manifest can want what it
        left."""
        if not self._all_known:
            self._ended[uid] = None
        if len(self._ended) > ENDED_KEPT_MAX:
            del self._ended[next(iter(self._ended))]

    def note_beginning(self, uid: str) -> None:
        """The pod got a worker."""
        self._ended.pop(uid, None)

    def is_certainly_unwanted(self, uid: str) -> bool:
        """Whether a UID without a worker is an orphan's, or that of a pod which ended here."""
        return (self._all_known or uid in self._ended) and uid not in self._wanted

    def __iter__(self) -> Iterator[str]:
        return iter(self._wanted)

    def __repr__(self) -> str:
        return f"<WantedUids {len(self._wanted)}, {len(self._ended)} ended>"
