"""The agenda: which pods were asked for and are still to be listed, one by one.

    ask(uid) ──► waiting, oldest first ──► take(): its list begins      when it is not busy and a place is free
                    │       │
                    │       └ a full list that began later is in: answered, nothing to do
                    └ as many wait already as may: dropped, the next full list sees the pod

Plain data and no clock: every time is an instant (``kit.instant``) that the caller brings along. Losing a request is
never worse than waiting for the next full list, which is why it may be dropped and need not be repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Container


class Look(NamedTuple):
    """A request to list one pod, and the instant it was last made."""

    uid: str
    asked_at: float


class Agenda:
    """Owns the requests for lists of one pod that have not begun, and how many were answered or dropped without one."""

    def __init__(self, waiting_max: int) -> None:
        self._asked: dict[str, float] = {}
        self._waiting_max = waiting_max
        self.answered = 0
        """Requests that a newer full list made unnecessary."""
        self.dropped = 0
        """Requests that found the agenda full."""

    def ask(self, uid: str, at: float) -> None:
        """Ask for a pod. Asking again is asking once, later: it keeps its turn, and only a newer list answers it. Who
        gives back a request of before asks for no less than has been asked meanwhile."""
        if uid not in self._asked and len(self._asked) >= self._waiting_max:
            self.dropped += 1
        else:
            self._asked[uid] = max(at, self._asked.get(uid, at))

    def answer(self, began: float, unseen: Container[str]) -> None:
        """A full list that began at that instant is in. It answers who was asked for before, but for the pods in
        ``unseen``, of which it does not tell the newest."""
        done = [uid for uid, at in self._asked.items() if at < began and uid not in unseen]
        for uid in done:
            del self._asked[uid]
        self.answered += len(done)

    def take(self, is_busy: Callable[[str], bool], after: float) -> Look | None:
        """The first who may be listed now, off the agenda; None when there is nobody. Who was asked for before
        ``after`` waits on: a full list under way is about to answer."""
        for uid, at in self._asked.items():
            if at > after and not is_busy(uid):
                del self._asked[uid]
                return Look(uid, at)
        return None

    def __len__(self) -> int:
        return len(self._asked)

    def __repr__(self) -> str:
        return f"<Agenda of {len(self._asked)}, {self.answered} answered by full lists, {self.dropped} dropped>"
