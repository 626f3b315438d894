"""A cache with expiry: answers are valid for a while, and each key has one request at a time.

    get(key) ─► cached and fresh: the answer
             └► not cached: ask; callers of the same key wait meanwhile, and find the answer
                └ it fails ─► that caller gets the error, and the next waiting caller asks

For expensive answers that many callers need at once: the user of a token, the rights of a user.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

T = TypeVar("T")


class ExpiringCache(Generic[T]):
    """Owns at most ``entries_max`` cached answers of one kind, and the requests in progress. ``seconds`` returns how
    long an answer stays valid; 0: it is not cached."""

    def __init__(self, entries_max: int, seconds: Callable[[T], float]) -> None:
        self._entries_max = entries_max
        self._seconds = seconds
        self._answers: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._asking: dict[Hashable, trio.Lock] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer, cached or requested now. Always a checkpoint. Raises the exceptions of ``ask``."""
        lock = self._asking.setdefault(key, trio.Lock())
        try:
            async with lock:
                # Looked up under the lock: the caller before this one may just have got the answer.
                known = self._answers.get(key)
                if known is not None and trio.current_time() < known[0]:
                    self._answers.move_to_end(key)
                    return known[1]
                answer = await ask()
                self._keep(key, answer)
                return answer
        finally:
            # The last caller removes the lock: a new caller must meet the same one as the callers that still wait.
            waiting = lock.statistics()
            if not waiting.locked and not waiting.tasks_waiting and self._asking.get(key) is lock:
                del self._asking[key]

    def forget(self, key: Hashable) -> None:
        """Drop the cached answer. Callers that wait now still get the answer of the request in progress."""
        self._answers.pop(key, None)

    def _keep(self, key: Hashable, answer: T) -> None:
        seconds = self._seconds(answer)
        self._answers.pop(key, None)
        if seconds > 0:
            self._answers[key] = (trio.current_time() + seconds, answer)
            if len(self._answers) > self._entries_max:
                self._answers.popitem(last=False)

    def __repr__(self) -> str:
        return f"<ExpiringCache: {len(self._answers)} of {self._entries_max} answers, {len(self._asking)} requested>"
