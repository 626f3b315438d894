"""How many examples property tests draw, and from what. The same every time, so that a run says something about the
change and not about the day, and then a part of them will do: run after run they find nothing new. ``make fuzz`` and
``TRIKUBELET_EXPLORE=1`` draw fresh ones, all of them, from a number that the run's last lines tell;
``TRIKUBELET_EXPLORE=<that number>`` draws them again."""

from __future__ import annotations

import os
from random import SystemRandom


def _explored() -> str:
    """The number that what is fresh is drawn from; empty where nothing is. Whoever wants more examples wants others."""
    asked = os.environ.get("TRIKUBELET_EXPLORE", "") or (os.environ.get("RELIST_EXAMPLES", "") and "1")
    if not asked or (asked.isdecimal() and asked != "1"):
        return asked
    drawn = str(SystemRandom().randrange(2, 2**32))
    os.environ["TRIKUBELET_EXPLORE"] = drawn  # for the processes that share the tests out, each of which would draw one
    return drawn


EXPLORED = _explored()


def examples(fresh: int) -> int:
    """Of so many that a test draws where they are fresh."""
    return fresh if EXPLORED else fresh * 2 // 5
