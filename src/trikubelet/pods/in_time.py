"""A deadline for one call to the container runtime, so that one that hangs costs a sync, not the pod.

The effect of an abandoned call is unknown; the next sync observes it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from trikubelet.model.runtime_errors import RuntimeTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Raise RuntimeTimeout if the block takes longer than ``seconds``."""
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError as error:
        raise RuntimeTimeout(f"the container runtime did not answer within {seconds:.0f}s") from error
