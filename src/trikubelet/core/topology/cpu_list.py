"""Lists of CPUs or NUMA nodes as the kernel, the runtime and upstream's state files write them: ``0-3,5``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ID_MAX: Final = 65_535
"""The highest id that is read. The kernel has at most 8,192 CPUs; a longer range in a damaged file must not fill the
memory."""
_PART: Final = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


def parse_list(text: str) -> frozenset[int]:
    """Return the ids of a list, in any order; none for an empty text. Raises ValueError, which names the part."""
    found: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        if (match := _PART.fullmatch(part)) is None:
            raise ValueError(f"invalid part {part!r} of the list {text!r}: must be a number or a range such as 0-3")
        first = int(match[1])
        last = int(match[2] or first)
        if first > last:
            raise ValueError(f"invalid range {part!r} of the list {text!r}: it runs backwards")
        if last > ID_MAX:
            raise ValueError(f"invalid part {part!r} of the list {text!r}: the highest id is {ID_MAX}")
        found.update(range(first, last + 1))
    return frozenset(found)


def list_text(ids: Iterable[int]) -> str:
    """Return the ids as a list: sorted, with ranges, empty for none."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _ranges(sorted(set(ids))))


def _ranges(ids: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for place in range(1, len(ids) + 1):
        if place == len(ids) or ids[place] != ids[place - 1] + 1:
            yield ids[start], ids[place - 1]
            start = place
