"""Decides which redirects are followed: to the same host, with any scheme, port and path, up to a limit.

A redirect to another host is not followed, so that a container cannot direct the node's requests; then the redirect
itself is the answer (upstream: RedirectChecker).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from trikubelet.core.handlers.target import DEFAULT_PORTS
from trikubelet.model.handlers import Unreachable

if TYPE_CHECKING:
    from trikubelet.model.handlers import HttpTarget

REDIRECTS_MAX = 10
_STATUSES = frozenset({301, 302, 303, 307, 308})


def _printable(location: str) -> str:
    """Return the location for a message in UTF-8; a container's answer may have other bytes."""
    return location.encode(errors="surrogateescape").decode(errors="replace")


def redirected(target: HttpTarget, status: int, location: str) -> HttpTarget | None:
    """Return the target of a redirect; None if the answer is final. Raises Unreachable for an unreadable location."""
    if status not in _STATUSES or not location:
        return None
    try:
        place = urlsplit(urljoin(target.url, location))
        host, port = place.hostname or "", place.port
    except ValueError as error:
        why = f'failed to parse Location header "{_printable(location)}": {error}'
        raise Unreachable(f'Get "{target.url}": {why}') from error
    if host != target.host.lower():
        return None
    if place.scheme not in DEFAULT_PORTS:
        raise Unreachable(f'Get "{_printable(location)}": unsupported protocol scheme "{place.scheme}"')
    path = (place.path or "/") + (f"?{place.query}" if place.query else "")
    following = replace(target, scheme=place.scheme, port=port or DEFAULT_PORTS[place.scheme], path=path)
    if urlsplit(location).netloc:
        # A location with a host is requested with that Host header, one without keeps the first request's.
        headers = tuple((name, following.authority if name == "Host" else value) for name, value in target.headers)
        following = replace(following, headers=headers)
    return following
