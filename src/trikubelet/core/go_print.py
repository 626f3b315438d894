"""Values as Go's spew prints them, over which upstream's kubelet computes the checksums of its state files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def go_map(printed: Mapping[str, str] | Mapping[int, str]) -> str:
    """Return a map, sorted by its keys. ``printed``: its values, printed already."""
    return f"map[{' '.join(f'{key}:{value}' for key, value in sorted(printed.items()))}]"


def go_list(printed: Iterable[object]) -> str:
    """Return a slice of values without types."""
    return f"[{' '.join(map(str, printed))}]"
