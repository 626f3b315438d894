"""What goes on is said at once and then seldom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.kit.log_rate_limit import LogRateLimit

if TYPE_CHECKING:
    from trio.testing import MockClock


async def test_a_thing_is_said_at_once_and_again_when_the_silence_after_it_is_over(autojump_clock: MockClock) -> None:
    log_rate_limit, other = LogRateLimit(10), LogRateLimit(10)
    said = []
    for second in range(40):
        if log_rate_limit.may_log():
            said.append(second)
        await trio.sleep(1)

    assert [0, 10, 20, 30] == said
    assert other.may_log()


async def test_asking_does_not_lengthen_the_silence_and_calm_begins_none(autojump_clock: MockClock) -> None:
    log_rate_limit = LogRateLimit()
    assert log_rate_limit.may_log()
    await trio.sleep(59)
    assert not log_rate_limit.may_log()
    await trio.sleep(1)
    assert log_rate_limit.may_log()
    await trio.sleep(3600)
    assert (True, False) == (log_rate_limit.may_log(), log_rate_limit.may_log())
