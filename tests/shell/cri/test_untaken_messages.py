"""What nobody takes stays bounded, in memory and not only in bytes of payload."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from trikubelet.core.frames import StreamData
from trikubelet.cri.exchange import MESSAGE_EXTRA_BYTES, UNTAKEN_BYTES_MAX, Exchange
from trikubelet.cri.list_parts import CONTAINERS
from trikubelet.cri.lists import _Chunks
from trikubelet.cri.wire import STREAM_WINDOW_BYTES
from trikubelet.model.runtime_errors import MessageTooLarge


class Windows:
    """As much of a wire as an exchange needs to open windows: what it has given back."""

    def __init__(self) -> None:
        self.room = trio.lowlevel.ParkingLot()
        self.given: list[int] = []

    def give_back_unseen(self, _stream_id: int, flow_bytes: int) -> None:
        self.given.append(flow_bytes)


async def test_a_stream_of_empty_messages_is_given_no_new_window_until_they_are_taken() -> None:
    windows = Windows()
    exchange = Exchange(cast("Any", windows), 1, lambda _: None, trio.lowlevel.ParkingLot())
    exchange.on_headers({":status": "200", "content-type": "application/grpc"}, last=False)
    half, many = STREAM_WINDOW_BYTES // 2, UNTAKEN_BYTES_MAX // MESSAGE_EXTRA_BYTES
    exchange.on_data(StreamData(1, half, [b""] * many, midway=False, refusal=None))
    assert [half] == windows.given
    exchange.on_data(StreamData(1, half, [b""], midway=False, refusal=None))
    assert [half] == windows.given

    assert b"" == await exchange.take()
    assert [half, half] == windows.given


def test_a_list_of_empty_chunks_ends_where_their_number_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trikubelet.cri.lists.LIST_BYTES_MAX", 10 * MESSAGE_EXTRA_BYTES)
    chunks = _Chunks(CONTAINERS)
    chunks.add([b""] * 10)
    with pytest.raises(MessageTooLarge, match="list of containers is longer"):
        chunks.add([b""])
