"""Two halves of a conversation, side by side: which of them ends it, and what else they raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.server.relay import either

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock

    from trikubelet.server.relay import Silence


async def quiet(_silence: Silence) -> None:
    await trio.sleep_forever()


async def ends(_silence: Silence) -> None:
    await trio.sleep(1)


async def breaks(_silence: Silence) -> None:
    await trio.sleep(1)
    raise trio.BrokenResourceError


async def fails_as_it_is_given_up(_silence: Silence) -> None:
    async def fail() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("oops")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
        nursery.start_soon(trio.sleep_forever)


@pytest.mark.parametrize("half", [ends, breaks])
async def test_a_half_that_ends_or_breaks_ends_both(
    half: Callable[[Silence], object], autojump_clock: MockClock
) -> None:
    assert await either(quiet, half, idle_seconds_max=60)  # type: ignore[arg-type]
    assert 1.0 == trio.current_time()


async def test_silence_is_told_from_an_end(autojump_clock: MockClock) -> None:
    assert not await either(quiet, quiet, idle_seconds_max=60)
    assert 60.0 == trio.current_time()


async def test_what_a_half_raises_as_it_is_given_up_is_raised_as_itself(autojump_clock: MockClock) -> None:
    with pytest.raises(ValueError, match="oops"):
        await either(fails_as_it_is_given_up, ends, idle_seconds_max=60)
