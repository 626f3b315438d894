"""A connection in large steps, over a real one."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import trio

from trikubelet.kit.wide_socket import STEP_BYTES, UNSENT_BYTES_MAX, WideSocket

if TYPE_CHECKING:
    import pytest


async def test_as_much_as_a_step_is_read_at_once_and_no_more_than_was_asked_for() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    client = await trio.open_tcp_stream(*listener.socket.getsockname())
    accepted = await listener.accept()
    server = WideSocket(accepted)
    async with listener, client, server, trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, bytes(2 * STEP_BYTES))
        assert 7 == len(await server.receive_some(7))
        sizes, left = [], 2 * STEP_BYTES - 7
        while left:
            sizes.append(len(await server.receive_some()))
            left -= sizes[-1]
        assert max(sizes) <= STEP_BYTES
        await server.send_all(b"answer")
        assert b"answer" == await client.receive_some()
        level = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
        assert UNSENT_BYTES_MAX == level
        await client.aclose()
        assert b"" == await server.receive_some()


async def test_a_network_stack_without_the_option_gives_a_connection_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no such option")

    near, far = socket.socketpair()
    with far:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(near))
        monkeypatch.setattr(trio.SocketStream, "setsockopt", refuse)
        async with WideSocket(stream) as server:
            far.sendall(b"hello")
            assert b"hello" == await server.receive_some()
