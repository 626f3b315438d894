"""An image service in memory (``ports.Images``), with problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.runtime import ImageInfo
from trikubelet.model.runtime_errors import NotFound, RuntimeFailure
from trikubelet.model.usage import FsUsage, ImageStore, ImageStores
from trikubelet.testing.chance import Problems

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from trikubelet.model.registry import Login
    from trikubelet.model.runtime_config import SandboxConfig


class MemoryImages:
    """An image service in memory: it has the images it is given, and can pull what its registry has. ``private``:
    images that only certain logins may pull. ``pulls`` and ``logins`` are the requests, call by call."""

    def __init__(
        self,
        present: Sequence[str] = (),
        registry: Sequence[str] = (),
        problems: Problems | None = None,
        private: Mapping[str, Collection[Login]] | None = None,
    ) -> None:
        self._present = set(present)
        self._registry = set(registry)
        self._private = private or {}
        self._problems = problems or Problems()
        self.pulls: list[str] = []
        self.logins: list[Login | None] = []

    async def image_status(self, image: str) -> ImageInfo | None:
        """The image, or None."""
        await self._problems.before("ImageStatus")
        return ImageInfo(f"sha256:{image}", (image,), size_bytes=1000) if image in self._present else None

    async def pull_image(self, image: str, sandbox: SandboxConfig | None = None, login: Login | None = None) -> str:
        """Pull an image; its reference. Raises NotFound, and RuntimeFailure for a login without access."""
        await self._problems.before("PullImage")
        self.pulls.append(image)
        self.logins.append(login)
        if image in self._private and login not in self._private[image]:
            raise RuntimeFailure(f"{image}: {'insufficient_scope' if login else 'no basic auth credentials'}")
        if image not in self._registry and image not in self._private:
            raise NotFound(f"{image}: not found")
        self._present.add(image)
        return f"sha256:{image}"

    async def list_images(self) -> Sequence[ImageInfo]:
        """Every image on the node."""
        await self._problems.before("ListImages")
        return [ImageInfo(f"sha256:{image}", (image,), size_bytes=1000) for image in sorted(self._present)]

    async def remove_image(self, image: str) -> None:
        """Remove an image, by its name or id."""
        await self._problems.before("RemoveImage")
        self._present.discard(image.removeprefix("sha256:"))

    async def stores(self) -> ImageStores:
        """One place for everything."""
        await self._problems.before("ImageFsInfo")
        store = ImageStore("/", FsUsage(0, 1000 * len(self._present), len(self._present)))
        return ImageStores((store,), (store,))
