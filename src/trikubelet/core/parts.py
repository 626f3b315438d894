"""Lists that came in parts: one list of them again, and the pods to ask for parts by.

``cri.lists`` asks for a list piece by piece where it exceeds one message. What it then has to know of the pieces is
read here from the undecoded bytes, by the compiled ``trikubelet._relist`` or its twin. A message of 16 MiB takes some
milliseconds, so both go chunk by chunk: whoever has more of them can let others run in between.
Both raise ``core.relist.DecodeError``, with the ``offset`` in bytes, for what cannot be read.
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
    """The chunks of several parts as those of one list, of sandboxes or of containers, *the last first*: what stands in
    more than one part is left where it came last, and dropped from where it came before.

    An id that stands twice in one part stays so: whoever reads the list refuses it. Releases the GIL."""
    joiner = _relist.Joiner(is_sandbox) if backend == "rust" else parts_twin.Joiner(is_sandbox)
    number = sum(map(len, parts))
    for part in reversed(parts):
        joiner.begin_part()
        for chunk in reversed(part):
            number -= 1
            yield joiner.add(chunk, number)


def pods_of(chunk: bytes, backend: Literal["rust", "python"] = BACKEND) -> dict[str, list[str]]:
    """The UIDs of the pods that have a sandbox in the chunk, by namespace; both sorted. Releases the GIL."""
    return _relist.pods_of(chunk) if backend == "rust" else parts_twin.pods_of(chunk)
