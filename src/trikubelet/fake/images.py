"""The images of the fake runtime: any image can be pulled, at once, and its id is made from its name.

An image is present once it was pulled, or when a generated pod uses it. Images of registries below ``.invalid``, the
domain that does not exist by definition, cannot be pulled, to test that.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import ImageServiceBase
from trikubelet.model.runtime_errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trikubelet.cri.server import Stream


@lru_cache
def image_id(name: str) -> str:
    """The digest of an image of this name: the one in the name or reference, if any."""
    digest = name.rpartition("@")[2]
    return digest if digest.startswith("sha256:") else f"sha256:{sha256(name.encode()).hexdigest()}"


def image_ref(name: str) -> str:
    """The reference of an image of this name: its repository, and the digest."""
    repository, colon, tag = name.partition("@")[0].rpartition(":")
    untagged = repository if colon and "/" not in tag else name.partition("@")[0]
    return f"{untagged}@{image_id(name)}"


class FakeImages(ImageServiceBase):
    """The CRI's ImageService. Owns which images are present, by id."""

    def __init__(self, present: Iterable[str], now_ns: Callable[[], int]) -> None:
        self._names = {image_id(name): name for name in present}
        self._now_ns = now_ns

    async def ListImages(self, stream: Stream[pb.ListImagesRequest, pb.ListImagesResponse]) -> None:
        """Every image that is present, or the one asked for."""
        request = await stream.recv_message()
        assert request is not None
        await stream.send_message(pb.ListImagesResponse(images=self._found(request.filter.image.image)))

    async def StreamImages(self, stream: Stream[pb.StreamImagesRequest, pb.StreamImagesResponse]) -> None:
        """Return the same as a stream."""
        request = await stream.recv_message()
        assert request is not None
        await stream.send_message(pb.StreamImagesResponse(images=self._found(request.filter.image.image)))

    async def ImageStatus(self, stream: Stream[pb.ImageStatusRequest, pb.ImageStatusResponse]) -> None:
        """The image, or nothing."""
        request = await stream.recv_message()
        assert request is not None
        name = request.image.image
        await stream.send_message(pb.ImageStatusResponse(image=next(iter(self._found(name)), None) if name else None))

    async def PullImage(self, stream: Stream[pb.PullImageRequest, pb.PullImageResponse]) -> None:
        """The image is present from now on. Raises NotFound for one that cannot be pulled."""
        request = await stream.recv_message()
        assert request is not None
        name = request.image.image
        if name.partition("/")[0].partition(":")[0].endswith(".invalid"):
            raise NotFound(f"{name}: the fake runtime has every image but those of registries below .invalid")
        self._names[image_id(name)] = name
        await stream.send_message(pb.PullImageResponse(image_ref=image_id(name)))

    async def RemoveImage(self, stream: Stream[pb.RemoveImageRequest, pb.RemoveImageResponse]) -> None:
        """The image is not present any more, whether or not it was."""
        request = await stream.recv_message()
        assert request is not None
        self._names.pop(image_id(request.image.image), None)
        await stream.send_message(pb.RemoveImageResponse())

    async def ImageFsInfo(self, stream: Stream[pb.ImageFsInfoRequest, pb.ImageFsInfoResponse]) -> None:
        """The space that the images would take if they were real."""
        await stream.recv_message()
        usage = pb.FilesystemUsage(
            timestamp=self._now_ns(),
            fs_id=pb.FilesystemIdentifier(mountpoint="/"),
            used_bytes=pb.UInt64Value(value=sum(image.size for image in self._found(""))),
            inodes_used=pb.UInt64Value(value=len(self._names)),
        )
        await stream.send_message(pb.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage]))

    def _found(self, asked: str) -> list[pb.Image]:
        """The image of that name, id or reference; all of them for an empty one."""
        ids = [image_id(asked)] if asked else list(self._names)
        return [_as_wire(id_, self._names[id_]) for id_ in ids if id_ in self._names]


def _as_wire(id_: str, name: str) -> pb.Image:
    size = 20_000_000 + int(id_[-6:], 16)  # between 20 and 37 MB
    return pb.Image(id=id_, repo_tags=[name], repo_digests=[image_ref(name)], size=size, uid=pb.Int64Value(value=0))
