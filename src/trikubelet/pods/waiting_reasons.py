"""Why containers wait: the last failure to start each, in the words of its waiting state.

``pods.start`` writes them, and every status reads them (``pods.status_publisher``). They are lost with the process, and
the next try finds them again.
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
        """Return the reasons of the pod's waiting containers, by name."""
        return self._reasons.get(uid, {})

    def note(self, uid: str, container: str, reason: str, message: str) -> None:
        """Record why the container waits."""
        self._reasons.setdefault(uid, {})[container] = (reason, message)

    def note_gone(self, uid: str, container: str) -> None:
        """Record that the container no longer waits."""
        self._reasons.get(uid, {}).pop(container, None)

    def forget(self, uid: str) -> None:
        """Forget the pod."""
        self._reasons.pop(uid, None)
