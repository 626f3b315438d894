"""Authorization of the node's API: everything is allowed (AlwaysAllow), or the API server decides (Webhook).

A request needs one of the rights that ``core.node_access`` lists. Each right is reviewed separately. Answers are cached
for the configured times, which differ for allowed and denied rights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.node_access import subresources, verb
from trikubelet.kit.expiring_cache import ExpiringCache

if TYPE_CHECKING:
    from trikubelet.model.callers import Caller
    from trikubelet.model.kubelet_configuration import Authorization as Rules
    from trikubelet.server.reviews import Reviews

VERDICTS_KEPT_MAX: Final = 4096


class Authorizer:
    """Owns the cached SubjectAccessReview answers."""

    def __init__(self, rules: Rules, reviews: Reviews) -> None:
        self._mode = rules.mode
        self._reviews = reviews
        good, bad = rules.webhook.cache_authorized_ttl, rules.webhook.cache_unauthorized_ttl
        self._verdicts = ExpiringCache[bool](VERDICTS_KEPT_MAX, lambda allowed: good if allowed else bad)

    async def allows(self, caller: Caller, method: str, path: str) -> bool:
        """True if the caller may send such a request. Raises ApiError if the API server cannot review it."""
        if self._mode == "AlwaysAllow":
            return True
        for subresource in subresources(path):
            if await self._allows(caller, verb(method, path), subresource):
                return True
        return False

    async def _allows(self, caller: Caller, action: str, subresource: str) -> bool:
        return await self._verdicts.get(
            (caller, action, subresource), lambda: self._reviews.allows(caller, action, subresource)
        )
