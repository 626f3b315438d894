"""Digests of status replies: sixteen bytes that change only if something that the agent reads changes.

PLEG requests the status of everything in a pod whenever it may have changed, and mostly it has not. Instead of decoding
each reply, its digest is computed; a known digest means a known status. Unused fields (times of the reply, mounts) and
the order of maps, which runtimes randomise, do not count. The fields that ``cri.from_wire`` makes records of count, no
more and no fewer, except a container's user, which never changes.

The compiled ``trikubelet._relist`` does the work, or the plain-Python twin if no binary can be loaded. The digests of
the two differ; each digester compares only with itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core import statuses_twin
from trikubelet.core.compiled import BACKEND

if TYPE_CHECKING:
    from typing import Literal

if BACKEND == "rust":
    from trikubelet import _relist

KEY_BYTES = 16


class StatusDigester:
    """Makes the digests of one ``key``: ``KEY_BYTES`` secret random bytes, so that a status with the digest of another
    cannot be forged."""

    def __init__(self, key: bytes, backend: Literal["rust", "python"] = BACKEND) -> None:
        self._inner = _relist.StatusDigester(key) if backend == "rust" else statuses_twin.StatusDigester(key)

    def sandbox(self, reply: bytes) -> bytes:
        """Return the digest of a ``PodSandboxStatusResponse``. Raises DecodeError, with the ``offset`` in bytes."""
        return self._inner.sandbox(reply)

    def container(self, reply: bytes) -> bytes:
        """Return the digest of a ``ContainerStatusResponse``. Raises DecodeError, with the ``offset`` in bytes."""
        return self._inner.container(reply)
