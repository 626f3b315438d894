"""Why containers wait: what kept each from being started last, in the words that users read in its waiting state.

Written by whoever starts containers (``pods.start``), read for every status (``pods.status_publisher``). Notes of this
process: after a restart they are found again by trying again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class WaitingReasons:
    """Owns the reasons why containers wait: per pod, container name → (reason, message)."""

    def __init__(self) -> None:
        self._reasons: dict[str, dict[str, tuple[str, str]]] = {}

    def of(self, uid: str) -> Mapping[str, tuple[str, str]]:
        """The reasons of the pod's containers that wait, by their names."""
        return self._reasons.get(uid, {})

    def note(self, uid: str, container: str, reason: str, message: str) -> None:
        """The container waits for this reason."""
        self._reasons.setdefault(uid, {})[container] = (reason, message)

    def note_gone(self, uid: str, container: str) -> None:
        """The container does not wait any more."""
        self._reasons.get(uid, {}).pop(container, None)

    def forget(self, uid: str) -> None:
        """The pod is over."""
        self._reasons.pop(uid, None)
