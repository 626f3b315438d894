"""From which network a client comes."""

from __future__ import annotations

import socket

import pytest
import trio
from trio.testing import memory_stream_pair

from trikubelet.httpd.client_network import UNKNOWN, client_network, network_of
from trikubelet.httpd.server import Request, Response, serve_http
from trikubelet.kit.wide_socket import WideSocket


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", UNKNOWN),
        ("no address", UNKNOWN),
    ],
)
def test_an_ipv4_address_is_a_network_and_of_ipv6_it_is_half_an_address(host: str, network: str) -> None:
    assert network == network_of(host)


async def test_sockets_say_where_clients_come_from() -> None:
    (ears,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with ears, await trio.open_tcp_stream(*ears.socket.getsockname()) as client:
        stream = await ears.accept()
        assert ["127.0.0.1"] * 2 == [client_network(one) for one in (stream, WideSocket(stream))]
        await stream.aclose()
        assert UNKNOWN == client_network(stream)
        await client.aclose()


async def test_what_has_no_addresses_comes_from_nowhere() -> None:
    one, other = (trio.SocketStream(trio.socket.from_stdlib_socket(half)) for half in socket.socketpair())
    near, far = memory_stream_pair()

    assert [UNKNOWN] * 2 == [client_network(one), client_network(near)]
    for stream in (one, other, near, far):
        await stream.aclose()


async def test_the_handler_is_told_where_a_request_comes_from() -> None:
    networks = []

    async def handler(request: Request) -> Response:
        networks.append(request.network)
        return Response()

    (ears,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_http, handler, [ears])
        async with await trio.open_tcp_stream(*ears.socket.getsockname()) as client:
            await client.send_all(b"GET / HTTP/1.1\r\nhost: n\r\n\r\n")
            assert (await client.receive_some()).startswith(b"HTTP/1.1 200 ")
        nursery.cancel_scope.cancel()

    assert ["127.0.0.1"] == networks
