"""Records of the pulls of an image that are in progress, and of those that failed while other pods waited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection

    from trikubelet.model.registry import Login


class FailedPull(Frozen):
    """A pull of an image that failed with each of these logins, the reason, and the time (Trio's clock)."""

    logins: Collection[Login | None]
    why: str
    at: float


class Pulling(msgspec.Struct):
    """The lock of an image that is being pulled, and the pulls that failed while other pods waited for it."""

    lock: trio.Lock = msgspec.field(default_factory=trio.Lock)
    failures: list[FailedPull] = msgspec.field(default_factory=list)

    def why_in_vain(self, logins: Collection[Login | None], came: float) -> str | None:
        """Return the reason why a pull with these logins would fail, if such a pull failed since ``came``, the time at
        which the caller began to wait."""
        known = (one for one in self.failures if one.at >= came and set(logins) <= set(one.logins))
        return next((one.why for one in known), None)
