"""A watch under way: lines of JSON cut out of a response that ends when the server likes.

A server without news may be silent for as long as it was asked to keep the watch: for a kind that is never written it
has no bookmark to send either. One that is silent for longer is behind something that keeps the connection while the
server is gone: the kernel's probes (``dial``) do not see that, so the watch ends with ``ApiLost``. A caller that must
know sooner gives a silent watch up and begins another where it stopped, as the informer does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kube.errors import transport_errors
from trikubelet.kube.items import change_of
from trikubelet.model.api_errors import ApiFailure, ApiLost

if TYPE_CHECKING:
    from trikubelet.kube.transport import Body
    from trikubelet.model.api import Change

SILENT_SECONDS_MAX: Final = 630.0
"""Half a minute more than a server is ever asked to keep a watch (``client.WATCH_SECONDS``)."""
LINE_BYTES_MAX: Final = 10 * 1024 * 1024
"""etcd takes an object of 1.5 MiB, of which JSON makes nine: servers write each <, > and & in six characters. Were less
allowed, any user who may create a pod could break its node's watch with each change of it."""


class Watch:
    """Owns what has come of a watch's response and was not asked for yet. Iterates over changes."""

    def __init__(self, body: Body, server: str) -> None:
        self._chunks = body
        self._server = server
        self._unread = bytearray()
        self._searched = 0

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        """The next change. Ends when the server ends the watch, or this client closes its connections. Raises the
        errors of ``model.api_errors``."""
        while True:
            await trio.lowlevel.checkpoint()
            line = self._line()
            if line is not None:
                if line.strip():
                    return change_of(line)
            elif not await self._receive():
                if self._unread.strip():
                    raise ApiLost("the watch ended in the middle of a change")
                raise StopAsyncIteration

    def _line(self) -> bytes | None:
        """The next whole line, cut off; None when there is none yet."""
        end = self._unread.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._unread)
            return None
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        self._searched = 0
        return line

    async def _receive(self) -> bool:
        """Take in more. Whether there was more."""
        if len(self._unread) > LINE_BYTES_MAX:
            raise ApiFailure(f"the server's watch says something longer than {LINE_BYTES_MAX} bytes")
        with trio.move_on_after(SILENT_SECONDS_MAX) as waiting, transport_errors(self._server):
            try:
                chunk = await anext(self._chunks, b"")
            except trio.ClosedResourceError:
                # Closed by our own client, whose credentials have changed: the server did nothing, and is requested
                # again at once. A change that was cut off arrives again.
                self._unread.clear()
                return False
            self._unread += chunk
            return bool(chunk)
        assert waiting.cancelled_caught
        raise ApiLost(f"the watch of {self._server} was silent for {SILENT_SECONDS_MAX:g} s")

    def leave(self) -> None:
        """Give up what is still to come. Never blocks."""
        self._chunks.close()
