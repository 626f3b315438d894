"""A nursery that survives its caller's cancellation, so that its tasks can still serve while the caller shuts down.

    open_shielded_nursery(nursery) ──► tasks in ``.nursery``, shielded ──► ``cancel`` or ``drain``, always called

Trio's ``nursery.start`` cannot open one: if the caller is cancelled already, the started task is not moved to the
nursery, and a task with its own shield then waits there for ever, together with its caller.
"""

from __future__ import annotations

import trio


class ShieldedNursery:
    """Owns a shielded nursery and its end. An exception of a task propagates to the nursery it was opened in."""

    def __init__(self) -> None:
        self.nursery: trio.Nursery
        self._scope = trio.CancelScope(shield=True)  # its owner is the caller of ``open_shielded_nursery``
        self._no_more = trio.Event()

    async def hold(self, opened: trio.Event) -> None:
        """Hold the nursery open. Called only by ``open_shielded_nursery``."""
        with self._scope:
            async with trio.open_nursery() as self.nursery:
                opened.set()
                await self._no_more.wait()

    def cancel(self) -> None:
        """Cancel all tasks. A task that needs to clean up must shield that itself, with a deadline."""
        self._scope.cancel()

    def drain(self, seconds_max: float) -> None:
        """Let the tasks end by themselves, and cancel them after this time."""
        # The deadline comes first, so that a failure after it cannot block the caller for ever.
        self._scope.deadline = trio.current_time() + seconds_max
        self._no_more.set()


async def open_shielded_nursery(nursery: trio.Nursery) -> ShieldedNursery:
    """Open a shielded nursery in ``nursery``. Not cancellable. The caller must ``cancel`` or ``drain`` it, without a
    checkpoint between this call and the ``try`` that does so."""
    shielded, opened = ShieldedNursery(), trio.Event()
    nursery.start_soon(shielded.hold, opened)
    with trio.CancelScope(shield=True):  # its owner is ``hold``, which sets the event in its first step
        await opened.wait()
    return shielded
