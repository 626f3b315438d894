"""Settling: finishing a call that must not be interrupted, within a deadline.

A call that changes state (create a container, remove a sandbox) may be in progress when its caller is cancelled. If the
caller left then, its result would be unknown. ``settled`` shields the call from the cancellation until it ends, but
never longer than its deadline: after that the call is abandoned, and the next caller reads the state again.

``Bounds`` relies on the fact that the agent's work, once cancelled, takes no longer than such a deadline. The work has
two other shields: ``kit.program`` waits two seconds for a killed program, never within a settled call nor after one;
``node.log_rotation`` divides the time to settle between a rotation and its undoing. Other shields (services,
connections, the embedded runtime) apply after the work, during the shutdown, and have their own deadline or an owner
that ends them.
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
    await trio.lowlevel.checkpoint_if_cancelled()  # inside the shield it would not be noticed
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
            failure = error  # raised inside the nursery, it would be wrapped in a group
        nursery.cancel_scope.cancel()  # ends the other task, which otherwise waits for ever
    # A cancelled caller gets Cancelled even after a success: a result would let it go on with its next call.
    try:
        await trio.lowlevel.checkpoint_if_cancelled()
    except trio.Cancelled:
        if failure is not None:
            log.debug("A call failed while its caller was cancelled: %s", failure)
        raise
    if failure is not None:
        raise failure


async def _limit_once_cancelled(shield: trio.CancelScope, seconds: float) -> None:
    """Start the deadline at the cancellation, which a task inside the shield cannot see."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled:  # not raised again: ``settled`` does so at the end of its block
        shield.deadline = trio.current_time() + seconds
