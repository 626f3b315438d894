"""The images of the embedded runtime: ``host`` and the names under ``host/``, which all mean this machine.

There is nothing to pull and nothing to remove. Every other image is rejected with a message about the images that can
be run here and the runtime for others.
"""

# ruff: noqa: N802 - a servicer has the methods of the service
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trikubelet.core.containers.embedded_refusals import HOST, host_image
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import ImageServiceBase
from trikubelet.model.runtime_errors import NotFound, NotImplementedByRuntime, RuntimeFailure

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.cri.server import Stream
    from trikubelet.ports import Clock


def refusal(image: str) -> str:
    """Return why an image is not available here, with the remedy."""
    return (
        f'{image}: the embedded runtime has no images but this machine itself: write image "{HOST}" (or a name under '
        f"{HOST}/) to run its programs as they are. For other images, install containerd and start the agent with "
        "--container-runtime-endpoint=unix:///run/containerd/containerd.sock"
    )


def _as_wire(name: str) -> pb.Image:
    return pb.Image(
        id=name,
        repo_tags=[name],
        size=1,  # a kubelet takes 0 for an invalid answer
        uid=pb.Int64Value(value=os.geteuid()),
        spec=pb.ImageSpec(image=name),
        pinned=True,
    )


class HostImages(ImageServiceBase):
    """The CRI's ImageService. ``state_dir``: the directory of this runtime's few files."""

    def __init__(self, state_dir: Path, clock: Clock) -> None:
        self._state_dir = state_dir
        self._clock = clock

    async def ListImages(self, stream: Stream[pb.ListImagesRequest, pb.ListImagesResponse]) -> None:
        """The one image."""
        request = await stream.recv_message()
        assert request is not None
        asked = request.filter.image.image
        name = host_image(asked) if asked else HOST
        await stream.send_message(pb.ListImagesResponse(images=[_as_wire(name)] if name else []))

    async def StreamImages(self, stream: Stream[pb.StreamImagesRequest, pb.StreamImagesResponse]) -> None:
        """The one image, as a stream."""
        await stream.recv_message()
        await stream.send_message(pb.StreamImagesResponse(images=[_as_wire(HOST)]))

    async def ImageStatus(self, stream: Stream[pb.ImageStatusRequest, pb.ImageStatusResponse]) -> None:
        """The image, or nothing."""
        request = await stream.recv_message()
        assert request is not None
        name = host_image(request.image.image)
        await stream.send_message(pb.ImageStatusResponse(image=_as_wire(name) if name else None))

    async def PullImage(self, stream: Stream[pb.PullImageRequest, pb.PullImageResponse]) -> None:
        """Pull nothing: the image is this machine, or NOT_FOUND has the remedy."""
        request = await stream.recv_message()
        assert request is not None
        name = host_image(request.image.image)
        if name is None:
            raise NotFound(refusal(request.image.image))
        await stream.send_message(pb.PullImageResponse(image_ref=name))

    async def RemoveImage(self, stream: Stream[pb.RemoveImageRequest, pb.RemoveImageResponse]) -> None:
        """The machine itself is not removed; other images do not exist."""
        request = await stream.recv_message()
        assert request is not None
        if host_image(request.image.image) is not None:
            raise NotImplementedByRuntime(f"{HOST} is this machine: it cannot be removed")
        await stream.send_message(pb.RemoveImageResponse())

    async def ImageFsInfo(self, stream: Stream[pb.ImageFsInfoRequest, pb.ImageFsInfoResponse]) -> None:
        """The file system that holds the runtime's own files; images take no space."""
        await stream.recv_message()
        try:
            found = os.statvfs(self._state_dir)
        except OSError as error:  # the directory is gone, or its disk
            raise RuntimeFailure(f"{self._state_dir}: {error.strerror}") from error
        usage = pb.FilesystemUsage(
            timestamp=self._clock.now_ns(),
            fs_id=pb.FilesystemIdentifier(mountpoint=str(self._state_dir)),
            used_bytes=pb.UInt64Value(value=(found.f_blocks - found.f_bfree) * found.f_frsize),
            inodes_used=pb.UInt64Value(value=found.f_files - found.f_ffree),
        )
        await stream.send_message(pb.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage]))
