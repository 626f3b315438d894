"""Settling: finishing what must not be torn apart, within a deadline.

A call that changes the world (create a container, remove a sandbox) may be in flight when its caller is cancelled. To
walk away would leave us not knowing whether it happened. ``settle`` keeps the caller until the call is over, shielded
from the cancellation, but never longer than its deadline: after that the call is given up and the world is read again
by whoever comes next. In an attempt at a pod there is one more shield: ``kit.program`` waits two seconds for what
it has killed. Those elsewhere (services, connections, the embedded runtime) have a deadline of their own or an owner
that ends them.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.kit.barrier import is_invariant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

_UNHEARD: Final = "A call has failed whose caller was cancelled meanwhile: %s"

T = TypeVar("T")


async def settle(settle_seconds_max: float, call: Callable[[], Awaitable[T]]) -> T:
    """Run ``call``; once the surrounding scope is cancelled it has ``settle_seconds_max`` seconds more to finish.

    Returns what ``call`` returned and raises what it raised. When the surrounding scope was cancelled the outcome is
    dropped and ``trio.Cancelled`` is raised instead, after the call is over. A broken invariant is raised whatever
    happens, as a group, with the cancellation where there is one.
    """
    results: list[T] = []
    errors: list[Exception] = []
    shield = trio.CancelScope(shield=True)
    over = trio.Event()

    async def run_shielded() -> None:
        # Cancelled before the call began: it must not begin at all.
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            with shield:
                results.append(await call())
        except Exception as error:
            if is_invariant(error):
                raise  # past ``errors``: whether anybody is left to look there is not known yet
            if math.isinf(shield.deadline):
                errors.append(error)
            else:
                log.debug(_UNHEARD, error)
        over.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_shielded)
        try:
            await over.wait()
        except trio.Cancelled:
            shield.deadline = trio.current_time() + settle_seconds_max
            for error in errors:
                log.debug(_UNHEARD, error)
            raise
    if errors:
        raise errors[0]
    return results[0]
