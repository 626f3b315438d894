"""The addresses of this machine (``ports.HostNetwork``), by its routing table and by DNS."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import trio

from trikubelet.host.node import default_addresses

if TYPE_CHECKING:
    from collections.abc import Sequence


class HostAddresses:
    """Asks the kernel, which answers at once, and DNS, which may not. Owns no state."""

    def routed(self) -> Sequence[str]:
        """The addresses that the default routes send from, IPv4 first."""
        return default_addresses()

    def has(self, address: str) -> bool:
        """Whether this machine has the address. Sends nothing: what is sent to an address of its own comes from it, and
        to any other from another one. (To bind to it would not tell where ip_nonlocal_bind is set.)"""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))
                return bool(probe.getsockname()[0] == address)
        except OSError:
            return False

    async def named(self, name: str) -> Sequence[str] | None:
        """The addresses that DNS, or the hosts file, has for the name; None where DNS does not answer now."""
        try:
            found = await trio.socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
        except socket.gaierror as error:
            return None if error.errno == socket.EAI_AGAIN else ()
        except OSError:
            return None
        return tuple(dict.fromkeys(str(address[4][0]) for address in found))


class SimulatedAddresses(HostAddresses):
    """Of a node that only seems to be a machine: its name is known to no DNS, which is not asked."""

    async def named(self, name: str) -> Sequence[str] | None:
        """None known."""
        await trio.lowlevel.checkpoint()
        return ()
