"""The rows of an image in a table, one for each of its names, like other CRI tools; and its description, with all its
names and the containers that use it. Pure: records in, lines out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.cli.describe.layout import Layout
from trikubelet.core.kubectl.words import NONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trikubelet.model.k8s import Pod
    from trikubelet.server.agent_view import ImageNote

ID_LETTERS: Final = 13
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def image_cells(image: ImageNote) -> Iterator[tuple[str, ...]]:
    """Yield the rows of an image: one for each tag; one without tags is named by its digest's repository."""
    id_ = image.id.removeprefix("sha256:")[:ID_LETTERS]
    tail = (id_, human_size(image.size_bytes), "yes" if image.pinned else "no")
    for name in image.tags:
        repository, colon, tag = name.rpartition(":")
        # After the colon of a registry's port there is a slash.
        yield (repository, tag, *tail) if colon and "/" not in tag else (name, NONE, *tail)
    if not image.tags:
        yield (image.digests[0].partition("@")[0] if image.digests else NONE, NONE, *tail)


def human_size(size_bytes: int) -> str:
    """Return bytes in thousands, with three digits: ``742kB``, ``3.8MB``."""
    size, unit = float(size_bytes), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g}{_UNITS[unit]}"


def describe_image(image: ImageNote, pods: Iterable[Pod]) -> list[str]:
    """Return the lines."""
    out = Layout()
    out.field(0, "ID", image.id)
    out.fields(0, "Tags", image.tags)
    out.fields(0, "Digests", image.digests)
    out.field(0, "Size", f"{human_size(image.size_bytes)} ({image.size_bytes} bytes)")
    out.field(0, "Pinned", "yes" if image.pinned else "no")
    out.fields(0, "Used By", _users(image, pods))
    return out.lines()


def _users(image: ImageNote, pods: Iterable[Pod]) -> Iterator[str]:
    """Yield the containers that use it: runtimes report the image's id or one of its digests."""
    names = {image.id, *image.digests, *image.tags}
    for pod in pods:
        status = pod.status
        if status is None:
            continue
        for one in (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses):
            if one.image_id in names or one.image in names:
                yield f"{pod.metadata.namespace}/{pod.metadata.name} {one.name}"
