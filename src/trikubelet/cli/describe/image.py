"""An image's description: all its names, and the containers made of it. Pure: records in, lines out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli.describe.layout import Layout
from trikubelet.cli.image_row import human_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trikubelet.model.k8s import Pod
    from trikubelet.server.agent_view import ImageNote


def describe_image(image: ImageNote, pods: Iterable[Pod]) -> list[str]:
    """The lines."""
    out = Layout()
    out.field(0, "ID", image.id)
    out.fields(0, "Tags", image.tags)
    out.fields(0, "Digests", image.digests)
    out.field(0, "Size", f"{human_size(image.size_bytes)} ({image.size_bytes} bytes)")
    out.field(0, "Pinned", "yes" if image.pinned else "no")
    out.fields(0, "Used By", _users(image, pods))
    return out.lines()


def _users(image: ImageNote, pods: Iterable[Pod]) -> Iterator[str]:
    """Containers that say they are made of it: runtimes tell the image's id or one of its digests."""
    names = {image.id, *image.digests, *image.tags}
    for pod in pods:
        status = pod.status
        if status is None:
            continue
        for one in (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses):
            if one.image_id in names or one.image in names:
                yield f"{pod.metadata.namespace}/{pod.metadata.name} {one.name}"
