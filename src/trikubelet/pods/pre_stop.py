"""One run of a preStop hook, as a task next to the stop of its container.

The stop waits for a hook until the container's grace has expired, and then stops the container. The hook's call stays
open meanwhile: a runtime kills the command of a cancelled call, and a server notices a closed connection. Both would
interrupt work that upstream lets finish in the seconds that the container still has. The task is cancelled when the
container has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec import field

from trikubelet.model.runtime_errors import RuntimeUnavailable

if TYPE_CHECKING:
    from trikubelet.pods.hooks import Hooked, Hooks


class PreStopRun(msgspec.Struct):
    """Owns whether a preStop hook has ended (``over``), and with which error if the runtime went away during it
    (``lost``). ``has_expired`` is set by the task that no longer waits for it."""

    hooks: Hooks
    of: Hooked
    over: trio.Event = field(default_factory=trio.Event)
    lost: RuntimeUnavailable | None = None
    has_expired: bool = False

    async def run(self) -> None:
        """Run the hook to its end and report a failure. The loss of the runtime is left to the task that waits."""
        try:
            await self.hooks.pre_stop(self.of)
        except RuntimeUnavailable as error:
            self.lost = error
            if self.has_expired:
                self.hooks.pre_stop_was_cut(self.of, error, has_failed=True)
        except trio.Cancelled:
            # A sleep that is longer than the grace is no failure: it lasts until the end of the grace.
            if self.has_expired and not self._sleeps():
                self.hooks.pre_stop_outlasted(self.of)
            raise
        self.over.set()

    def _sleeps(self) -> bool:
        lifecycle = self.of.container.lifecycle
        return lifecycle is not None and lifecycle.pre_stop is not None and lifecycle.pre_stop.sleep is not None
