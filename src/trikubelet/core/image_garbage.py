"""Chooses the images to remove: to free disk space, or because they have long been unused.

    images on the node, image references in use ──► Seen: first seen, last used ──► unused, oldest first

An image counts as used while a container has it, running or not. An image is removed only some time after it was first
seen, so that a freshly pulled one is there when its container is created. Pinned images stay. (upstream:
image_gc_manager.go; upstream-behaviour.md §1.16)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trikubelet.model.runtime import ImageInfo
    from trikubelet.model.usage import FsUsage


class ImageRules(Frozen):
    """The limits. Above ``high_percent`` of disk usage (100: never), images are removed until usage is ``low_percent``.
    None is removed before it was known for ``age_seconds_min``. One that was unused for ``unused_seconds_max`` is
    removed anyway (0: never)."""

    high_percent: int = 85
    low_percent: int = 80
    age_seconds_min: float = 120.0
    unused_seconds_max: float = 0.0

    @property
    def collects(self) -> bool:
        """True if these rules ever remove an image."""
        return self.high_percent < 100 or self.unused_seconds_max > 0


class Seen(NamedTuple):
    """An image on the node; times in seconds of one clock. ``used``: when it was last in use; None if it was never seen
    in use."""

    image: ImageInfo
    since: float
    used: float | None = None
    in_use: bool = False

    @property
    def idle_since(self) -> float:
        """When the image was last in use, or else first seen."""
        return self.since if self.used is None else self.used


def look(
    before: Mapping[str, Seen],
    images: Iterable[ImageInfo],
    references: frozenset[str],
    now: float,
    known_for: float = 0.0,
) -> dict[str, Seen]:
    """Return the images with their times, by id. ``references``: names and ids in use. An image that is not in
    ``before`` counts as known for ``known_for`` seconds already, because images that the agent's first look finds are
    not new."""
    found = {}
    for image in images:
        held = before.get(image.id, Seen(image, now - known_for))
        in_use = is_used(image, references)
        found[image.id] = Seen(image, held.since, now if in_use else held.used, in_use)
    return found


def is_used(image: ImageInfo, references: frozenset[str]) -> bool:
    """True if one of these names and ids belongs to the image."""
    return not references.isdisjoint((image.id, *image.repo_tags, *image.repo_digests))


def removable(seen: Iterable[Seen], now: float, age_seconds_min: float) -> Sequence[Seen]:
    """Return the images that may be removed, the longest unused first."""
    unused = [one for one in seen if not one.in_use and not one.image.pinned and now - one.since >= age_seconds_min]
    return sorted(unused, key=lambda one: (one.idle_since, one.since, one.image.id))


def outdated(seen: Iterable[Seen], now: float, began: float, rules: ImageRules) -> Sequence[Seen]:
    """Return the images that were unused for too long. None is returned until the collection, which ``began`` then, has
    lasted that long, because use before it is unknown."""
    if rules.unused_seconds_max <= 0 or now - began <= rules.unused_seconds_max:
        return ()
    may_go = removable(seen, now, rules.age_seconds_min)
    return [one for one in may_go if now - one.idle_since > rules.unused_seconds_max]


def bytes_to_free(disk: FsUsage, rules: ImageRules) -> int:
    """Return how many bytes to free on the images' disk to lower its usage to the low threshold; 0 below the high one.
    Raises ValueError if its size is unknown or invalid."""
    capacity, available = disk.capacity_bytes, disk.available_bytes
    if not capacity or available is None:
        raise ValueError(f"invalid capacity {capacity or 0} on image filesystem")
    available = min(available, capacity)
    used_percent = 100 - available * 100 // capacity
    if rules.high_percent >= 100 or used_percent < rules.high_percent:
        return 0
    return max(0, capacity * (100 - rules.low_percent) // 100 - available)
