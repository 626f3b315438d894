"""A nursery that outlives its caller's cancellation, so that what runs in it can still serve while the caller ends.

    open_shielded_nursery(nursery) ──► tasks in ``.nursery``, shielded ──► ``cancel`` or ``drain``, always called

Trio's ``nursery.start`` cannot open one: when the caller is cancelled already, the task that it waits for is not handed
over to the nursery, and a task with a shield of its own then waits there for ever, and its caller with it.
"""

from __future__ import annotations

import trio


class ShieldedNursery:
    """Owns a shielded nursery and its end. An exception of a task in it goes on to the nursery it was opened in."""

    def __init__(self) -> None:
        self.nursery: trio.Nursery
        self._scope = trio.CancelScope(shield=True)  # its owner is the caller of ``open_shielded_nursery``
        self._no_more = trio.Event()

    async def hold(self, opened: trio.Event) -> None:
        """Called by ``open_shielded_nursery`` only."""
        with self._scope:
            async with trio.open_nursery() as self.nursery:
                opened.set()
                await self._no_more.wait()

    def cancel(self) -> None:
        """Cancel all tasks. One that needs to clean up shields that itself, with a deadline."""
        self._scope.cancel()

    def drain(self, seconds_max: float) -> None:
        """Let the tasks end by themselves, and cancel them after so long."""
        # The deadline first, so that nothing that goes wrong after it keeps the caller for ever.
        self._scope.deadline = trio.current_time() + seconds_max
        self._no_more.set()


async def open_shielded_nursery(nursery: trio.Nursery) -> ShieldedNursery:
    """Open one in ``nursery``; it is no point of cancellation. The caller must ``cancel`` or ``drain`` it, with no
    checkpoint between this and the ``try`` that does."""
    shielded, opened = ShieldedNursery(), trio.Event()
    nursery.start_soon(shielded.hold, opened)
    with trio.CancelScope(shield=True):  # its owner is ``hold``, which sets the event in its first step
        await opened.wait()
    return shielded
