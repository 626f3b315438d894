"""Problems of calls to a port, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

import trio

from trikubelet.model.errors import VolumeFailed
from trikubelet.model.runtime_errors import RuntimeFailure, RuntimeUnavailable


@dataclass(frozen=True, slots=True)
class Odds:
    """How often calls are slow, fail or hang. Probabilities; ``latency_seconds`` is a mean. A failing call may have
    done its work before it fails: that is what a lost answer looks like. With ``only``, calls of other names succeed.

    ``lost_event``: a container event that is never sent; ``lost_stream``: one that ends the stream it was to go out on;
    ``repeated_event``: one that is followed by one already sent. An API server loses no event but with its stream.
    """

    latency_seconds: float = 0.0
    error: float = 0.0
    lost_answer: float = 0.0
    hang: float = 0.0
    only: frozenset[str] | None = None
    lost_event: float = 0.0
    lost_stream: float = 0.0
    repeated_event: float = 0.0


NO_PROBLEM = Odds()
SLOW_VOLUME_SECONDS_MAX = 10.0
"""Less than ``simulation.NOTICES_SECONDS_MAX``: a sync that began before everything became calm ends in time."""


class Problems:
    """Draws problems for calls. Owns the seeded source; the same seed gives the same problems."""

    def __init__(self, odds: Odds = NO_PROBLEM, chance: random.Random | None = None) -> None:
        self.odds = odds
        self.chance = chance or random.Random(0)  # noqa: S311 - a simulation's seed

    async def before(self, call: str, *, may_hang: bool = True) -> None:
        """Apply the problems before a call does its work: time passes, or it fails or hangs, if it may."""
        if self._is_exempt(call):
            await trio.lowlevel.checkpoint()
            return
        await trio.sleep(self._latency())
        draw = self.chance.random()
        if draw < self.odds.hang and may_hang:
            await trio.sleep_forever()
        if draw < self.odds.hang + self.odds.error:
            raise self.error(call, done=False)

    async def after(self, call: str) -> None:
        """Apply the problems after a call did its work: the answer takes time, or is lost."""
        if self._is_exempt(call):
            await trio.lowlevel.checkpoint()
            return
        await trio.sleep(self._latency())
        if self.chance.random() < self.odds.lost_answer:
            raise self.error(call, done=True)

    def loses_event(self) -> bool:
        """True if the next container event is lost."""
        return self.chance.random() < self.odds.lost_event

    def loses_stream(self) -> bool:
        """True if the stream of events ends now."""
        return self.chance.random() < self.odds.lost_stream

    def repeats_event(self) -> bool:
        """True if an event that was sent before is sent again."""
        return self.chance.random() < self.odds.repeated_event

    def error(self, call: str, *, done: bool) -> Exception:
        """Return a call's error, before or after it was done: here like a runtime's."""
        if self.chance.random() < 0.5:
            return RuntimeUnavailable(f"{call}: the connection was lost")
        return RuntimeFailure(f"{call}: simulated failure")

    def _is_exempt(self, call: str) -> bool:
        return self.odds.only is not None and call not in self.odds.only

    def _latency(self) -> float:
        mean = self.odds.latency_seconds
        return self.chance.expovariate(1 / mean) if mean else 0.0


class ImageProblems(Problems):
    """Draws the problems of an image service. A pull has no deadline, so a hanging one waits for its registry;
    ``hang``: the probability of that, drawn from ``hangs``, so that the other problems stay the same."""

    def __init__(self, odds: Odds, chance: random.Random, hangs: random.Random) -> None:
        super().__init__(odds, chance)
        self.hang = 0.0
        self.hangs = hangs
        self._goes_on = trio.Event()

    def end_hangs(self) -> None:
        """Have the registry answer hanging pulls, and let none hang any more."""
        self.hang = 0.0
        self._goes_on.set()

    async def before(self, call: str, *, may_hang: bool = True) -> None:
        """Apply the problems of any call; a pull may hang first."""
        if call == "PullImage" and self.hangs.random() < self.hang:
            await self._goes_on.wait()
        await super().before(call, may_hang=may_hang)


class VolumeProblems(Problems):
    """Draws the problems of disks and servers."""

    def _latency(self) -> float:
        return min(super()._latency(), SLOW_VOLUME_SECONDS_MAX)

    def error(self, call: str, *, done: bool) -> Exception:
        """Return a volume's error."""
        return VolumeFailed("FailedMount", f"{call}: simulated failure")
