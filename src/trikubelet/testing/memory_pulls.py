"""A node's pull records and its own logins, in memory. No disk, no threads, no programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.model.errors import LoginUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trikubelet.model.credential_plugin import CredentialPlugin
    from trikubelet.model.pull_records import PulledRecord
    from trikubelet.model.registry import Login


class MemoryPullRecords:
    """Owns the records (``ports.PullRecords``). Outlives the agent, like a disk. ``broken``: images, by the runtime's
    ids, whose record cannot be read; ``fails``: the error of every access, if any."""

    def __init__(self) -> None:
        self.records: dict[str, PulledRecord] = {}
        self.pulling: set[str] = set()
        self.broken: set[str] = set()
        self.fails: OSError | None = None

    async def pulled(self, image_ref: str) -> PulledRecord | None:
        """See ``ports.PullRecords``; so for all below."""
        await self._access()
        if image_ref in self.broken:
            raise ValueError(f"{image_ref}: JSON is malformed")
        return self.records.get(image_ref)

    async def all_pulled(self) -> Sequence[PulledRecord]:
        await self._access()
        return [record for image_ref, record in self.records.items() if image_ref not in self.broken]

    async def keep(self, record: PulledRecord) -> None:
        await self._access()
        self.records[record.image_ref] = record
        self.broken.discard(record.image_ref)

    async def forget(self, image_ref: str) -> None:
        await self._access()
        self.records.pop(image_ref, None)

    async def intend(self, image: str) -> None:
        await self._access()
        self.pulling.add(image)

    async def is_intended(self, image: str) -> bool:
        await self._access()
        return image in self.pulling

    async def intents(self) -> Sequence[str]:
        await self._access()
        return sorted(self.pulling)

    async def settle(self, image: str) -> None:
        await self._access()
        self.pulling.discard(image)

    async def _access(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.fails is not None:
            raise self.fails


class MemoryLogins:
    """Logins of a node (``ports.NodeLogins``). ``answers``: each plugin's answer, by its name; a missing one fails.
    ``asked``: the requests to them, in order."""

    def __init__(
        self,
        configured: Mapping[str, Login] | None = None,
        answers: Mapping[str, Callable[[bytes], bytes]] | None = None,
    ) -> None:
        self._configured = configured or {}
        self._answers = answers or {}
        self.asked: list[tuple[str, bytes]] = []

    async def configured(self) -> Mapping[str, Login]:
        """See ``ports.NodeLogins``; so for the other."""
        await trio.lowlevel.checkpoint()
        return self._configured

    async def ask(self, plugin: CredentialPlugin, request: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        self.asked.append((plugin.name, request))
        if plugin.name not in self._answers:
            raise LoginUnavailable("cannot be started: No such file or directory")
        return self._answers[plugin.name](request)
