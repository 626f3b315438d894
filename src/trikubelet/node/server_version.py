"""The API server's version, which the node must not exceed by what it reports.

    joined ─► GET /version ─► known, and again every 10 minutes: an upgrade of the control plane shows in the node
                 └─► no answer: again with exponential backoff, and what was known before stays known

A server that does not show its version, by its access rules or because it has none, is polled again later.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.backoff import Backoff
from trikubelet.kit.listeners import Listeners
from trikubelet.model.api_errors import ApiError
from trikubelet.model.upstream import KUBERNETES_VERSION

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 600.0
JITTER: Final = 0.2
ANSWER_SECONDS_MAX: Final = 10.0
FIRST_SECONDS_MAX: Final = 3.0
"""How long the first status of a node waits for the version, so that a new node never reports one that is too new."""


class ServerVersion:
    """Owns the API server's last stated version; ``known`` is "" until then. ``changed`` notifies of another."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._asked = trio.Event()
        self.known = ""
        self.changed: Listeners[()] = Listeners("another version of the API server")

    async def run(
        self, ask: Callable[[], Awaitable[str]], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Poll until cancelled."""
        task_status.started()
        backoff = Backoff(1.0, LOOK_SECONDS, jitter=JITTER, chance=self._chance)
        while True:
            if await self._look(ask):
                backoff.reset()
                await trio.sleep(LOOK_SECONDS * (1 + JITTER * self._chance.random()))
            else:
                await trio.sleep(backoff.next_seconds())

    async def first(self) -> None:
        """Wait for the server's first answer of any kind, or for ``FIRST_SECONDS_MAX``."""
        with trio.move_on_after(FIRST_SECONDS_MAX):
            await self._asked.wait()

    async def _look(self, ask: Callable[[], Awaitable[str]]) -> bool:
        """Request it once. Returns True if the server stated its version."""
        try:
            with trio.fail_after(ANSWER_SECONDS_MAX):
                version = await ask()
        except (ApiError, trio.TooSlowError) as error:
            log.debug("The version of the API server is not known: %s", error)
            return False
        finally:
            self._asked.set()
        if version != self.known:
            log.info("The API server is %s; this agent follows %s", version, KUBERNETES_VERSION)
            self.known = version
            self.changed.notify()
        return True

    def __repr__(self) -> str:
        return f"<ServerVersion {self.known or 'not known'}>"
