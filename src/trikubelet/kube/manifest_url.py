"""Fetches the manifest URL over HTTP (``sources.url.ManifestFetch``).

    request ─► connection of its own ─► head ─┬─ redirect ─► its body is left unread ─► the place it names, again
                                              └─ any other ─► body, within bounds (``body.read_body``)

Servers are trusted by the machine's own certificate store, not by one that came with a package. Connections are made as
those to an API server, so that none is forgotten that is given up half made: a server that hangs in its TLS handshake
must not cost a socket with every look. They are not kept; the next use is many seconds away. A proxy that the
environment names is asked for a tunnel. httpx has a client that follows redirects, too; it unpacks the body of each
answer, whatever that comes to, and keeps every cookie it is sent. Go's, which upstream uses, does neither. This brings
httpx with it: an agent without such a URL does not import it.
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from typing import TYPE_CHECKING, Final
from urllib.request import getproxies, proxy_bypass

import httpx

from trikubelet.kube.body import read_body
from trikubelet.kube.errors import transport_errors
from trikubelet.kube.transport import Transport
from trikubelet.model.api_errors import ApiError
from trikubelet.model.kubeconfig import Server
from trikubelet.model.manifest_places import ManifestAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REDIRECTS_MAX: Final = 10
"""As Go's client has it."""
_SENT: Final = {"accept": "*/*", "accept-encoding": "gzip", "user-agent": "trikubelet"}
"""Unless the configuration has others."""
_FOR_ONE_SERVER: Final = ("authorization", "cookie", "cookie2", "proxy-authorization", "www-authenticate")
"""Headers that are not sent to another server after a redirect, like Go's client."""


class ManifestUrl:
    """One URL and the headers sent with each request. A user and password in the URL are sent as basic credentials."""

    def __init__(self, url: str, headers: Mapping[str, Sequence[str]], bytes_max: int) -> None:
        self._url = url
        self._headers = httpx.Headers(_SENT)
        pairs = [(name, value) for name, values in headers.items() for value in values]
        self._headers.update([(_octets(name), _octets(value)) for name, value in pairs])
        self._bytes_max = bytes_max
        self._trusted: ssl.SSLContext | None = None

    async def fetch(self) -> ManifestAnswer:
        """The answer. Raises OSError when there is none, it was cut, is larger than ``bytes_max`` or packed otherwise
        than with gzip, once (ConnectionError and whatever else the transport met)."""
        try:
            url = httpx.URL(self._url)
            headers = _with_login(self._headers, url)
            for _ in range(REDIRECTS_MAX + 1):
                answer = await self._ask(url, headers)
                if isinstance(answer, ManifestAnswer):
                    return answer
                url, headers = answer, _for_redirect(headers, url, answer)
        except (ApiError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        last = url.copy_with(userinfo=b"")
        raise ConnectionError(f"redirected more than {REDIRECTS_MAX} times, the last time to {last}")

    async def _ask(self, url: httpx.URL, headers: httpx.Headers) -> ManifestAnswer | httpx.URL:
        """The answer, or where it sends us. Raises httpx's errors, those of ``model.api_errors`` and ValueError."""
        transport = self._transport_to(url)
        try:
            with transport_errors("the server"):
                target = {"target": url.raw_path}
                response = await transport.handle_async_request(
                    httpx.Request("GET", url, headers=headers, extensions=target)
                )
                if response.has_redirect_location:
                    return url.join(response.headers["location"])
                body = await read_body(response, self._bytes_max)
        finally:
            transport.close_all()
        has_length = not {"content-length", "transfer-encoding"}.isdisjoint(response.headers)
        return ManifestAnswer(response.status_code, bytes(body), has_length)

    def _transport_to(self, url: httpx.URL) -> Transport:
        """With a connection for one request: a redirect may lead anywhere. Raises UnsupportedProtocol, and ValueError
        where its port is none."""
        if url.scheme not in ("http", "https") or not url.host:
            raise httpx.UnsupportedProtocol("it must begin with http:// or https:// and name a host")
        proxy = "" if proxy_bypass(url.host) else getproxies().get(url.scheme, "")
        if proxy and "://" not in proxy:
            proxy = f"http://{proxy}"  # as Go takes HTTP_PROXY=host:port
        return Transport(Server(str(url), proxy=proxy), self._authorities, connections_max=1)

    def _authorities(self) -> ssl.SSLContext:
        if self._trusted is None:
            self._trusted = ssl.create_default_context()  # some megabytes: once, and not for plain HTTP
        return self._trusted


def _octets(text: str) -> bytes:
    """As it was given: httpx takes texts that are ASCII only."""
    return text.encode(errors="surrogateescape")


def _with_login(headers: httpx.Headers, url: httpx.URL) -> httpx.Headers:
    if not url.userinfo:
        return headers
    login = b64encode(f"{url.username}:{url.password}".encode()).decode()
    shown = httpx.Headers(headers)
    shown["authorization"] = f"Basic {login}"
    return shown


def _for_redirect(headers: httpx.Headers, url: httpx.URL, there: httpx.URL) -> httpx.Headers:
    """Return the headers for the target of a redirect: those for one server stay with its host and port, and are not
    sent in the clear where it was not before."""
    if (url.host, url.port) == (there.host, there.port) and there.scheme in (url.scheme, "https"):
        return headers
    left = httpx.Headers(headers)
    for name in (*_FOR_ONE_SERVER, "host"):
        left.pop(name, None)
    return left
