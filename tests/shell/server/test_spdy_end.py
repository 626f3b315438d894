"""A connection that speaks SPDY and is handed on unread: its pings are answered here, between the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from trikubelet.core import spdy
from trikubelet.server.relay import relay
from trikubelet.server.spdy_end import PONGS_MAX, SpdyEnd

if TYPE_CHECKING:
    from trio.testing import MockClock


async def test_a_ping_is_answered_where_it_comes_and_neither_passes_nor_breaks_the_silence(
    autojump_clock: MockClock,
) -> None:
    (near, far), (ours, its) = memory_stream_pair(), memory_stream_pair()
    ends = SpdyEnd(far, is_client=True), SpdyEnd(ours, is_client=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay, *ends, 60)
        for number in (1, 3):
            await near.send_all(spdy.ping(number) + spdy.data(3, b"input"))
            await its.send_all(spdy.ping(2))
            assert spdy.ping(number) == await near.receive_some()
            await wait_all_tasks_blocked()
            pong, said = spdy.ping(2), spdy.data(3, b"input")
            heard = b""
            while len(heard) < len(pong + said):
                heard += await its.receive_some()
            assert heard in (pong + said, said + pong)
        await its.send_all(spdy.data(5, b"output")[:11])
        assert spdy.data(5, b"out") == await near.receive_some()
        await near.send_all(spdy.ping(5))
        assert spdy.ping(5) == await near.receive_some()  # though amid a frame of the runtime's
        await its.send_all(spdy.data(5, b"output")[11:])
        await trio.sleep(59)
        await near.send_all(spdy.ping(7))
        await its.send_all(spdy.ping(4))

    assert 60 == trio.current_time()


async def test_pong_follows_the_send_in_progress(autojump_clock: MockClock) -> None:
    near, far = lockstep_stream_pair()
    end = SpdyEnd(far, is_client=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end.send_all, spdy.data(5, b"output"))
        await wait_all_tasks_blocked()
        nursery.start_soon(near.send_all, spdy.ping(1) + spdy.ping(2) + spdy.data(3, b"x"))
        assert spdy.data(3, b"x") == await end.receive_some()
        told = b""
        while len(told) < 14 + 12:
            told += await near.receive_some()

    assert spdy.data(5, b"output") + spdy.ping(1) == told


async def test_newest_pings_are_answered(autojump_clock: MockClock) -> None:
    near, far = memory_stream_pair()
    await near.send_all(b"".join(spdy.ping(2 * number + 1) for number in range(1000)))
    await near.send_eof()

    assert b"" == await SpdyEnd(far, is_client=True).receive_some()
    assert b"".join(spdy.ping(2 * number + 1) for number in range(1000 - PONGS_MAX, 1000)) == await near.receive_some()


async def test_frames_of_a_non_reading_client_are_read_and_invalid_ones_end_the_stream(
    autojump_clock: MockClock,
) -> None:
    near, far = memory_stream_pair()
    near.receive_stream.close()  # type: ignore[attr-defined]
    await near.send_all(spdy.ping(1) + spdy.data(3, b"x"))
    end = SpdyEnd(far, is_client=True)
    assert spdy.data(3, b"x") == await end.receive_some()
    await near.send_all(b"\x80\xff\xff\xff\xff\xff\xff\xff")

    assert b"" == await end.receive_some()
