"""Settling: finishing what must not be torn apart, within a deadline.

A call that changes the world (create a container, remove a sandbox) may be in flight when its caller is cancelled. To
walk away would leave us not knowing whether it happened. ``settled`` keeps the caller until the call is over, shielded
from the cancellation, but never longer than its deadline: after that the call is given up and the world is read again
by the next caller.

``Bounds`` counts on it that the work of the agent, once cancelled, takes no longer than such a deadline. Beside it the
work has two shields: ``kit.program`` waits two seconds for what it has killed, which is never within a settled call nor
after one; ``node.log_rotation`` shares the time to settle between a rotation and its undoing. Those elsewhere
(services, connections, the embedded runtime) come after the work, in the time of the farewells, and have a deadline of
their own or an owner that ends them.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.barrier import is_invariant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = logging.getLogger(__name__)


@asynccontextmanager
async def settled(settle_seconds_max: float) -> AsyncIterator[None]:
    """Run the block to its end: once the surrounding scope is cancelled it has ``settle_seconds_max`` seconds more.

    A scope that is cancelled already does not enter the block. When it was cancelled meanwhile ``trio.Cancelled`` is
    raised at the block's end, and an error of the block is dropped. A broken invariant is raised whatever happens, as a
    group.
    """
    await trio.lowlevel.checkpoint_if_cancelled()  # behind the shield it would not be noticed
    shield = trio.CancelScope(shield=True)
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_limit_once_cancelled, shield, settle_seconds_max)
        try:
            with shield:
                yield
        except Exception as error:
            if is_invariant(error):
                raise
            failure = error  # raised from inside the nursery it would come out as a group
        nursery.cancel_scope.cancel()  # ends the other task, which otherwise waits for ever
    try:
        await trio.lowlevel.checkpoint_if_cancelled()
    except trio.Cancelled:
        if failure is not None:
            log.debug("A call has failed whose caller was cancelled meanwhile: %s", failure)
        raise
    if failure is not None:
        raise failure


async def _limit_once_cancelled(shield: trio.CancelScope, seconds: float) -> None:
    """Watch for the cancellation from outside: a task within the shield does not see it."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled:  # not raised again: ``settled`` does so once the block is over
        shield.deadline = trio.current_time() + seconds
