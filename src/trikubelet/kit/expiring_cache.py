"""A cache with expiry: answers that are believed for a while, and one question at a time about each key.

    get(key) ─► known and young: the answer
             └► not known: ask; callers of the same key wait meanwhile, and find the answer
                └ it fails ─► that caller gets the error, and the next waiting caller asks

For questions whose answers are expensive and asked for by many at once: the user of a token, the rights of a user.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

T = TypeVar("T")


class ExpiringCache(Generic[T]):
    """Owns the answers to one kind of question, at most ``entries_max``, and which are being asked. ``seconds`` says
    how long an answer is believed; not at all when it is 0."""

    def __init__(self, entries_max: int, seconds: Callable[[T], float]) -> None:
        self._entries_max = entries_max
        self._seconds = seconds
        self._answers: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._asking: dict[Hashable, trio.Lock] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer, from memory or asked for now. Always a checkpoint. Raises what ``ask`` raises."""
        lock = self._asking.setdefault(key, trio.Lock())
        try:
            async with lock:
                known = self._answers.get(key)
                if known is not None and trio.current_time() < known[0]:
                    self._answers.move_to_end(key)
                    return known[1]
                answer = await ask()
                self._keep(key, answer)
                return answer
        finally:
            waiting = lock.statistics()
            if not waiting.locked and not waiting.tasks_waiting and self._asking.get(key) is lock:
                del self._asking[key]

    def forget(self, key: Hashable) -> None:
        """Ask again at the next call. Callers that wait for an answer now still get that one."""
        self._answers.pop(key, None)

    def _keep(self, key: Hashable, answer: T) -> None:
        seconds = self._seconds(answer)
        self._answers.pop(key, None)
        if seconds > 0:
            self._answers[key] = (trio.current_time() + seconds, answer)
            if len(self._answers) > self._entries_max:
                self._answers.popitem(last=False)

    def __repr__(self) -> str:
        return f"<ExpiringCache: {len(self._answers)} of {self._entries_max} answers, {len(self._asking)} being asked>"
