"""Fetches the manifest URL over HTTP (``pods.http_source.ManifestFetch``).

httpx is imported at the first fetch: most nodes have no such URL and need not wait for it. Servers are trusted by the
machine's own certificate store, not by one that came with a package. Connections are not kept; the next use is many
seconds away.
"""

from __future__ import annotations

import errno
import ssl
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

REDIRECTS_MAX = 10
"""As Go's client has it."""


class ManifestUrl:
    """One URL and the headers sent with each request. A user and password in the URL are sent as basic credentials."""

    def __init__(self, url: str, headers: Mapping[str, Sequence[str]], bytes_max: int) -> None:
        self._url = url
        self._headers = [(name, value) for name, values in headers.items() for value in values]
        self._bytes_max = bytes_max
        self._client: httpx.AsyncClient | None = None

    async def fetch(self) -> tuple[int, bytes]:
        """Status and body of the answer. Raises OSError when there is none (ConnectionError and whatever else the
        transport met), EFBIG when it is larger than ``bytes_max``."""
        import httpx  # noqa: PLC0415 - see the top of the module

        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self._headers,
                verify=ssl.create_default_context(),
                timeout=None,  # noqa: S113 - the caller holds the scope
                follow_redirects=True,
                max_redirects=REDIRECTS_MAX,
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        body = bytearray()
        try:
            async with self._client.stream("GET", self._url) as answer:
                # Left by cancellation, not by a raise: it unwinds httpx's nested generators from the inside, which
                # would otherwise be left to the garbage collector half read.
                with trio.CancelScope() as reading:
                    async for chunk in answer.aiter_bytes():
                        body += chunk
                        if len(body) > self._bytes_max:
                            reading.cancel()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        if len(body) > self._bytes_max:
            raise OSError(errno.EFBIG, f"the answer is larger than {self._bytes_max} bytes")
        return answer.status_code, bytes(body)
