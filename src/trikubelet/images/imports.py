"""Images of the image directory: imported instead of pulled, and never garbage-collected.

    image missing ─► scan the directory ─► archives that have it ─► failed recently? ─► import ─► does the runtime
                                                                                           have it now?
    agent starts ─► scan ─► images of sandboxes (pause), which no container names and the runtime would pull
    images listed ─► scan ─► those of an archive count as pinned

A damaged file affects only its own images: it is logged once, and the others are imported. A failed import of an
archive is retried with exponential backoff, or at once when the file has changed. (docs/decisions/0045)
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from trikubelet.core.image_archives import commands, snapshotter, undo
from trikubelet.core.image_names import is_sandbox_image, normalized
from trikubelet.core.pull_failures import failed
from trikubelet.kit.failure_log import FailureLog
from trikubelet.model.errors import ImportFailed
from trikubelet.model.runtime_errors import NotImplementedByRuntime, RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.pull_failures import Failure
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.image_archives import Archive
    from trikubelet.model.registry import Login
    from trikubelet.model.runtime import ImageInfo
    from trikubelet.model.runtime_config import SandboxConfig
    from trikubelet.model.usage import ImageStores
    from trikubelet.ports import ImageDirectory, Images, Runtime

log = logging.getLogger(__name__)

APPEARS_SECONDS_MAX: Final = 10.0
"""How long an imported image may take to appear in the CRI's list. Measured: a few milliseconds."""
APPEARS_CHECK_SECONDS: Final = 0.05


