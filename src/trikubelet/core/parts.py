"""Lists that came in parts: joins them into one list, and finds the pods by which to request parts.

``cri.lists`` requests a list in parts if it exceeds one message. The facts that it needs for that are read here from
the undecoded bytes, by the compiled ``trikubelet._relist`` or its twin. A message of 16 MiB takes some milliseconds, so
both work chunk by chunk and the caller can yield in between. Both raise ``core.relist.DecodeError``, with the
``offset`` in bytes, for unreadable bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trikubelet.core import parts_twin
from trikubelet.core.compiled import BACKEND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

if BACKEND == "rust":
    from trikubelet import _relist


def joined(
    parts: Sequence[Sequence[bytes]], *, is_sandbox: bool, backend: Literal["rust", "python"] = BACKEND
) -> Iterator[bytes]:
    """Yield the chunks of several parts as those of one list, of sandboxes or of containers, *the last first*. An item
    in more than one part is kept where it came last, and dropped from earlier parts.

    An id that is twice in one part stays so: the reader of the list rejects it. Releases the GIL."""
    joiner = _relist.Joiner(is_sandbox) if backend == "rust" else parts_twin.Joiner(is_sandbox)
    number = sum(map(len, parts))
    for part in reversed(parts):
        joiner.begin_part()
        for chunk in reversed(part):
            number -= 1
            yield joiner.add(chunk, number)


def pods_of(chunk: bytes, backend: Literal["rust", "python"] = BACKEND) -> dict[str, list[str]]:
    """Return the UIDs of the pods that have a sandbox in the chunk, by namespace; both sorted. Releases the GIL."""
    return _relist.pods_of(chunk) if backend == "rust" else parts_twin.pods_of(chunk)
