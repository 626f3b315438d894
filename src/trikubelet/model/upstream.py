"""The release of Kubernetes that this agent follows: one constant, from which all else about it is derived.

`packaging/follow_upstream.py` raises it. The feature gates (``model.feature_gates``) are those of this release; the
version that the node reports begins with it (``app.release``), as do the user agents of probes and hooks.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

KUBERNETES_VERSION: Final = "v1.37.2"
"""The release whose API and behaviour this agent follows."""

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


class Minor(NamedTuple):
    """A minor version of Kubernetes, as 1.37."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def minor_of(version: str) -> Minor:
    """The minor version of a release, as of ``v1.37.2`` or ``1.37``. Raises ValueError."""
    if (found := _VERSION.match(version)) is None:
        raise ValueError(f"{version!r} is not a version of Kubernetes, such as {KUBERNETES_VERSION}")
    return Minor(int(found[1]), int(found[2]))


FOLLOWED: Final = minor_of(KUBERNETES_VERSION)
