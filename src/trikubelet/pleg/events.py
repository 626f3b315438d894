"""The runtime's container events, used as hints for on-demand relists.

An event is never the source of a status: it names a pod, and that pod is listed and inspected like any other. So an
event that is lost, late, repeated or wrong only changes the time of an observation. The stream is reopened without end.
A runtime without events is asked again every ten minutes, because it may be upgraded under a running agent.

Events count as *reliable* from the first event of a stream until that stream ends. An open stream alone proves nothing:
a runtime may never send on it, and one that is slow to reject it looks the same.
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
"""Pause before a runtime without events is asked again."""


class EventHints:
    """Owns the time since which the runtime's events are reliable. ``request_relist`` is called for each pod that an
    event names, ``interrupted`` when events may be missed from now on."""

    def __init__(
        self, runtime: Runtime, request_relist: Callable[[str], None], interrupted: Callable[[], None]
    ) -> None:
        self._runtime = runtime
        self._request_relist = request_relist
        self._interrupted = interrupted
        self.reliable_since: float | None = None
        """The instant of the current stream's first event; None while events are not reliable."""
        self.received = 0
        self.streams = 0
        self.failures = 0

    async def follow(self, backoff: Backoff) -> None:
        """Receive events until cancelled."""
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
            # Also after an end without an error: until the next stream's first event, changes may go unnoticed.
            self.reliable_since = None
            self._interrupted()
            await trio.sleep(backoff.next_seconds() if has_events else ASK_AGAIN_SECONDS)

    async def _take_all(self, backoff: Backoff) -> None:
        async with self._runtime.events() as events:
            async for event in events:
                if self.reliable_since is None:
                    backoff.reset()  # only here: a stream that ends without an event must not be reopened at once
                    self.streams += 1
                    self.reliable_since = instant()
                self.received += 1
                if event.pod_uid:
                    self._request_relist(event.pod_uid)

    def __repr__(self) -> str:
        trust = "not reliable" if self.reliable_since is None else "reliable"
        return f"<EventHints {trust}, {self.received} received>"
