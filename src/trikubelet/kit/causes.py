"""The innermost error: libraries wrap the system's message in their own messages."""

from __future__ import annotations


def first_cause(error: BaseException) -> BaseException:
    """Return the first error in the chain of causes; the error itself if it has no cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
