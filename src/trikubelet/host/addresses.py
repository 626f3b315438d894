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
    """Asks the kernel, which answers at once, and DNS, which may not: in a thread of its own, for the others are the
    API clients'."""

    def __init__(self) -> None:
        self._threads = ThreadPool("the node's name", 1)

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
        """The addresses that DNS, or the hosts file, has for the name; None where DNS does not answer now. A server
        that is away may take minutes; who gives it up is told None until its thread has ended."""
        try:
            found = await self._threads.run(partial(socket.getaddrinfo, name, None, type=socket.SOCK_DGRAM), name)
        except socket.gaierror as error:
            return None if error.errno == socket.EAI_AGAIN else ()
        except UnicodeError:  # a label is longer than DNS has any, as the kernel's 64 bytes of a host name allow
            return ()
        except (OSError, StillRunning):
            return None
        return tuple(dict.fromkeys(str(address[4][0]) for address in found))


class SimulatedAddresses(HostAddresses):
    """Of a node that only seems to be a machine: its name is known to no DNS, which is not asked, and nobody comes to
    it, so that any address will do."""

    def routed(self) -> Sequence[str]:
        """Those of the machine, where it has any."""
        return super().routed() or ("127.0.0.1",)

    async def named(self, name: str) -> Sequence[str] | None:
        """None known."""
        await trio.lowlevel.checkpoint()
        return ()
