"""From which network a client comes, for who shares something out among clients that have proved nothing.

An IPv4 address is a network of its own, whichever family the socket has. An IPv6 network is the first 64 bits: the
owner of one of its addresses can have all the others, too (RFC 4291, 2.5.4).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Final

import trio

from trikubelet.kit.wide_socket import WideSocket

UNKNOWN: Final = ""
"""The network of a Unix socket, which has no addresses, and of a client that has gone already."""
_HOST_BITS: Final = 64


def client_network(stream: trio.abc.Stream) -> str:
    """The network of the client at a stream's other end, ``UNKNOWN`` where that cannot be found out."""
    below = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    if not isinstance(below, (trio.SocketStream, WideSocket)):
        return UNKNOWN
    try:
        peer = below.socket.getpeername()
    except OSError:
        return UNKNOWN
    return network_of(peer[0]) if isinstance(peer, tuple) else UNKNOWN


def network_of(host: str) -> str:
    """The network of an address. ``UNKNOWN`` for what is none."""
    try:
        address = ip_address(host)
    except ValueError:
        return UNKNOWN
    if isinstance(address, IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address) >> _HOST_BITS << _HOST_BITS, _HOST_BITS)))
