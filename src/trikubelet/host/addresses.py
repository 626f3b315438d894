"""The addresses of this machine (``ports.HostNetwork``), by its routing table and by DNS."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.host.node import default_addresses
from trikubelet.kit.threads import StillRunning, ThreadPool

if TYPE_CHECKING:
    from collections.abc import Sequence


class HostAddresses:
    """Queries the kernel, which answers at once, and DNS, which may not: in a thread of its own, because the other
    threads belong to the API clients."""

    def __init__(self) -> None:
        self._threads = ThreadPool("the node's name", 1)

    def routed(self) -> Sequence[str]:
        """Return the addresses that the default routes send from, IPv4 first."""
        return default_addresses()

    def has(self, address: str) -> bool:
        """True if this machine has the address. Sends nothing: a packet to an own address has that source address, and
        a packet to any other has another. (Binding would also succeed with ip_nonlocal_bind.)"""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))
                return bool(probe.getsockname()[0] == address)
        except OSError:
            return False

    async def named(self, name: str) -> Sequence[str] | None:
        """Return the addresses of the name in DNS or the hosts file; None if DNS does not answer now. A server that is
        down may take minutes; after a cancelled query None is returned until its thread has ended."""
        try:
            found = await self._threads.run(partial(socket.getaddrinfo, name, None, type=socket.SOCK_DGRAM), name)
        except socket.gaierror as error:
            return None if error.errno == socket.EAI_AGAIN else ()
        except UnicodeError:  # a label is longer than DNS allows; the kernel's host names may have 64 bytes
            return ()
        except (OSError, StillRunning):
            return None
        return tuple(dict.fromkeys(str(address[4][0]) for address in found))


class SimulatedAddresses(HostAddresses):
    """The addresses of a simulated node: its name is in no DNS, which is not queried, and it has no clients, so that
    any address will do."""

    def routed(self) -> Sequence[str]:
        """Return the machine's addresses, if it has any."""
        return super().routed() or ("127.0.0.1",)

    async def named(self, name: str) -> Sequence[str] | None:
        """Return None."""
        await trio.lowlevel.checkpoint()
        return ()
