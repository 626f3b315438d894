"""DNS lookups in their own threads.

A name server that does not answer blocks a thread for many seconds. Trio resolves names in threads that all other work
shares; ``use`` gives lookups their own for the whole run, so that a dead name server blocks only lookups.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import Any, Final

import trio

from trikubelet.kit.threads import ThreadPool

LOOKUPS_MAX: Final = 8
"""Concurrent lookups; all clients of an API server look up the same name."""


class Lookups(trio.abc.HostnameResolver):
    """Trio's resolver. It is never called for numeric addresses."""

    def __init__(self) -> None:
        self._threads = ThreadPool("lookups", LOOKUPS_MAX)

    @classmethod
    def use(cls) -> None:
        """Use this resolver for the rest of this run of Trio."""
        trio.socket.set_custom_hostname_resolver(cls())

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: Any,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """Like ``socket.getaddrinfo``. Raises OSError."""
        return await self._threads.run(partial(socket.getaddrinfo, host, port, family, type, proto, flags))

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """Like ``socket.getnameinfo``. Raises OSError."""
        return await self._threads.run(partial(socket.getnameinfo, sockaddr, flags))
