"""Detects manifests that are removed and written again: their pods end and start again, though nothing changed.

Operators restart static pods like this, and upstream does it, too. A listing cannot show it, because the file is there
before and after. So the watch reports unlinked names, and a name in a later listing was written again. Editors and
package tools rename, which unlinks nothing and restarts nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trikubelet.core.file_source import FileState


class Rewritten:
    """Owns the unlinked files of ``place``, a directory or one file, and how often each was written again."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._unlinked: set[str] = set()
        self._lives: dict[str, int] = {}

    def note(self, names: Collection[str], known: Collection[str]) -> None:
        """Record that these names were unlinked. Only the paths of ``known`` files count, which also bounds their
        number."""
        paths = {os.path.join(self._place, name) for name in names}
        if os.path.basename(self._place) in names:  # the place may be a file
            paths.add(self._place)
        self._unlinked |= paths & set(known)

    def unlinked(self) -> frozenset[str]:
        """Return the unlinked paths. One in a later listing was written again."""
        return frozenset(self._unlinked)

    def written(self, path: str) -> None:
        """Record that the file exists again and was read."""
        self._unlinked.discard(path)
        self._lives[path] = self._lives.get(path, 0) + 1

    def forget(self, path: str) -> None:
        """Forget the file, which is gone like its pods."""
        self._unlinked.discard(path)
        self._lives.pop(path, None)

    def lives(self, states: Mapping[str, FileState]) -> dict[str, int]:
        """Return how often the manifest of each pod was written again, by UID."""
        return {
            pod.metadata.uid: life for path, life in self._lives.items() if path in states for pod in states[path].pods
        }
