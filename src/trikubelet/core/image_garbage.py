"""Which images are removed to free disk space, or because nobody used them for long.

    images on the node, image references in use ──► Seen: since when known, when last used ──► unused, oldest first

An image counts as used while a container has it, running or not. One is removed only some time after it was first
seen, so that an image just pulled is there when its container is created; pinned ones stay. (upstream:
image_gc_manager.go; upstream-behaviour.md §1.16)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trikubelet.model.runtime import ImageInfo
    from trikubelet.model.usage import FsUsage


@dataclass(frozen=True, slots=True)
class ImageRules:
    """``high_percent``: images are removed when so much of their disk is used, until it is ``low_percent``, 100 for
    never; none is removed before it was known for ``age_seconds_min``, and one that was not used for
    ``unused_seconds_max`` is removed anyway, 0 for never."""

    high_percent: int = 85
    low_percent: int = 80
    age_seconds_min: float = 120.0
    unused_seconds_max: float = 0.0

    @property
    def collects(self) -> bool:
        """Whether anything is ever removed by these rules."""
        return self.high_percent < 100 or self.unused_seconds_max > 0


class Seen(NamedTuple):
    """An image on the node; times in seconds of one clock. ``used``: when it was last in use, None while it was not
    seen in use."""

    image: ImageInfo
    since: float
    used: float | None = None
    in_use: bool = False

    @property
    def idle_since(self) -> float:
        """Since when nobody uses it, as far as is known."""
        return self.since if self.used is None else self.used


def look(
    before: Mapping[str, Seen],
    images: Iterable[ImageInfo],
    references: frozenset[str],
    now: float,
    known_for: float = 0.0,
) -> dict[str, Seen]:
    """What is known of each image, by its id, after a look: ``references`` are the names and ids in use. One that was
    not seen before counts as known for so many seconds: those that the agent's first look finds are not new."""
    found = {}
    for image in images:
        held = before.get(image.id, Seen(image, now - known_for))
        in_use = is_used(image, references)
        found[image.id] = Seen(image, held.since, now if in_use else held.used, in_use)
    return found


def is_used(image: ImageInfo, references: frozenset[str]) -> bool:
    """Whether one of these names and ids is the image's."""
    return not references.isdisjoint((image.id, *image.repo_tags, *image.repo_digests))


def removable(seen: Iterable[Seen], now: float, age_seconds_min: float) -> Sequence[Seen]:
    """Images that may be removed, those unused for the longest first."""
    unused = [one for one in seen if not one.in_use and not one.image.pinned and now - one.since >= age_seconds_min]
    return sorted(unused, key=lambda one: (one.idle_since, one.since, one.image.id))


def outdated(seen: Iterable[Seen], now: float, began: float, rules: ImageRules) -> Sequence[Seen]:
    """Of those the images that were not used for too long. None before the collection, which ``began`` then, has lasted
    so long: of the time before it nobody knows what was used."""
    if rules.unused_seconds_max <= 0 or now - began <= rules.unused_seconds_max:
        return ()
    may_go = removable(seen, now, rules.age_seconds_min)
    return [one for one in may_go if now - one.idle_since > rules.unused_seconds_max]


def bytes_to_free(disk: FsUsage, rules: ImageRules) -> int:
    """How much is to be freed of the images' disk for its usage to fall to the low threshold, 0 below the high one.
    Raises ValueError where its size is unknown or makes no sense."""
    capacity, available = disk.capacity_bytes, disk.available_bytes
    if not capacity or available is None:
        raise ValueError(f"invalid capacity {capacity or 0} on image filesystem")
    available = min(available, capacity)
    used_percent = 100 - available * 100 // capacity
    if rules.high_percent >= 100 or used_percent < rules.high_percent:
        return 0
    return max(0, capacity * (100 - rules.low_percent) // 100 - available)
