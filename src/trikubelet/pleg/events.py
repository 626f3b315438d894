"""The runtime's container events, taken as hints where to look.

An event is never the source of a status: it names a pod, and that pod is listed and inspected like any other. So an
event that is lost, late, repeated or wrong only changes when something is seen. The stream is opened again for ever,
whatever ended it; a runtime that has no events is asked again now and then, because it may be exchanged for a newer
one under a running agent.

Events count as *reliable* from the first one a stream has brought until that stream ends. That a stream is open
proves nothing: a runtime may never send on it, and one that is slow to refuse looks the same.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.instant import instant
from trikubelet.model.runtime_errors import NotImplementedByRuntime, RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.kit.backoff import Backoff
    from trikubelet.ports import Runtime

log = logging.getLogger(__name__)

ASK_AGAIN_SECONDS: Final = 600.0
"""How often a runtime without events is asked whether it has them now."""


class EventHints:
    """Owns since when the runtime's events can be relied on. ``request_relist`` is called for each pod that an event
    names, ``interrupted`` that what happens now may go unreported."""

    def __init__(
        self, runtime: Runtime, request_relist: Callable[[str], None], interrupted: Callable[[], None]
    ) -> None:
        self._runtime = runtime
        self._request_relist = request_relist
        self._interrupted = interrupted
        self.reliable_since: float | None = None
        """The instant of the first event of the stream that is open; None while events cannot be relied on."""
        self.received = 0
        self.streams = 0
        self.failures = 0

    async def follow(self, backoff: Backoff) -> None:
        """Take hints until cancelled."""
        is_logged = False
        while True:
            has_events = True
            try:
                await self._take_all(backoff)
            except NotImplementedByRuntime:
                has_events = False
                self.failures += 1
                if not is_logged:
                    log.info("The container runtime does not send events; relying on the relist alone")
                is_logged = True
            except RuntimeCallError as error:
                self.failures += 1
                log.debug("Container events were interrupted: %s", error)
            self.reliable_since = None
            self._interrupted()
            await trio.sleep(backoff.next_seconds() if has_events else ASK_AGAIN_SECONDS)

    async def _take_all(self, backoff: Backoff) -> None:
        async with self._runtime.events() as events:
            async for event in events:
                if self.reliable_since is None:
                    backoff.reset()
                    self.streams += 1
                    self.reliable_since = instant()
                self.received += 1
                if event.pod_uid:
                    self._request_relist(event.pod_uid)

    def __repr__(self) -> str:
        trust = "not to be relied on" if self.reliable_since is None else "reliable"
        return f"<EventHints {trust}, {self.received} came>"
