"""The caller of the node's API: a user as Kubernetes has users, wherever it was learnt from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

AUTHENTICATED: Final = "system:authenticated"
"""The group of all recognised users."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A user. ``extra`` is what an authenticator adds for authorizers, by key; hashable, for answers are remembered
    by it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ANONYMOUS: Final = Caller("system:anonymous", groups=("system:unauthenticated",))


def recognised(
    name: str, groups: tuple[str, ...], uid: str = "", extra: dict[str, tuple[str, ...]] | None = None
) -> Caller:
    """A user who has proved who it is, and so is of one group more."""
    if AUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return Caller(name, uid, groups, tuple(sorted((extra or {}).items())))
