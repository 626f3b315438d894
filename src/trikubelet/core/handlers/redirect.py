"""Which redirects are followed: to the same host, whatever scheme, port and path, and not for ever.

A redirect to another host is not followed, so that a container cannot make the node ask whom it likes; its answer is
then the redirect itself (upstream: RedirectChecker).
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
    """For a message, which is UTF-8 to whoever gets it; a container's answer need not be."""
    return location.encode(errors="surrogateescape").decode(errors="replace")


def redirected(target: HttpTarget, status: int, location: str) -> HttpTarget | None:
    """Where an answer sends us, None when it is the last word. Raises Unreachable for a place that cannot be read."""
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
        # A place that names its host is asked under that name, one that does not under the name of the first.
        headers = tuple((name, following.authority if name == "Host" else value) for name, value in target.headers)
        following = replace(following, headers=headers)
    return following
