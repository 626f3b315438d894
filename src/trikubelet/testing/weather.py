"""The problems of a simulated node's calls for a while, drawn: slowness, errors, lost answers, hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.testing.chance import Odds
from trikubelet.testing.observer import STOPS

if TYPE_CHECKING:
    import random

LISTS = frozenset({"ListPodSandbox", "ListContainers"})
INSPECTIONS = frozenset({"PodSandboxStatus", "ContainerStatus"})


def weather_of_calls(chance: random.Random) -> tuple[float, Odds]:
    """The mean of a call's seconds, and the problems of those to the runtime."""
    slow = chance.choice((0.001, 0.01, 0.1, 0.4))
    return slow, chance.choice(
        (
            Odds(slow),
            Odds(slow, error=0.1, lost_answer=0.1),
            Odds(slow, error=0.05, lost_answer=0.05, hang=0.03),
            Odds(slow, error=1.0),
            Odds(slow, lost_event=0.5, lost_stream=0.1),
            Odds(2.0, error=0.3, only=LISTS, lost_event=0.1),
            Odds(slow, error=0.5, hang=0.2, only=INSPECTIONS),
            Odds(slow, error=0.5, only=STOPS),
        )
    )


def weather_of_volumes(chance: random.Random, slow: float) -> Odds:
    """The problems of calls to volumes."""
    return chance.choice((Odds(slow), Odds(slow, error=0.3), Odds(slow, error=1.0), Odds(8.0, error=0.1)))
