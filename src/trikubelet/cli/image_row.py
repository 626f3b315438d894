"""An image in a table: a row for each of its names, as other CRI tools print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.kubectl.blanks import NONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.server.agent_view import ImageNote

ID_LETTERS: Final = 13
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def image_cells(image: ImageNote) -> Iterator[tuple[str, ...]]:
    """The rows of an image: one for each tag; one that has none is named by its digest's repository."""
    id_ = image.id.removeprefix("sha256:")[:ID_LETTERS]
    tail = (id_, human_size(image.size_bytes), "yes" if image.pinned else "no")
    for name in image.tags:
        repository, colon, tag = name.rpartition(":")
        # The colon of a registry's port has a slash after it.
        yield (repository, tag, *tail) if colon and "/" not in tag else (name, NONE, *tail)
    if not image.tags:
        yield (image.digests[0].partition("@")[0] if image.digests else NONE, NONE, *tail)


def human_size(size_bytes: int) -> str:
    """Bytes in thousands, three digits of them: ``742kB``, ``3.8MB``."""
    size, unit = float(size_bytes), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g}{_UNITS[unit]}"
