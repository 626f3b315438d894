"""Authentication of clients of the node's API: the first valid credential counts.

    client certificate, checked by TLS ─► still valid ─► CN is the user, O are the groups
    Authorization: Bearer … ─► TokenReview, cached ─► the user in the API server's answer
    the same token as a WebSocket protocol, as browsers must ─► the same
    no credential at all ─► system:anonymous, where that is allowed
    anything else ─► 401

A client with an invalid credential is never anonymous. TLS has rejected certificates of other authorities before a
request can arrive. Tokens are cached as digests only. (upstream-behaviour.md §1.21)
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Final

from trikubelet.kit.expiring_cache import ExpiringCache
from trikubelet.model.callers import ANONYMOUS, Caller, recognised
from trikubelet.server.web_socket import bearer_token

if TYPE_CHECKING:
    from trikubelet.httpd.messages import Request
    from trikubelet.model.kubelet_configuration import Authentication as Rules
    from trikubelet.ports import Clock
    from trikubelet.server.reviews import Reviews

HOLDERS_KEPT_MAX: Final = 2048
NOBODYS_KEPT_MAX: Final = 2048
TOKEN_BYTES_MAX: Final = 64 * 1024
"""A longer token is rejected. A service account's token has a few thousand bytes."""


class Authenticator:
    """Owns the cached TokenReview answers: the users of valid tokens, and the invalid tokens."""

    def __init__(self, rules: Rules, reviews: Reviews, clock: Clock) -> None:
        self._rules = rules
        self._reviews = reviews
        self._clock = clock
        seconds = rules.webhook.cache_ttl
        # Two caches, so that invented tokens cannot evict valid ones.
        self._holders = ExpiringCache[Caller | None](HOLDERS_KEPT_MAX, lambda holder: seconds if holder else 0)
        self._nobodys = ExpiringCache[Caller | None](NOBODYS_KEPT_MAX, lambda holder: 0 if holder else seconds)

    async def caller(self, request: Request) -> Caller | None:
        """Return the request's user, or None where it has no valid credential. Raises ApiError if the API server cannot
        review the token, and Crowded if too many reviews are queued."""
        shown = request.certificate
        if shown is not None and shown.common_name and shown.valid_at(self._clock.now_ns()):
            return recognised(shown.common_name, shown.organizations)
        if self._rules.webhook.enabled:
            try:
                token = bearer(request) or bearer_token(request)
            except ValueError:
                return None
            if token:
                return await self._holder(token, request.network)
        return ANONYMOUS if shown is None and self._rules.anonymous.enabled else None

    async def _holder(self, token: str, network: str) -> Caller | None:
        raw = token.encode()
        if len(raw) > TOKEN_BYTES_MAX:
            return None
        digest = hashlib.sha256(raw).digest()
        review = partial(self._reviews.holder, token, network)
        return await self._nobodys.get(digest, lambda: self._holders.get(digest, review))


def bearer(request: Request) -> str:
    """Return the request's bearer token; "" where it has none."""
    scheme, _, rest = request.headers.get("authorization", "").strip().partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else ""
