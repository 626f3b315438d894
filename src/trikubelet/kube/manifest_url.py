"""Fetches the manifest URL over HTTP (``sources.url.ManifestFetch``).

Servers are trusted by the machine's own certificate store, not by one that came with a package. Connections are made as
those to an API server, so that none is forgotten that is given up half made: a server that hangs in its TLS handshake
must not cost a socket with every look. They are not kept; the next use is many seconds away. A proxy that the
environment names is asked for a tunnel. It brings httpx with it: who has no such URL does not import this.
"""

from __future__ import annotations

import errno
import ssl
from typing import TYPE_CHECKING
from urllib.request import getproxies, proxy_bypass

import httpx
import trio

from trikubelet.kube.errors import transport_errors
from trikubelet.kube.transport import Transport
from trikubelet.model.api_errors import ApiError
from trikubelet.model.kubeconfig import Server
from trikubelet.model.manifest_places import ManifestAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REDIRECTS_MAX = 10
"""As Go's client has it."""


class ManifestUrl:
    """One URL and the headers sent with each request. A user and password in the URL are sent as basic credentials."""

    def __init__(self, url: str, headers: Mapping[str, Sequence[str]], bytes_max: int) -> None:
        self._url = url
        self._bytes_max = bytes_max
        self._hops = _Hops()
        self._client = httpx.AsyncClient(
            headers=[(name, value) for name, values in headers.items() for value in values],
            transport=self._hops,
            timeout=None,  # noqa: S113 - the caller holds the scope
            follow_redirects=True,
            max_redirects=REDIRECTS_MAX,
        )

    async def fetch(self) -> ManifestAnswer:
        """The answer. Raises OSError when there is none or it was cut (ConnectionError and whatever else the transport
        met), EFBIG when it is larger than ``bytes_max``."""
        body = bytearray()
        try:
            with transport_errors("the server"):
                async with self._client.stream("GET", self._url) as answer:
                    # Left by cancellation, not by a raise: it unwinds httpx's nested generators from the inside, which
                    # would otherwise be left to the garbage collector half read.
                    with trio.CancelScope() as reading:
                        async for chunk in answer.aiter_bytes():
                            body += chunk
                            if len(body) > self._bytes_max:
                                reading.cancel()
        except httpx.TooManyRedirects as error:
            last = error.request.url.copy_with(userinfo=b"")
            raise ConnectionError(f"redirected more than {REDIRECTS_MAX} times, the last time to {last}") from error
        except (ApiError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        finally:
            self._hops.close_all()
        if len(body) > self._bytes_max:
            raise OSError(errno.EFBIG, f"the answer is larger than {self._bytes_max} bytes")
        has_length = not {"content-length", "transfer-encoding"}.isdisjoint(answer.headers)
        return ManifestAnswer(answer.status_code, bytes(body), has_length)


class _Hops(httpx.AsyncBaseTransport):
    """Holds the connections of one fetch. Each request has its own: a redirect may lead anywhere."""

    def __init__(self) -> None:
        self._used: list[Transport] = []
        self._trusted: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As httpx has it. Raises what ``Transport`` does, httpx.UnsupportedProtocol and InvalidURL."""
        url = request.url
        if url.scheme not in ("http", "https") or not url.host:
            raise httpx.UnsupportedProtocol("it must begin with http:// or https:// and name a host")
        proxy = "" if proxy_bypass(url.host) else getproxies().get(url.scheme, "")
        if proxy and "://" not in proxy:
            proxy = f"http://{proxy}"  # as Go takes HTTP_PROXY=host:port
        try:
            transport = Transport(Server(str(url), proxy=proxy), self._authorities, connections_max=1)
        except ValueError as error:  # its port is none
            raise httpx.InvalidURL(str(error)) from error
        self._used.append(transport)
        await request.aread()  # the transport sends a request whole; that of a redirect is not read yet
        request.extensions = {**request.extensions, "target": url.raw_path}
        return await transport.handle_async_request(request)

    def close_all(self) -> None:
        """Close every connection. Never blocks."""
        for transport in self._used:
            transport.close_all()
        self._used.clear()

    def _authorities(self) -> ssl.SSLContext:
        if self._trusted is None:
            self._trusted = ssl.create_default_context()  # some megabytes: once, and not for plain HTTP
        return self._trusted
