"""Troubles: what can go wrong with a call to the outside, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

import trio

from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeFailure, RuntimeUnavailable


@dataclass(frozen=True, slots=True)
class Odds:
    """How often calls are slow, fail or hang. Probabilities; ``latency_seconds`` is a mean. A failing call may have
    done its work before it fails: that is what a lost answer looks like."""

    latency_seconds: float = 0.0
    error: float = 0.0
    lost_answer: float = 0.0
    hang: float = 0.0


NO_TROUBLE = Odds()


class Troubles:
    """Draws troubles for calls. Owns the seeded source; the same seed gives the same troubles."""

    def __init__(self, odds: Odds = NO_TROUBLE, chance: random.Random | None = None) -> None:
        self.odds = odds
        self._chance = chance or random.Random(0)  # noqa: S311 - a simulation's seed

    async def before(self, call: str) -> None:
        """What happens before a call does its work: time passes, or it fails or hangs."""
        await trio.sleep(self._latency())
        draw = self._chance.random()
        if draw < self.odds.hang:
            await trio.sleep_forever()
        if draw < self.odds.hang + self.odds.error:
            raise self._error(call)

    async def after(self, call: str) -> None:
        """What happens after a call did its work: the answer takes time, or is lost."""
        await trio.sleep(self._latency())
        if self._chance.random() < self.odds.lost_answer:
            raise self._error(call)

    def _latency(self) -> float:
        mean = self.odds.latency_seconds
        return self._chance.expovariate(1 / mean) if mean else 0.0

    def _error(self, call: str) -> RuntimeCallError:
        if self._chance.random() < 0.5:
            return RuntimeUnavailable(f"{call}: the connection was lost")
        return RuntimeFailure(f"{call}: simulated failure")
