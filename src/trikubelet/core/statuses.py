"""Whether a status reply says anything new: sixteen bytes that stand for what the agent reads of it.

PLEG asks for the status of everything a pod has whenever something may have happened to it, and mostly nothing has. The
replies are not decoded to find that out: each is digested, and one whose digest is known says what it said before. What
nobody reads (times of the reply, mounts) and the order of maps, which runtimes draw again each time, do not
count. What counts is what ``cri.from_wire`` makes records of, neither more nor less, but for a container's user, which
never becomes another.

The work is done by the compiled ``trikubelet._relist``, or by the plain-Python twin where no binary can be loaded. The
digests of the two differ; each digester compares with itself only.
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
    """Makes the digests of one ``key``: ``KEY_BYTES`` secret, random bytes, without which nobody can write a status
    that passes for another."""

    def __init__(self, key: bytes, backend: Literal["rust", "python"] = BACKEND) -> None:
        self._inner = _relist.StatusDigester(key) if backend == "rust" else statuses_twin.StatusDigester(key)

    def sandbox(self, reply: bytes) -> bytes:
        """Stands for what a ``PodSandboxStatusResponse`` says. Raises DecodeError, with the ``offset`` in bytes."""
        return self._inner.sandbox(reply)

    def container(self, reply: bytes) -> bytes:
        """Stands for what a ``ContainerStatusResponse`` says. Raises DecodeError, with the ``offset`` in bytes."""
        return self._inner.container(reply)