class ArchiveImports:
    """Owns the names of the archived images as last read, the locks of archives that are being imported, and the
    failed imports. ``socket``: the path of the runtime's socket."""

    def __init__(
        self, directory: ImageDirectory, images: Images, runtime: Runtime, socket: str, bounds: Bounds
    ) -> None:
        self._directory = directory
        self._images = images
        self._runtime = runtime
        self._socket = socket
        self._bounds = bounds
        self._importing: dict[str, trio.Lock] = {}
        self._failures: dict[tuple[str, str], tuple[Archive, Failure]] = {}
        self._scanning = trio.Lock()
        self._names: frozenset[str] | None = None
        self._failure_log = FailureLog()

    async def bring(self, image: str) -> str | None:
        """See ``ports.ImageImports``. Archives are tried in the order of their names until one is imported."""
        try:
            name = normalized(image)
            archives = await self._scan()
        except OSError as error:
            raise ImportFailed(f"cannot read the image directory: {error.strerror or error}") from error
        problems: list[str] = []
        for archive in archives:
            if archive.find(name) is None:
                continue
            try:
                await self._alone(archive, name)
            except ImportFailed as error:
                problems.append(str(error))
            else:
                return archive.path
        if problems:
            raise ImportFailed("; ".join(problems))
        return None

    async def bring_sandbox_images(self) -> None:
        """See ``ports.ImageImports``."""
        for name in sorted(filter(is_sandbox_image, await self.names() or ())):
            with suppress(ImportFailed):  # already logged; without the archive the runtime pulls the image itself
                await self.bring(name)

    async def names(self) -> frozenset[str] | None:
        """Return the full names of all archived images, as last read; None if no scan has succeeded yet."""
        try:
            await self._scan()
        except OSError as error:
            if self._failure_log.may_log(""):
                log.warning("Cannot read the image directory; its images are not garbage-collected: %s", error)
        return self._names

    async def _scan(self) -> Sequence[Archive]:
        async with self._scanning:
            archives = await self._directory.scan()
        self._failure_log.works_again("")
        for archive in archives:
            if not archive.problem:
                self._failure_log.works_again(archive.path)
            elif self._failure_log.may_log(archive.path):
                log.warning("Ignoring image archive %s: %s", archive.path, archive.problem)
        self._names = frozenset(image.name for archive in archives for image in archive.images)
        paths = {archive.path for archive in archives}
        self._failures = {key: known for key, known in self._failures.items() if key[0] in paths}
        return archives

    async def _alone(self, archive: Archive, name: str) -> None:
        """Import one image of an archive, unless a concurrent import for another pod already did. Raises
        ImportFailed."""
        lock = self._importing.setdefault(archive.path, trio.Lock())
        try:
            async with lock:
                if await self._is_there(archive, name):
                    return
                self._check_backoff(archive, name)
                try:
                    await self._import(archive, name)
                except ImportFailed as error:
                    _, before = self._failures.get((archive.path, name), (archive, None))
                    self._failures[archive.path, name] = archive, failed(before, str(error), trio.current_time())
                    log.warning("Cannot import image %s: %s", name, error)
                    raise
                self._failures.pop((archive.path, name), None)
        finally:
            # A waiter holds this very lock object. Dropping it now would let the next pod import beside the waiter.
            if not lock.locked() and not lock.statistics().tasks_waiting:
                self._importing.pop(archive.path, None)

    def _check_backoff(self, archive: Archive, name: str) -> None:
        known, failure = self._failures.get((archive.path, name), (None, None))
        if failure is not None and known == archive and trio.current_time() < failure.at:
            raise ImportFailed(failure.message)

    async def _import(self, archive: Archive, name: str) -> None:
        image = archive.find(name)
        assert image is not None, "the caller chose an archive that has it"
        began = trio.current_time()
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                runtime, places = (await self._runtime.info()).name, await self._places()
        except (RuntimeCallError, trio.TooSlowError) as error:
            raise ImportFailed(f"{archive.path}: the runtime does not answer: {error}") from error
        # A tool imports the whole archive. After a failure only the images that were absent before may be removed.
        absent = [one for one in archive.images if not await self._is_there(archive, one.name)]
        try:
            for command in commands(runtime, self._socket, archive, image, snapshotter(places)):
                await self._directory.run(command)
        except ImportFailed as error:
            if command := undo(runtime, self._socket, absent):
                with suppress(ImportFailed):  # the failed import may have created none of them
                    await self._directory.run(command)
            raise ImportFailed(f"{archive.path}: {error}") from error
        if not await self._appears(archive, name):
            raise ImportFailed(f"{archive.path} was imported as {image.written}, but {runtime} has no image {name}")
        log.info("Imported image %s from %s in %.1f s", name, archive.path, trio.current_time() - began)

    async def _appears(self, archive: Archive, name: str) -> bool:
        """True once the runtime lists an imported image: containerd's CRI learns of it from an event."""
        with trio.move_on_after(APPEARS_SECONDS_MAX):
            while not await self._is_there(archive, name):  # noqa: ASYNC110 - the CRI has no event about it
                await trio.sleep(APPEARS_CHECK_SECONDS)
            return True
        return False

    async def _places(self) -> Sequence[str]:
        try:
            return [store.mount_point for store in (await self._images.stores()).images]
        except NotImplementedByRuntime:
            return ()

    async def _is_there(self, archive: Archive, name: str) -> bool:
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                return await self._images.image_status(name) is not None
        except (RuntimeCallError, trio.TooSlowError) as error:
            raise ImportFailed(f"{archive.path}: the runtime does not answer: {error}") from error


class PinnedImages:
    """The runtime's images, with those of the image directory marked as pinned: image garbage collection never removes
    them, because the node may be unable to pull. Until the directory has been read once, all images are pinned. Owns
    no state."""

    def __init__(self, images: Images, imports: ArchiveImports) -> None:
        self._images = images
        self._imports = imports

    async def list_images(self) -> Sequence[ImageInfo]:
        """See ``ports.Images``; the same holds for all methods below."""
        found, names = await self._images.list_images(), await self._imports.names()
        return [
            msgspec.structs.replace(one, pinned=True) if names is None or not names.isdisjoint(one.repo_tags) else one
            for one in found
        ]

    async def image_status(self, image: str) -> ImageInfo | None:
        return await self._images.image_status(image)

    async def pull_image(self, image: str, sandbox: SandboxConfig | None = None, login: Login | None = None) -> str:
        return await self._images.pull_image(image, sandbox, login)

    async def remove_image(self, image: str) -> None:
        await self._images.remove_image(image)

    async def stores(self) -> ImageStores:
        return await self._images.stores()
