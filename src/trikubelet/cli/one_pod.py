"""A container runtime that shows only one pod (``ports.Runtime``).

It is for ``trikubelet run``, which exists for one pod, whatever else the runtime has. An agent treats a pod that no
manifest desires as an orphan and removes it; this one cannot, because it never sees one.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from trikubelet.cri.runtime import CriRuntime
from trikubelet.model.runtime_errors import NotImplementedByRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from trikubelet.cri.channel import Channel
    from trikubelet.model.runtime import ContainerEvent


class OnePodRuntime(CriRuntime):
    """``uid`` is the pod's."""

    def __init__(self, channel: Channel, uid: str) -> None:
        super().__init__(channel)
        self._uid = uid

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Return the undecoded list of the pod's sandboxes; empty for another pod."""
        if pod_uid in (None, self._uid):
            return await super().list_sandboxes(self._uid)
        await trio.lowlevel.checkpoint()
        return []

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """Return the undecoded list of the pod's containers; empty for another pod."""
        if pod_uid in (None, self._uid):
            return await super().list_containers(self._uid)
        await trio.lowlevel.checkpoint()
        return []

    @asynccontextmanager
    async def events(self) -> AsyncGenerator[AsyncIterator[ContainerEvent], None]:
        """Report no support for events: they would be about other pods, and the lists suffice."""
        yield _NoEvents()


class _NoEvents:
    def __aiter__(self) -> _NoEvents:
        return self

    async def __anext__(self) -> ContainerEvent:
        await trio.lowlevel.checkpoint()
        raise NotImplementedByRuntime("a runtime for one pod has no events")
