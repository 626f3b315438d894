"""A deadline for what a plugin is asked."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import trio

from trikubelet.model.plugins import PluginFailed

if TYPE_CHECKING:
    from collections.abc import Generator


@contextlib.contextmanager
def within(seconds: float) -> Generator[None, None, None]:
    """A deadline for the questions to a plugin in the block. Raises PluginFailed with gRPC's message when it has
    passed."""
    with trio.move_on_after(seconds) as patience:
        yield
    if patience.cancelled_caught:
        raise PluginFailed("DeadlineExceeded", "context deadline exceeded")
