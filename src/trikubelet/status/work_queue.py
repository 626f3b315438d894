"""The work queue: the order in which many names are served by one server.

Only names wait; their work is looked up when their turn comes. A name that is added again while it waits keeps its
place. One that is being served waits until that has finished, so that the work for one name is done in order. The same
holds for names of one lane. Urgent ones go first, then the ones that have waited longest.

The caller reports the outcome of each turn. A failing server pauses all names (``kit.circuit_breaker``): after a pause
one of them tries. The server may also fail for just this name. So unless the request certainly never reached the
server, the name backs off on its own, and the others have their turns first. A name that fails again, while others are
answered, stops no other; names that failed before hold at most half of the places; and while the breaker admits only
one, the newest of the others goes first. So a webhook that fails or hangs for some objects does not stop all writes. A
rejection (403, 422) only delays that object.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

from trikubelet.kit.backoff import Backoff
from trikubelet.kit.circuit_breaker import CircuitBreaker
from trikubelet.model.api_errors import (
    ApiBusy,
    ApiError,
    ApiFailure,
    ApiLost,
    ApiUnreachable,
    NothingToShow,
    Unauthorized,
    retry_after_seconds,
)
from trikubelet.ports.request_outcomes import RequestOutcomes

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator

    from trikubelet.kit.outage import Outage
    from trikubelet.model.bounds import Bounds

FIRST_PAUSE_SECONDS: Final = 0.2
FIRST_RETRY_SECONDS: Final = 1.0

K = TypeVar("K", bound="Hashable")


@contextmanager
def answer_within(seconds: float) -> Iterator[None]:
    """Set a deadline for a request. Raises ApiLost if no answer arrived in time, as for a lost connection."""
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError as error:
        raise ApiLost(f"no answer within {seconds:g}s") from error


@dataclass(frozen=True, slots=True)
class WorkItem(Generic[K]):
    """A name's turn. ``since``: when it was first added (Trio's clock, seconds)."""

    name: K
    since: float


class WorkQueue(Generic[K]):
    """Owns the waiting names, the names being served, and the times before which names must not be served.

    ``doing``: the purpose of the requests, for the log; ``served_max``: number of names served at the same time;
    ``lane``: names with the same lane are served one after another, each name has its own by default.
    """

    def __init__(
        self,
        doing: str,
        served_max: int,
        outage: Outage,
        bounds: Bounds,
        chance: random.Random,
        *,
        lane: Callable[[K], Hashable] | None = None,
    ) -> None:
        self._outcomes = RequestOutcomes(doing, outage)
        self._bounds = bounds
        self._chance = chance
        self._breaker = CircuitBreaker(self._new_backoff(FIRST_PAUSE_SECONDS, bounds.api_pause_seconds_max), served_max)
        self._urgent: dict[K, float] = {}
        self._rest: dict[K, float] = {}
        self._served: set[K] = set()
        self._lane = lane or (lambda name: name)
        self._not_before: dict[K, float] = {}
        self._backoffs: dict[K, Backoff] = {}
        self._refusals: Counter[K] = Counter()
        self._failures: Counter[K] = Counter()
        self._changed = trio.Event()

    def add(self, name: K, *, urgent: bool = False) -> None:
        """Queue the name. Never blocks; adding twice is adding once, and an urgent addition moves it to the front."""
        if name in self._rest and urgent:
            self._urgent[name] = self._rest.pop(name)
        elif name not in self._urgent:
            (self._urgent if urgent else self._rest).setdefault(name, trio.current_time())
        self._changed.set()

    async def get(self) -> WorkItem[K]:
        """Wait for the next name; the caller ends its turn with ``done``. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while True:
            self._changed = trio.Event()
            found = self._next()
            if isinstance(found, WorkItem):
                return found
            with trio.move_on_at(found):
                await self._changed.wait()

    def done(self, name: K) -> None:
        """End the name's turn."""
        self._served.discard(name)
        self._changed.set()

    def forget(self, name: K) -> None:
        """Forget the name, which does not exist any more."""
        self._backoffs.pop(name, None)
        self._refusals.pop(name, None)
        self._failures.pop(name, None)
        self._not_before.pop(name, None)

    def keep(self, names: Collection[K]) -> None:
        """Forget all names but these."""
        for name in (self._backoffs.keys() | self._not_before.keys()) - set(names):
            self.forget(name)

    def skip_backoff(self, name: K) -> None:
        """Clear the delay of the name's back-off, because its work has changed; the back-off keeps growing if that
        fails."""
        if self._not_before.pop(name, None) is not None:
            self._changed.set()

    # ---- outcomes ----

    def answered(self, name: K, rest_seconds: float = 0.0) -> None:
        """Record an answer: the name need not wait, unless it has a delay before its next turn."""
        self.forget(name)
        if rest_seconds:
            self._not_before[name] = trio.current_time() + rest_seconds
        self._hear()

    def refused(self, name: K) -> int:
        """Record a rejection: the name backs off. Return the number of consecutive rejections."""
        self._refusals[name] += 1
        self._delay(name, self._bounds.api_retry_seconds_max)
        self._hear()
        return self._refusals[name]

    def back_off(self, name: K) -> None:
        """Record that no request was sent, because of a bug of our own; the name backs off."""
        self._delay(name, self._bounds.api_retry_seconds_max)

    def failed(self, name: K, error: ApiError) -> int:
        """Record a failure, a busy server, or rejected credentials. Return the number of consecutive failures with this
        name, if the name may be the reason."""
        self._outcomes.failed(error)
        says_nothing_new = (
            isinstance(error, ApiFailure | ApiLost) and name in self._failures and self._breaker.is_answering
        )
        if not says_nothing_new:
            self._breaker.failed(retry_after_seconds(error))
        if not isinstance(error, ApiBusy | ApiUnreachable | Unauthorized | NothingToShow):
            self._failures[name] += 1
            self._delay(name, self._bounds.api_pause_seconds_max)
        return self._failures[name]

    def _hear(self) -> None:
        self._breaker.answered()
        self._outcomes.worked()

    def _delay(self, name: K, seconds_max: float) -> None:
        backoff = self._backoffs.setdefault(name, self._new_backoff(FIRST_RETRY_SECONDS, seconds_max))
        self._not_before[name] = trio.current_time() + backoff.next_seconds()

    def _new_backoff(self, first_seconds: float, seconds_max: float) -> Backoff:
        return Backoff(first_seconds, seconds_max, jitter=0.5, chance=self._chance)

    # ---- turns ----

    def _next(self) -> WorkItem[K] | float:
        """Begin the next turn, or return the time at which to check again."""
        now = trio.current_time()
        if len(self._served) >= self._breaker.requests_max:
            return math.inf
        if now < self._breaker.blocked_until:
            return self._breaker.blocked_until
        soonest = math.inf
        names: Iterable[K] = chain(self._urgent, self._rest)
        if not self._breaker.is_answering:
            # The first answer closes the breaker. If many names were added together, like the pods of one namespace,
            # all may fail, each with a pause for all names: so the newest name tries before them.
            newest = chain(reversed(self._urgent), reversed(self._rest))
            names = sorted(newest, key=self._failures.__contains__)
        # One at least, or nothing would be retried while the breaker admits only one.
        lanes = {self._lane(name) for name in self._served}
        is_room_for_failed = len(self._served & self._failures.keys()) < max(1, self._breaker.requests_max // 2)
        for name in names:
            if self._lane(name) in lanes or (name in self._failures and not is_room_for_failed):
                continue  # it waits for ``done``
            allowed = self._not_before.get(name, now)
            if allowed <= now:
                self._not_before.pop(name, None)
                self._served.add(name)
                return WorkItem(name, (self._urgent if name in self._urgent else self._rest).pop(name))
            soonest = min(soonest, allowed)
        return soonest

    @property
    def waiting(self) -> int:
        """Return the number of waiting names."""
        return len(self._urgent) + len(self._rest)

    def is_waiting(self, name: K) -> bool:
        """True if this name waits."""
        return name in self._urgent or name in self._rest

    @property
    def served(self) -> frozenset[K]:
        """Return the names being served."""
        return frozenset(self._served)

    def __repr__(self) -> str:
        return f"<WorkQueue: {len(self._urgent)} urgent, {len(self._rest)} waiting, {len(self._served)} being served>"
