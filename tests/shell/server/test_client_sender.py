"""What a client receives at the end: the closing message, wherever nothing was torn, and within one second."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from trikubelet.server.client_sender import ClientSender
from trikubelet.server.relay import either

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.server.relay import Silence


async def test_cancelled_send_before_the_first_byte_tears_nothing(autojump_clock: MockClock) -> None:
    near, far = memory_stream_pair()
    sender = ClientSender(far)
    with trio.CancelScope() as scope:
        scope.cancel()
        await sender.send_all(b"data")
    await sender.end(partial(sender.send_all, b"bye"))

    assert b"bye" == await near.receive_some()


@pytest.mark.parametrize(("taken", "end"), [([], 1), ([b"23456789"], 1), ([b"23456789", b"bye"], 0.9)])
async def test_what_is_being_sent_has_a_second_and_the_closing_message_what_is_left_of_it(
    autojump_clock: MockClock, taken: list[bytes], end: float
) -> None:
    near, far = lockstep_stream_pair()
    sender, ends = ClientSender(far), list[float]()

    async def send(_: Silence) -> None:
        await sender.send_all(b"0123456789")

    async def converse() -> None:
        with scope:
            await either(send, sender.finishes, idle_seconds_max=0)
        await sender.end(partial(sender.send_all, b"bye"))
        ends.append(trio.current_time())

    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(converse)
        assert b"01" == await near.receive_some(2)
        await wait_all_tasks_blocked()
        scope.cancel()
        await trio.sleep(0.9)
        assert taken == [await near.receive_some() for _ in taken]

    assert [end] == ends


async def test_unfinished_send_has_no_closing_message(autojump_clock: MockClock) -> None:
    """Nothing is shielded where ``finishes`` does not run, since nothing would end the shield."""
    _, far = lockstep_stream_pair()
    sender = ClientSender(far)
    with trio.move_on_after(5):
        await sender.send_all(b"data")
    assert 5 == trio.current_time()
    await sender.end(partial(sender.send_all, b"bye"))

    assert 5 == trio.current_time()


async def test_unread_closing_message_is_dropped(autojump_clock: MockClock) -> None:
    _, untaken = lockstep_stream_pair()
    sender = ClientSender(untaken)
    await sender.end(partial(sender.send_all, b"bye"))
    assert 1 == trio.current_time()
    near, unheard = memory_stream_pair()
    await near.aclose()
    sender = ClientSender(unheard)
    await sender.end(partial(sender.send_all, b"bye"))

    assert 1 == trio.current_time()
