"""A container runtime of which nothing is seen but one pod (``ports.Runtime``).

For ``trikubelet run``, which lives for one pod, whatever else the runtime has. An agent takes what no manifest desires
for an orphan and removes it; this one cannot, since it never learns of it.
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
        """The undecoded list of the pod's sandboxes; of another pod there is nothing."""
        if pod_uid in (None, self._uid):
            return await super().list_sandboxes(self._uid)
        await trio.lowlevel.checkpoint()
        return []

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The undecoded list of the pod's containers; of another pod there is nothing."""
        if pod_uid in (None, self._uid):
            return await super().list_containers(self._uid)
        await trio.lowlevel.checkpoint()
        return []

    @asynccontextmanager
    async def events(self) -> AsyncGenerator[AsyncIterator[ContainerEvent], None]:
        """They would be about others' pods: there are none, and the lists show enough."""
        yield _NoEvents()


class _NoEvents:
    def __aiter__(self) -> _NoEvents:
        return self

    async def __anext__(self) -> ContainerEvent:
        await trio.lowlevel.checkpoint()
        raise NotImplementedByRuntime("a runtime for one pod has no events")
