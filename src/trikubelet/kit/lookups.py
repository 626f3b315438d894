"""DNS lookups: names into addresses, in threads of their own.

A name server that does not answer holds a thread for many seconds. Trio looks names up in threads that everything else
shares; ``use`` gives lookups their own for the whole run, so that a dead name server stops lookups and nothing else.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import Any, Final

import trio

from trikubelet.kit.threads import ThreadPool

LOOKUPS_MAX: Final = 8
"""At the same time; each client of an API server looks up the same name."""


class Lookups(trio.abc.HostnameResolver):
    """The resolver that Trio asks for addresses. Numeric addresses never come here."""

    def __init__(self) -> None:
        self._threads = ThreadPool("lookups", LOOKUPS_MAX)

    @classmethod
    def use(cls) -> None:
        """For the rest of this run of Trio."""
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
        """As ``socket.getaddrinfo``. Raises OSError."""
        return await self._threads.run(partial(socket.getaddrinfo, host, port, family, type, proto, flags))

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """As ``socket.getnameinfo``. Raises OSError."""
        return await self._threads.run(partial(socket.getnameinfo, sockaddr, flags))
