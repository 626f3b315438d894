"""What a caller of the node's API may do: everything (AlwaysAllow), or what the API server's authorizers say (Webhook).

A request needs one of the rights ``core.node_access`` names. Each is asked for on its own and remembered as long as the
configuration says, what is allowed and what is not for different times.
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
    """Owns who may do what, as far as that is remembered."""

    def __init__(self, rules: Rules, reviews: Reviews) -> None:
        self._mode = rules.mode
        self._reviews = reviews
        good, bad = rules.webhook.cache_authorized_ttl, rules.webhook.cache_unauthorized_ttl
        self._verdicts = ExpiringCache[bool](VERDICTS_KEPT_MAX, lambda allowed: good if allowed else bad)

    async def allows(self, caller: Caller, method: str, path: str) -> bool:
        """Whether the caller may ask for that. Raises ApiError when that cannot be found out."""
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
