"""What goes on is said at once and then seldom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.kit.seldom import Seldom

if TYPE_CHECKING:
    from trio.testing import MockClock


async def test_a_thing_is_said_at_once_and_again_when_the_silence_after_it_is_over(autojump_clock: MockClock) -> None:
    seldom, other = Seldom(10), Seldom(10)
    said = []
    for second in range(40):
        if seldom.may_say():
            said.append(second)
        await trio.sleep(1)

    assert [0, 10, 20, 30] == said
    assert other.may_say()


async def test_asking_does_not_lengthen_the_silence_and_calm_begins_none(autojump_clock: MockClock) -> None:
    seldom = Seldom()
    assert seldom.may_say()
    await trio.sleep(59)
    assert not seldom.may_say()
    await trio.sleep(1)
    assert seldom.may_say()
    await trio.sleep(3600)
    assert (True, False) == (seldom.may_say(), seldom.may_say())
