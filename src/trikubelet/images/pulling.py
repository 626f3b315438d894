"""Records of an image's pulls that are under way, and of those that failed while others waited for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection

    from trikubelet.model.registry import Login


class FailedPull(Frozen):
    """A pull of an image that failed with each of these logins, why, and when (Trio's clock)."""

    logins: Collection[Login | None]
    why: str
    at: float


class Pulling(msgspec.Struct):
    """The lock of an image that is being pulled, and the pulls that failed while others waited for it."""

    lock: trio.Lock = msgspec.field(default_factory=trio.Lock)
    failures: list[FailedPull] = msgspec.field(default_factory=list)

    def why_in_vain(self, logins: Collection[Login | None], came: float) -> str | None:
        """Return why a pull with these logins would fail, if the caller, since then, has waited for such a one."""
        known = (one for one in self.failures if one.at >= came and set(logins) <= set(one.logins))
        return next((one.why for one in known), None)
