"""The requests of probes and hooks to containers over the network, and their answers.

``core.handlers`` makes a target of a pod's spec, ``ports.Handlers`` sends the request, and the caller decides what the
answer means: to a probe a status of 500 is a failure, to a hook any answer will do.
"""

from __future__ import annotations

from enum import IntEnum
from urllib.parse import quote

from trikubelet.model.frozen import Frozen

_PATH_SAFE = "/%:@!$&'()*+,;=~-._?"


class HandlerInvalid(Exception):
    """The handler cannot be carried out as it is written, whatever the container does: a port of a name that no port
    has."""


class Unreachable(Exception):
    """The container could not be asked, or gave no answer that can be read. The message is for a user, in the words of
    upstream's kubelet where it has some."""


class NotTls(Unreachable):
    """The server that was asked by HTTPS answers in plain HTTP."""


class HttpTarget(Frozen):
    """One GET. ``scheme`` is ``http`` or ``https``; ``path`` begins with a slash and may have a query; ``headers`` are
    all that is sent, ``Host`` among them, in this order."""

    scheme: str
    host: str
    port: int
    path: str
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def authority(self) -> str:
        """Host and port as a URL has them, the address of IPv6 in brackets."""
        return authority(self.host, self.port)

    @property
    def url(self) -> str:
        """The whole as one text."""
        return f"{self.scheme}://{self.authority}{self.request_path}"

    @property
    def request_path(self) -> str:
        """The path as it goes on the wire: what a URL may not hold is escaped, what is escaped stays. A redirect may
        have bytes that are no UTF-8, which are surrogates here, and bytes again when they are escaped."""
        return quote(self.path, safe=_PATH_SAFE, errors="surrogateescape")


class HttpAnswer(Frozen):
    """How a GET ended, after the redirects that were followed; ``body`` is no more than its beginning."""

    status: int
    body: bytes = b""


class Health(IntEnum):
    """The states of gRPC's health protocol (grpc.health.v1), by wire number."""

    UNKNOWN = 0
    SERVING = 1
    NOT_SERVING = 2
    SERVICE_UNKNOWN = 3


def authority(host: str, port: int) -> str:
    """Host and port in one, the address of IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
